"""Writes data/: a few small files of many kinds, some with a name that lies. The same bytes every time.

usage: python make_data.py
"""

import gzip
import io
import json
import random
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib
from pathlib import Path

DATA = Path(__file__).parent / "data"
LONG_AGO = (1980, 1, 1, 0, 0, 0)

SCRIPT = """#!/usr/bin/env python3
import sys

def fibonacci(count):
    first, second = 0, 1
    for _ in range(count):
        yield first
        first, second = second, first + second

if __name__ == "__main__":
    print(*fibonacci(int(sys.argv[1])), sep="\\n")
"""
C_PROGRAM = """#include <stdio.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

int main(void) {
    int numbers[] = {5, 3, 9, 1};
    qsort(numbers, 4, sizeof numbers[0], compare);
    for (int i = 0; i < 4; i++) printf("%d\\n", numbers[i]);
    return 0;
}
"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Harvest</title></head>
<body><h1>Harvest</h1><table><tr><th>fruit</th><th>kg</th></tr><tr><td>pear</td><td>41</td></tr></table></body>
</html>
"""
PROSE = """The storm came over the hill in the afternoon. We had just brought in the last of the hay, and the dog
would not leave the barn. By evening the brook stood in the lower meadow; by morning it was gone again, and had
taken the footbridge with it.
"""
QUERY = """SELECT fruit.name, sum(harvest.weight_kg) AS total_kg
FROM harvest JOIN fruit ON fruit.id = harvest.fruit_id
WHERE harvest.day >= DATE '2026-01-01'
GROUP BY fruit.name ORDER BY total_kg DESC;
"""


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for name, content in contents().items():
        (DATA / name).write_bytes(content)
        print(f"{len(content):7d}  {name}")


def contents() -> dict[str, bytes]:
    harvest = [{"fruit": fruit, "kg": kg, "ripe": kg > 20} for fruit, kg in (("pear", 41), ("plum", 17), ("quince", 8))]
    table = "fruit,kg,ripe\n" + "".join(f"{row['fruit']},{row['kg']},{row['ripe']}\n" for row in harvest * 12)
    return {
        # What they seem to be.
        "fibonacci.py": SCRIPT.encode(),
        "sort.c": C_PROGRAM.encode(),
        "harvest.html": PAGE.encode(),
        "storm.txt": PROSE.encode(),
        "totals.sql": QUERY.encode(),
        "harvest.csv": table.encode(),
        "picture.png": png(48, 48),
        "tone.wav": tone(),
        "letter.pdf": pdf(),
        "bundle.zip": zipped({"storm.txt": PROSE, "sort.c": C_PROGRAM}),
        "bundle.tar.gz": tarred({"storm.txt": PROSE, "sort.c": C_PROGRAM}),
        "harvest.sqlite": database(harvest),
        # Names that lie.
        "holiday.jpg": SCRIPT.encode(),
        "notes.txt": zipped({"storm.txt": PROSE}),
        "archive.zip": png(32, 32),
        # Names that say nothing.
        "README": json.dumps({"harvest": harvest}, indent=2).encode(),
        "data": QUERY.encode(),
        "Übermaß ☂.dat": PAGE.encode(),
        # Odd ones.
        "empty.json": b"",
        "one-byte.bin": b"\x00",
        "noise.bin": random.Random(7).randbytes(4096),
        "cut-off.png": png(48, 48)[:40],
    }


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = (b"\x00" + bytes(v for x in range(width) for v in (5 * x % 256, 5 * y % 256, 90)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def tone() -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(bytes(128 + (index * 440 // 8000 % 2) * 40 for index in range(2000)))
    return target.getvalue()


def pdf() -> bytes:
    text = b"BT /F1 18 Tf 72 720 Td (Dear reader, the footbridge is gone.) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
    ]
    document, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(document))
    return document + head + table + tail


def zipped(members: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), text)
    return target.getvalue()


def tarred(members: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(target.getvalue(), mtime=0)


def database(rows: list[dict[str, object]]) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE harvest (fruit TEXT, kg INTEGER, ripe INTEGER)")
    connection.executemany("INSERT INTO harvest VALUES (:fruit, :kg, :ripe)", rows)
    connection.commit()
    return connection.serialize()


if __name__ == "__main__":
    main()
