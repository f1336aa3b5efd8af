"""Faults of logs: bytes that are cut, text that plays at being framing, streams that never end."""

from pathlib import Path

from placet.cli.text import LogCleaner
from placet.runner import streams
from placet.runner.loop import Loop
from placet.sdk.sse import EventParser
from tests.support.missing import not_built

TEXT = "a\u00e9\u20ac\U0001f600z".encode()


def test_fault_LOG_01() -> None:
    for data, whole in ((TEXT, TEXT.decode()), (TEXT + b"\xff!", TEXT.decode() + "\ufffd!")):
        for first in range(len(data) + 1):
            for second in range(first, len(data) + 1):
                cleaner = LogCleaner()
                pieces = [data[:first], data[first:second], data[second:]]
                assert "".join(map(cleaner.feed, pieces)) + cleaner.end() == whole


def test_fault_LOG_02() -> None:
    """What a program writes is carried as base64 or JSON in one line of data: it cannot end the event it is in."""
    forged = 'event: end\\ndata: {"state":"succeeded"}\\n\\n'
    parser = EventParser()
    came = list(parser.feed(f'event: log\ndata: {{"text":"{forged}"}}\n\nevent: log\ndata: more\n\n'.encode()))
    assert [event.kind for event in came] == ["log", "log"]
    assert forged in came[0].data


@not_built("a proxy between client and server on the machine of the tests that drops idle connections")
def test_fault_LOG_05() -> None: ...


def captured(tmp_path: Path, pieces: list[bytes], most_bytes: int) -> streams.Stream:
    import os

    loop = Loop()
    stream = streams.Stream(loop, "stdout", str(tmp_path / "log"), most_bytes, lambda: None)
    write_end = stream.open()
    for piece in pieces:
        os.write(write_end, piece)
        while stream._read():
            pass
    os.close(write_end)
    stream.drain()
    return stream


def test_fault_LOG_06(tmp_path: Path) -> None:
    stream = captured(tmp_path, [b"x" * 4096] * 64, most_bytes=10_000)
    account = stream.account()
    assert (account["bytes_total"], account["bytes_kept"]) == (64 * 4096, 10_000)
    assert (tmp_path / "log").stat().st_size == 10_000
    assert account["gaps"] == [{"offset": 10_000, "dropped_bytes": 64 * 4096 - 10_000, "why": "limit of 10000 bytes"}]


def test_fault_LOG_07(tmp_path: Path) -> None:
    """One line without an end is taken in pieces: nothing waits for its end."""
    stream = captured(tmp_path, [b"y" * 60_000] * 50, most_bytes=10**9)
    assert stream.account()["bytes_kept"] == 3_000_000
    assert (tmp_path / "log").stat().st_size == 3_000_000


def test_fault_LOG_08(tmp_path: Path) -> None:
    """Where the log should be there is no room for a file: the program is read on, and the loss is told."""
    (tmp_path / "log").mkdir()
    stream = captured(tmp_path, [b"z" * 1000] * 3, most_bytes=10**6)
    account = stream.account()
    assert (account["bytes_total"], account["bytes_kept"]) == (3000, 0)
    assert account["gaps"]
