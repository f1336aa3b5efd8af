"""The log of SQLite cut at and inside every frame: what is found is what some commit left, and none acknowledged later.

The rows are those of a real engine at work; what is compared is all of them, whatever tables there are.
"""

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from placet.adapters.store import SqlStore, make_store
from placet.adapters.store.sqlite import Sqlite, SqliteLink
from placet.domain.records import Token
from placet.domain.spec import Output
from tests.support.scripts import works_fails_stopped
from tests.support.worlds import TENANT, process, start

LOG_HEADER_BYTES, FRAME_HEADER_BYTES, PAGE_BYTES = 32, 24, 4096
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What a commit left: the length of the log, and everything in the tables."""

    log_bytes: int
    content: str


class NotingLink(SqliteLink):
    """Notes what every commit of it leaves."""

    noting: "Noting"

    def commit(self) -> None:
        super().commit()
        self.noting.note()


class Noting(Sqlite):
    """A file whose commits are all noted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.marks: list[Mark] = []

    @property
    def log(self) -> Path:
        return Path(f"{self.path}-wal")

    def connect(self, *, writes: bool) -> SqliteLink:
        link = super().connect(writes=writes)
        if writes:
            link.__class__ = NotingLink
            assert isinstance(link, NotingLink)
            link.noting = self
        return link

    def note(self) -> None:
        self.marks.append(Mark(log_bytes=self.log.stat().st_size, content=content_of(self.path)))


def content_of(file: Path) -> str:
    """A digest of all rows of all tables."""
    digest = hashlib.sha256()
    with closing(sqlite3.connect(file)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for (table,) in tables:
            rows = sorted(map(repr, connection.execute(f'SELECT * FROM "{table}"')))
            digest.update("\n".join([table, *rows]).encode())
    return digest.hexdigest()


async def life(folder: Path, database: Noting) -> None:
    """A bit of everything that writes."""
    provider = works_fails_stopped(folder)
    plane = await start("sqlite:///unused", folder, provider, through=lambda _: SqlStore(database, readers=1))
    output = (Output(name="answer", path="answer.txt"),)
    ids = [
        await plane.submit(process("works", outputs=output, labels=(("a", "b"),)), key="works"),
        await plane.submit(process("fails"), key="fails"),
        await plane.submit(process("stopped"), key="stopped"),
    ]
    await plane.store.secret("quotes")
    token = Token(id="t" * 16, digest="d", name="n", tenant=TENANT, scopes=("operator",), created_ms=1)
    await plane.store.add_token(token)
    await plane.until(ids[2], lambda record: record.current is not None, "an attempt")
    assert await plane.intake.cancel(TENANT, ids[2], "test") is not None
    for workload_id in ids:
        await plane.finished(workload_id)
    await plane.store.revoke_token(token.id, 2)
    await plane.reconciler.stop()
    await asyncio.gather(plane.loop, return_exceptions=True)


@pytest.mark.timeout(180)
async def test_a_log_cut_anywhere_holds_exactly_what_some_commit_left(tmp_path: Path) -> None:
    database = Noting(tmp_path / "data" / "placet.db")
    database.prepare()
    with closing(sqlite3.connect(database.path)) as keeper:  # the log stays as long as somebody has it open
        keeper.execute("SELECT count(*) FROM sqlite_master")
        before = content_of(database.path)
        start_bytes = database.log.stat().st_size
        await life(tmp_path, database)
        whole, main = database.log.read_bytes(), database.path.read_bytes()
    marks = [Mark(log_bytes=start_bytes, content=before), *database.marks]
    assert len({mark.content for mark in marks}) > 8
    frames = (len(whole) - LOG_HEADER_BYTES) // FRAME_BYTES
    assert marks[-1].log_bytes == len(whole), "no checkpoint may come in between"
    first = max(start_bytes - LOG_HEADER_BYTES, 0) // FRAME_BYTES
    copy = tmp_path / "copy"
    copy.mkdir()
    for number in range(first, frames + 1):
        for inside in (0, 1, FRAME_HEADER_BYTES + 100, FRAME_BYTES - 1):
            size = min(LOG_HEADER_BYTES + number * FRAME_BYTES + inside, len(whole))
            check_cut(copy, main, whole[:size], size, marks)
        # A page of which only the beginning was written; the rest is what was there before.
        size = min(LOG_HEADER_BYTES + number * FRAME_BYTES + FRAME_HEADER_BYTES + 100, len(whole))
        check_cut(copy, main, whole[:size] + bytes(FRAME_BYTES), size, marks)
    for mark in marks[1:]:
        await check_reopened(copy, main, whole[: mark.log_bytes])


def write_copy(copy: Path, main: bytes, log: bytes) -> Path:
    for old in copy.iterdir():
        old.unlink()
    (copy / "placet.db").write_bytes(main)
    (copy / "placet.db-wal").write_bytes(log)
    return copy / "placet.db"


def check_cut(copy: Path, main: bytes, log: bytes, sound_bytes: int, marks: list[Mark]) -> None:
    acknowledged = [mark for mark in marks if mark.log_bytes <= sound_bytes]
    file = write_copy(copy, main, log)
    found = content_of(file)
    known = [number for number, mark in enumerate(marks) if mark.content == found]
    assert known, f"{len(log)} bytes of log hold what no commit left"
    assert known[-1] >= len(acknowledged) - 1, f"{len(log)} bytes of log lack what was acknowledged"
    if sound_bytes == acknowledged[-1].log_bytes:
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]


async def check_reopened(copy: Path, main: bytes, log: bytes) -> None:
    """The store itself opens it and writes on."""
    store = make_store(f"sqlite:///{write_copy(copy, main, log)}", readers=1)
    await store.open()
    await store.beat("somebody", 1)
    await store.counts()
    await store.close()
