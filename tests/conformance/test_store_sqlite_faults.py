"""SQLite when things go wrong: killed processes, cut logs, full disks, other users of the file."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.store import SqlStore, make_store, sqlite
from placet.adapters.store.sqlite import Sqlite, SqliteLink
from placet.domain.errors import StoreBusy, StoreError
from placet.domain.states import WorkloadState
from placet.testing.conformance.store_values import (
    TENANT,
    acceptance_of,
    accepted,
    applied,
    claimed,
    new_workload,
    transition_to,
)

W = WorkloadState
LIFE = [W.ACCEPTED, W.PLACING, W.RUNNING, W.FAILED]
# Of a write-ahead log: its header, and the header of each frame before the page.
LOG_HEADER_BYTES, FRAME_HEADER_BYTES, PAGE_BYTES = 32, 24, 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "placet.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqlStore]:
    store = make_store(f"sqlite:///{file}")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def child(project_root: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.store_child", *arguments]
    return subprocess.Popen(command, cwd=project_root, stdout=subprocess.PIPE, text=True)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def size_of(path: str) -> int:
    return Path(path).stat().st_size


def sound(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as connection:
        whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return whole and connection.execute("PRAGMA foreign_key_check").fetchall() == []


# Files


async def test_files_are_for_the_owner_alone(open_umask: None, store: SqlStore, file: Path) -> None:
    await accepted(store, 1)
    modes = {path.name: mode_of(path) for path in file.parent.iterdir()}
    assert modes == {"placet.db": 0o600, "placet.db-wal": 0o600, "placet.db-shm": 0o600}
    assert mode_of(file.parent) == 0o700


async def test_a_file_that_others_could_read_is_closed_to_them(store: SqlStore, file: Path) -> None:
    await store.close()
    os.chmod(file, 0o644)
    again = make_store(f"sqlite:///{file}")
    await again.open()
    assert mode_of(file) == 0o600
    await again.close()


def test_flushes_are_switched_between_transactions(file: Path) -> None:
    database = Sqlite(file)
    database.prepare()
    link = database.connect(writes=True)
    seen: list[str] = []
    link.watch_statements(seen.append)
    for flush in (True, False, False, True):
        link.begin(flush=flush, alone=True)
        (level,) = link.cursor.execute("PRAGMA synchronous").fetchone()  # type: ignore[attr-defined]  # the driver's own
        assert level == (2 if flush else 1)
        link.commit()
    link.close()
    assert seen.count("PRAGMA synchronous=NORMAL") == 1
    assert seen.count("PRAGMA synchronous=FULL") == 1


class Watched(Sqlite):
    """Notes at each commit of the writer whether it was flushed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.flushed: list[bool] = []

    def connect(self, *, writes: bool) -> SqliteLink:
        link = super().connect(writes=writes)
        level = ["PRAGMA synchronous=FULL"]

        def note(statement: str) -> None:
            if statement.startswith("PRAGMA synchronous="):
                level[0] = statement
            elif statement == "COMMIT":
                self.flushed.append(level[0].endswith("FULL"))

        if writes:
            link.watch_statements(note)
        return link


async def test_what_must_survive_a_power_cut_is_flushed_and_the_rest_is_not(file: Path) -> None:
    database = Watched(file)
    store = SqlStore(database, readers=1)
    await store.open()
    (workload,) = await accepted(store, 1)
    step = transition_to(workload, W.PLACING, front_door=True)
    assert await applied(store, step)
    assert await applied(store, replace(transition_to(step.workload, W.RUNNING, front_door=True), flush=True))
    await store.beat("w", 1)
    assert database.flushed == [True, False, True, False]
    await store.close()


# Other users of the file


async def test_a_lock_held_by_another_is_busy_and_passes(
    store: SqlStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    impatient = make_store(f"sqlite:///{file}")
    await impatient.open()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await accepted(impatient, 1)
        assert await impatient.find(TENANT, new_workload(1).id) is None, "readers are not held up"
        patient = asyncio.ensure_future(accepted(store, 2))
        other.execute("COMMIT")
    await patient
    await accepted(impatient, 1)
    assert (await store.counts())[W.ACCEPTED] == 2
    await impatient.close()


async def test_processes_that_write_at_the_same_time_agree(store: SqlStore, file: Path, project_root: Path) -> None:
    children = [child(project_root, "submit", f"sqlite:///{file}", str(1000 * n), "40") for n in range(3)]
    outputs = [(await asyncio.to_thread(each.communicate))[0].split() for each in children]
    assert [each.returncode for each in children] == [0, 0, 0]
    created = [word for output in outputs for word in output if word == "created"]
    assert len(created) == 40
    assert len({word for output in outputs for word in output if word.startswith("wl_")}) == 40
    assert (await store.counts())[W.ACCEPTED] == 40


# Death


@pytest.mark.parametrize("seed", range(2))
async def test_what_was_acknowledged_survives_a_kill(file: Path, project_root: Path, seed: int) -> None:
    dice = random.Random(seed)
    told: dict[str, W] = {}
    for round_number in range(3):
        writer = child(project_root, "live", f"sqlite:///{file}", str(10**6 * round_number))
        assert writer.stdout is not None
        for _ in range(dice.randrange(1, 120)):
            workload_id, state = writer.stdout.readline().split()
            told[workload_id] = W(state)
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        # The last line may be cut; all before it were acknowledged.
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                workload_id, state = line.split()
                told[workload_id] = W(state)
    await check_told(file, told)


async def check_told(file: Path, told: dict[str, W]) -> None:
    store = make_store(f"sqlite:///{file}")
    await store.open()
    records = {record.workload.id: record for record in await store.load(list(told))}
    for workload_id, state in told.items():
        workload = records[workload_id].workload
        assert LIFE.index(workload.state) >= LIFE.index(state)
        assert workload.revision == LIFE.index(workload.state)
        assert len(await store.events(workload_id)) == 1 + workload.revision, "a move and its event are one"
        assert (await store.result(workload_id) is not None) == workload.final
        assert len(records[workload_id].attempts) == (workload.revision > 0)
    await store.close()
    assert sound(file)


async def test_a_log_cut_anywhere_loses_nothing_acknowledged_and_tears_nothing(
    store: SqlStore, file: Path, tmp_path: Path
) -> None:
    log = f"{file}-wal"
    marks: list[tuple[int, int]] = []  # log size, acknowledged workloads
    for number in range(12):
        workload = new_workload(number)
        await store.accept(acceptance_of(workload, key=f"k{number}"))
        marks.append((size_of(log), number + 1))
        assert await applied(store, transition_to(workload, W.PLACING, front_door=True))
    copy = tmp_path / "copy"
    copy.mkdir()
    check_cuts(log, file, copy, marks)


def check_cuts(log: str, file: Path, copy: Path, marks: list[tuple[int, int]]) -> None:
    """At the end of each frame, and inside it."""
    whole = Path(log).read_bytes()
    main = file.read_bytes()
    frame = FRAME_HEADER_BYTES + PAGE_BYTES
    frames = (len(whole) - LOG_HEADER_BYTES) // frame
    assert frames > 50, "no checkpoint may come in between"
    for number in range(frames + 1):
        for inside in (0, 1, FRAME_HEADER_BYTES + 100):
            size = min(LOG_HEADER_BYTES + number * frame + inside, len(whole))
            (copy / "placet.db").write_bytes(main)
            (copy / "placet.db-wal").write_bytes(whole[:size])
            check_cut(copy / "placet.db", max([count for mark, count in marks if mark <= size], default=0))
            (copy / "placet.db-wal").unlink(missing_ok=True)
            (copy / "placet.db-shm").unlink(missing_ok=True)


def check_cut(file: Path, acknowledged: int) -> None:
    with closing(sqlite3.connect(file)) as connection:
        if acknowledged == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            return
        (count,) = connection.execute("SELECT count(*) FROM workloads").fetchone()
        assert count >= acknowledged
        torn = connection.execute(
            "SELECT count(*) FROM workloads w"
            " WHERE revision + 1 <> (SELECT count(*) FROM events WHERE workload_id = w.id)"
            " OR NOT EXISTS (SELECT 1 FROM submission_keys WHERE workload_id = w.id)"
        ).fetchone()
        assert torn == (0,)
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]


# No space


class Small(Sqlite):
    """A file that may not grow beyond so many pages."""

    pages = 0

    def leave(self, pages: int) -> None:
        self.pages = self.path.stat().st_size // PAGE_BYTES + pages

    def connect(self, *, writes: bool) -> SqliteLink:
        link = super().connect(writes=writes)
        if writes and self.pages:
            link.cursor.execute(f"PRAGMA max_page_count={self.pages}")
        return link


async def test_a_full_disk_refuses_whole_batches_and_passes(file: Path) -> None:
    database = Small(file)
    database.prepare()
    database.leave(40)
    store = SqlStore(database, readers=1)
    await store.open()
    created = 0

    async def fill() -> None:
        nonlocal created
        for number in range(2000):
            await store.accept(acceptance_of(new_workload(number), key=f"k{number}"))
            created += 1

    with pytest.raises(StoreBusy, match="full"):
        await fill()
    assert created > 20
    assert (await store.counts())[W.ACCEPTED] == created
    outcomes = await asyncio.gather(
        *(store.accept(acceptance_of(new_workload(9000 + n))) for n in range(30)), return_exceptions=True
    )
    assert all(isinstance(outcome, StoreBusy) for outcome in outcomes), "nothing of a batch is written by halves"
    assert (await store.counts())[W.ACCEPTED] == created
    await store.close()
    roomy = make_store(f"sqlite:///{file}")
    await roomy.open()
    await accepted(roomy, 9999)
    assert len(await claimed(roomy, limit=5000)) == created + 1
    await roomy.close()
    assert sound(file)


async def test_a_limit_on_the_size_of_files_is_survived(file: Path, project_root: Path) -> None:
    limited = child(project_root, "full", f"sqlite:///{file}", "200000")
    output, _ = await asyncio.to_thread(limited.communicate)
    assert limited.returncode == 0, output
    lines = [line.split() for line in output.splitlines()]
    assert lines[-2][0] == "refused"
    assert lines[-1][0] == "created", "the writer lives on and serves the next"
    store = make_store(f"sqlite:///{file}")
    await store.open()
    created = {line[1] for line in lines if line[0] == "created"}
    assert {record.workload.id for record in await store.load([line[1] for line in lines])} == created
    await store.close()
    assert sound(file)


async def test_a_broken_connection_is_replaced(store: SqlStore, file: Path) -> None:
    await accepted(store, 1)
    link = store._writer._link
    assert link is not None
    link.close()
    await accepted(store, 2)
    assert (await store.counts())[W.ACCEPTED] == 2


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    file = tmp_path / "placet.db"
    file.write_bytes(b"certainly not a database, but long enough to be looked at closely" * 100)
    store = make_store(f"sqlite:///{file}")
    with pytest.raises(StoreError):
        await store.open()
    await store.close()
    shutil.rmtree(tmp_path, ignore_errors=True)
