"""The floors: the least that this machine asks for the same work, without any of Placet's own code.

The durable floor is what a queue runner cannot go below: a row per workload and per move, a commit that reaches the
disk before each move counts, the program started with its output in files, and its end written down.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Protocol

import psycopg

from bench.machine import cpu_ms_of_self, disk_flushes

PROGRAM = "/bin/true"
SPEC = '{"runtime":{"type":"process","command":["/bin/true"]},"labels":{"bench":"floor"},"filler":"' + "x" * 900 + '"}'
TABLES = (
    "CREATE TABLE workload (id INTEGER PRIMARY KEY, spec TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE TABLE event (id INTEGER PRIMARY KEY, workload INTEGER NOT NULL, state TEXT NOT NULL, at REAL NOT NULL)",
)
POSTGRES_TABLES = tuple(statement.replace("id INTEGER PRIMARY", "id SERIAL PRIMARY") for statement in TABLES)


@dataclass(frozen=True, kw_only=True)
class Durable:
    """What one round of the durable floor came to."""

    accepted_per_s: float
    complete_per_s: float
    cpu_ms: float
    flushes: float


class Ledger(Protocol):
    """A database with one durable commit per call."""

    def accept(self, workload: int) -> None: ...

    def move(self, workload: int, state: str) -> None: ...

    def close(self) -> None: ...


class SqliteLedger:
    """WAL with synchronous=FULL: a commit is on the disk when the call returns."""

    def __init__(self, path: Path) -> None:
        fresh = not path.exists()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        if fresh:
            for statement in TABLES:
                self._connection.execute(statement)

    def accept(self, workload: int) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        run("INSERT INTO workload VALUES (?, ?, 'accepted')", (workload, SPEC))
        run("INSERT INTO event (workload, state, at) VALUES (?, 'accepted', ?)", (workload, perf_counter()))
        run("COMMIT")

    def move(self, workload: int, state: str) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        run("UPDATE workload SET state = ? WHERE id = ?", (state, workload))
        run("INSERT INTO event (workload, state, at) VALUES (?, ?, ?)", (workload, state, perf_counter()))
        run("COMMIT")

    def close(self) -> None:
        self._connection.close()


class PostgresLedger:
    """The same rows with synchronous_commit as the server has it."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._connection.execute("SELECT pg_advisory_xact_lock(1)")
        row = self._connection.execute("SELECT to_regclass('workload') IS NULL").fetchone()
        if row and row[0]:
            for statement in POSTGRES_TABLES:
                self._connection.execute(statement.encode())
        self._connection.commit()

    def accept(self, workload: int) -> None:
        self._connection.execute("INSERT INTO workload VALUES (%s, %s, 'accepted')", (workload, SPEC))
        self._event(workload, "accepted")

    def move(self, workload: int, state: str) -> None:
        self._connection.execute("UPDATE workload SET state = %s WHERE id = %s", (state, workload))
        self._event(workload, state)

    def close(self) -> None:
        self._connection.close()

    def _event(self, workload: int, state: str) -> None:
        statement = "INSERT INTO event (workload, state, at) VALUES (%s, %s, %s)"
        self._connection.execute(statement, (workload, state, perf_counter()))
        self._connection.commit()


def spawn_per_s(seconds: float) -> float:
    """Bare posix_spawn and wait of the same program, one after the other."""
    count, began = 0, perf_counter()
    while perf_counter() - began < seconds:
        os.waitpid(os.posix_spawn(PROGRAM, [PROGRAM], {}), 0)
        count += 1
    return count / (perf_counter() - began)


def commits_per_s(ledger: Ledger, seconds: float) -> float:
    """Bare durable commits on one connection."""
    with closing(ledger):
        count, began = 0, perf_counter()
        while perf_counter() - began < seconds:
            ledger.accept(count)
            count += 1
        return count / (perf_counter() - began)


def durable_in_turn(open_ledger: Callable[[], Ledger], logs: Path, count: int) -> list[float]:
    """Milliseconds from accepting one workload to its end on the disk, one after the other."""
    taken_ms = []
    with closing(open_ledger()) as ledger:
        for workload in range(count):
            began = perf_counter()
            ledger.accept(workload)
            _run_one(ledger, logs, workload)
            taken_ms.append((perf_counter() - began) * 1000)
    return taken_ms


def durable(open_ledger: Callable[[], Ledger], logs: Path, count: int, lanes: int) -> Durable:
    """Accepts count workloads, then runs them all in so many lanes, each with its own connection."""
    flushes, cpu_ms, began = disk_flushes(), cpu_ms_of_self(), perf_counter()
    waiting: SimpleQueue[int] = SimpleQueue()
    with closing(open_ledger()) as ledger:
        for workload in range(count):
            ledger.accept(workload)
            waiting.put(workload)
    accepted_s = perf_counter() - began
    in_parallel([lambda: _drain(open_ledger, logs, waiting)] * lanes)
    return Durable(
        accepted_per_s=count / accepted_s,
        complete_per_s=count / (perf_counter() - began),
        cpu_ms=(cpu_ms_of_self() - cpu_ms) / count,
        flushes=(disk_flushes() - flushes) / count,
    )


def in_parallel(lanes: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=lane) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _drain(open_ledger: Callable[[], Ledger], logs: Path, waiting: "SimpleQueue[int]") -> None:
    with closing(open_ledger()) as ledger:
        while True:
            try:
                workload = waiting.get_nowait()
            except Empty:
                return
            _run_one(ledger, logs, workload)


def _run_one(ledger: Ledger, logs: Path, workload: int) -> None:
    ledger.move(workload, "running")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    files = [os.open(logs / f"{workload}.{stream}", flags, 0o600) for stream in ("out", "err")]
    actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files, 1)]
    child = os.posix_spawn(PROGRAM, [PROGRAM], {}, file_actions=actions)
    for file in files:
        os.close(file)
    _, status = os.waitpid(child, 0)
    ledger.move(workload, "succeeded" if status == 0 else "failed")
