"""Disk full, I/O error, lock: each call to the database and to the artifacts' disk fails once, one after the other.

Until a life passes in which nothing was left to fail. Whoever asked was told the truth: after an error it is right to
ask again with the same key, and an answer holds. Afterwards everything ends, and nothing was done twice.
"""

import asyncio
import errno
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.store import SqlStore
from placet.adapters.store.sqlite import Sqlite, SqliteLink
from placet.domain.errors import StoreBusy, StoreError
from placet.domain.failures import Cause
from placet.domain.records import Record
from placet.domain.spec import Output, RetryPolicy
from placet.domain.states import WorkloadState
from placet.engine.intake import Submission, Submitted
from placet.engine.reconcile import ReconcileOptions
from placet.testing.scripted import ScriptedProvider
from tests.support.scripts import works_fails_stopped
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, process, start

W = WorkloadState
# Every so many calls; 1 is every one of them, 0 the short form.
EVERY = int(os.environ.get("SWEEP_EVERY", "0"))
CALLS_MOST = 1000
AT_A_TIME = 8
PATIENCE_S = 20
BRISK = ReconcileOptions(
    worker="w", owner_timeout_s=1.0, takeover_poll_s=0.2, beat_s=0.4, observe_every_s=0.2, store_retry_s=0.01
)
# Only commits count, and they fail when they are done.
UNANSWERED = "unanswered"
DISK = {"full": errno.ENOSPC, "broken": errno.EIO}
DATABASE = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "broken": (sqlite3.SQLITE_IOERR, "disk I/O error"),
    "locked": (sqlite3.SQLITE_BUSY, "database is locked"),
    UNANSWERED: (sqlite3.SQLITE_IOERR, "disk I/O error"),
}
SHORT_EVERY = {"full": 39, "broken": 39, "locked": 39, UNANSWERED: 6}


@dataclass(kw_only=True)
class Countdown:
    """Fails the call of a number."""

    at: int
    count: int = 0
    failed: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fails(self, what: str) -> bool:
        with self.lock:
            self.count += 1
            if self.count != self.at:
                return False
            self.failed = what
            return True


class FailingCursor:
    """A cursor of which one call fails, before it does anything, or ``late``."""

    def __init__(self, cursor: Any, countdown: Countdown, error: Callable[[], Exception], *, late: bool) -> None:
        self._cursor = cursor
        self._late = late
        self._countdown = countdown
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, text: str, params: Any = ()) -> object:
        if not self._late:
            self._perhaps(text)
        outcome = self._cursor.execute(text, params)
        if self._late and text == "COMMIT":
            self._perhaps(text)
        return outcome

    def executemany(self, text: str, params: Any) -> object:
        if not self._late:
            self._perhaps(text)
        return self._cursor.executemany(text, params)

    def _perhaps(self, text: str) -> None:
        if self._countdown.fails(text.split("\n", 1)[0][:60]):
            raise self._error()


class Failing(Sqlite):
    """A database of whose calls one fails, by whichever connection."""

    def __init__(self, path: Path, kind: str, at: int) -> None:
        super().__init__(path)
        self.countdown = Countdown(at=at)
        self._kind = kind

    def connect(self, *, writes: bool) -> SqliteLink:
        link = super().connect(writes=writes)
        link.cursor = FailingCursor(link.cursor, self.countdown, self._error, late=self._kind == UNANSWERED)
        return link

    def _error(self) -> Exception:
        code, text = DATABASE[self._kind]
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode = code
        return error


class FailingDisk:
    """Of the calls that touch what is below a folder, one fails. A hook stays as long as the process."""

    OPERATIONS = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.chmod", "shutil.copyfile"})

    def __init__(self) -> None:
        self._folders: dict[str, tuple[Countdown, int]] = {}
        self._true_fsync = os.fsync
        sys.addaudithook(self._heard)

    def watch(self, folder: Path, countdown: Countdown, number: int) -> None:
        self._folders[str(folder)] = (countdown, number)

    def forget(self) -> None:
        self._folders.clear()

    def fsync(self, descriptor: int) -> None:
        self._perhaps("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
        self._true_fsync(descriptor)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._folders and event in self.OPERATIONS:
            for argument in arguments:
                if isinstance(argument, str | os.PathLike):
                    self._perhaps(event, os.fspath(argument))
                    return

    def _perhaps(self, what: str, path: str | bytes) -> None:
        for folder, (countdown, number) in self._folders.items():
            if str(path).startswith(folder) and countdown.fails(f"{what} {path!r}"):
                raise OSError(number, os.strerror(number), str(path))


@pytest.fixture(scope="module")
def disk() -> FailingDisk:
    return FailingDisk()


@dataclass(kw_only=True)
class Told:
    """What a client remembers of its requests."""

    ids: dict[str, str] = field(default_factory=dict)
    errors: list[StoreError] = field(default_factory=list)


async def submitted(plane: ControlPlane, told: Told, command: str, **fields: object) -> str:
    """Ask until there is an answer; after an error that says so, nothing may have been written."""
    spec = process(command, **fields)
    while True:
        try:
            outcome = await plane.intake.submit(Submission(tenant=TENANT, spec=spec, key=command, actor="test"))
        except StoreError as error:
            told.errors.append(error)
        else:
            break
        known = await patiently(lambda: plane.store.submission(TENANT, command))
        assert known is None or not isinstance(told.errors[-1], StoreBusy), "told that nothing was written"
    assert isinstance(outcome, Submitted), outcome
    return told.ids.setdefault(command, outcome.workload.id)


async def patiently(read: Callable[[], Any]) -> Any:
    """A read that failed once is made again."""
    try:
        return await read()
    except StoreError:
        return await read()


async def life(folder: Path, database: Failing, countdown: Countdown, *, may_break: bool = False) -> None:
    """Submit, run, fail, cancel, deliver: all of it ends right, whichever call failed."""
    provider = works_fails_stopped(folder)
    plane = await start(
        "sqlite:///unused",
        folder,
        provider,
        options=BRISK,
        through=lambda _: SqlStore(database, readers=1),
    )
    told = Told()
    twice = RetryPolicy(attempts=2, backoff_s=Decimal("0.01"))
    try:
        await submitted(plane, told, "works", outputs=(Output(name="answer", path="answer.txt"),))
        await submitted(plane, told, "fails", retry=twice)
        stopped = await submitted(plane, told, "stopped")
        assert await patiently(lambda: plane.intake.cancel(TENANT, stopped, "test")) is not None
        await wait_until_async(lambda: at_rest(plane, told), PATIENCE_S, f"the end after {countdown.failed}")
        countdown.at = 0  # what is left is only to look
        await check(plane, told, provider, may_break=may_break)
    finally:
        await plane.kill()
    with sqlite3.connect(database.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


async def at_rest(plane: ControlPlane, told: Told) -> bool:
    """Everything has ended and is released."""
    if plane.loop.done():
        plane.loop.result()
    try:
        records = [await plane.record(workload_id) for workload_id in told.ids.values()]
    except StoreError:
        return False
    return all(record.workload.final and (record.workload.wake_ms is None or undelivered(record)) for record in records)


def undelivered(record: Record) -> bool:
    """What was computed and could not be delivered: said, and kept where it is."""
    failure = record.workload.failure
    return record.workload.compute_done and failure is not None and failure.cause is Cause.DELIVERY


async def check(plane: ControlPlane, told: Told, provider: ScriptedProvider, *, may_break: bool) -> None:
    works = await patiently(lambda: plane.record(told.ids["works"]))
    wanted = {"works": (W.SUCCEEDED, (1,)), "fails": (W.FAILED, (2,)), "stopped": (W.CANCELLED, (0, 1))}
    starts = Counter(workload_id for workload_id, _ in provider.ran)
    assert max(Counter(provider.ran).values(), default=1) == 1, "an attempt was started twice"
    delivered = not (may_break and undelivered(works))
    for command, (state, times) in wanted.items():
        record = await patiently(lambda: plane.record(told.ids[command]))  # noqa: B023 - called here
        assert record.workload.state is state or (record == works and not delivered), record.workload
        assert starts[record.workload.id] in times, f"{command}: {provider.ran}"
    if delivered:
        found = await plane.queries.artifact(TENANT, works.workload.id, "answer.txt", None)
        assert found is not None
        assert b"".join([piece async for piece in plane.queries.artifact_bytes(found, 0, found.size_bytes)]) == b"42\n"
    kept = () if delivered else (works.attempts[-1].key,)
    assert all(held.released for key, held in provider.allocations.items() if key not in kept)
    assert starts.keys() <= set(told.ids.values()), "something ran that nobody was told of"


async def sweep(one: Callable[[int], Any], every: int) -> int:
    """Numbers in groups until one of a group had nothing left to fail; how many calls there were."""
    last = 0
    for first in range(1, CALLS_MOST, every * AT_A_TIME):
        numbers = [first + every * turn for turn in range(AT_A_TIME)]
        counted = dict(zip(numbers, await asyncio.gather(*map(one, numbers)), strict=True))
        last = max([last, *(number for number, countdown in counted.items() if countdown.failed)])
        if not all(countdown.failed for countdown in counted.values()):
            print(f"{last} calls")  # noqa: T201 - how long the sweep was
            return last
    raise AssertionError("the calls never ended")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", DATABASE)
async def test_any_call_to_the_database_may_fail(tmp_path: Path, kind: str) -> None:
    async def one(number: int) -> Countdown:
        folder = tmp_path / str(number)
        folder.mkdir()
        database = Failing(folder / "data" / "placet.db", kind, number)
        try:
            await life(folder, database, database.countdown)
        except AssertionError as error:
            raise AssertionError(f"call {number}, {database.countdown.failed}: {error}") from error
        return database.countdown

    assert await sweep(one, EVERY or SHORT_EVERY[kind]) > 10


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", DISK)
async def test_any_call_to_the_disk_of_the_artifacts_may_fail(
    tmp_path: Path, kind: str, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", disk.fsync)

    async def one(number: int) -> Countdown:
        folder = tmp_path / str(number)
        folder.mkdir()
        countdown = Countdown(at=number)
        disk.watch(folder / "artifacts", countdown, DISK[kind])
        try:
            database = Failing(folder / "data" / "placet.db", "full", -1)
            await life(folder, database, countdown, may_break=kind == "broken")
        except AssertionError as error:
            raise AssertionError(f"call {number}, {countdown.failed}: {error}") from error
        return countdown

    try:
        assert await sweep(one, EVERY or 9) > 10
    finally:
        disk.forget()
