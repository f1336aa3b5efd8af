"""SQLite in this process's memory, worked on by the event loop itself: a database for simulated worlds.

Statements, transactions and guards are those of every store; there are no threads, so that one order of requests gives
one outcome. Several stores over one such database are several servers.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from placet.adapters.store import questions, schema
from placet.adapters.store.base import SqlStore
from placet.adapters.store.batch import Item
from placet.adapters.store.codec import SpecCache
from placet.adapters.store.link import Database, Link
from placet.adapters.store.sql import Statements
from placet.adapters.store.sqlite import STATEMENTS_KEPT, Sqlite, SqliteLink
from placet.adapters.store.writer import Request, Writer
from placet.domain.errors import StoreBusy
from placet.domain.records import Record
from placet.domain.states import IntentVerb, WorkloadState

Listener = Callable[[frozenset[str]], None]


class MemoryDatabase(Sqlite):
    """One database for all stores over it. ``committed`` hears of each commit's workloads, before its caller does.

    With ``cuts`` it remembers what a power cut would leave: all up to the last flushed commit.
    """

    def __init__(self, deployment: str, clock: Callable[[], int], *, cuts: bool = False) -> None:
        super().__init__(Path(":memory:"))
        self._statements = _statements()
        self.connection = _connection()
        _empty().backup(self.connection)
        self.connection.execute("PRAGMA foreign_keys=ON")
        self.connection.execute("UPDATE meta SET value=? WHERE name=?", (deployment, schema.DEPLOYMENT))
        self._flushed = _connection()
        self.connection.backup(self._flushed)
        self.committed: Listener = lambda workload_ids: None  # noqa: ARG005 - nobody listens yet
        self._specs = SpecCache()
        self._clock = clock
        self._cuts = cuts
        self._listeners: dict[object, Listener] = {}
        self._announced: frozenset[str] = frozenset()

    def prepare(self) -> None:
        """It was born with the tables of this version."""

    def connect(self, *, writes: bool) -> "MemoryLink":
        del writes
        return MemoryLink(self, self._statements)

    def now_ms(self, link: Link) -> int:
        del link
        return self._clock()

    def listen(self, changed: Listener) -> Callable[[], None]:
        mark = object()
        self._listeners[mark] = changed

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    def announce(self, workload_ids: frozenset[str]) -> None:
        self._announced = workload_ids

    def done(self, *, flush: bool) -> None:
        """A writing transaction was committed."""
        if flush and self._cuts:
            self.connection.backup(self._flushed)
        announced, self._announced = self._announced, frozenset()
        if announced:
            self.committed(announced)
            for changed in list(self._listeners.values()):
                changed(announced)

    def undone(self) -> None:
        """It was rolled back."""
        self._announced = frozenset()

    def states(self, workload_ids: Iterable[str]) -> dict[str, tuple[WorkloadState, int]]:
        """State and epoch of each as they are committed now."""
        query = "SELECT state, epoch FROM workloads WHERE id=?"
        found: dict[str, tuple[WorkloadState, int]] = {}
        for workload_id in sorted(workload_ids):
            for state, epoch in self.connection.execute(query, (workload_id,)):
                found[workload_id] = (WorkloadState(state), epoch)
        return found

    def fences(self, workload_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Revision and epoch of the lease of each as they are committed now."""
        query = "SELECT revision, lease_epoch FROM workloads WHERE id=?"
        found: dict[str, tuple[int, int]] = {}
        for workload_id in sorted(workload_ids):
            for revision, lease_epoch in self.connection.execute(query, (workload_id,)):
                found[workload_id] = (revision, lease_epoch)
        return found

    def records(self, workload_ids: Sequence[str]) -> Sequence[Record]:
        """The committed records, without the detour over a server."""
        link = self.connect(writes=False)
        rows = link.rows(link.sql.workloads_by_id, ids=link.many(sorted(workload_ids)))
        return questions.records(link, self._specs, rows)

    def intended(self, workload_id: str, epoch: int) -> bool:
        """Is there a committed intent to submit this attempt?"""
        query = "SELECT 1 FROM intents WHERE workload_id=? AND epoch=? AND verb=?"
        found = self.connection.execute(query, (workload_id, epoch, IntentVerb.SUBMIT.value))
        return found.fetchone() is not None

    def cut_power(self) -> None:
        """Every commit after the last flushed one never was."""
        self._flushed.backup(self.connection)

    def close(self) -> None:
        """Forget everything."""
        self._flushed.close()
        self.connection.close()


class MemoryLink(SqliteLink):
    """Shares the one connection: nobody comes between the statements of a transaction, for nothing waits in it."""

    def __init__(self, database: MemoryDatabase, statements: Statements) -> None:
        super().__init__(database, database.connection, statements)
        self._memory = database
        self._writes = False

    def _begin(self, *, flush: bool) -> None:
        del flush
        self._writes = True
        self.cursor.execute("BEGIN")

    def begin_reading(self) -> None:
        self._writes = False
        super().begin_reading()

    def announce(self, workload_ids: frozenset[str]) -> None:
        self._memory.announce(workload_ids)

    def commit(self) -> None:
        super().commit()
        if self._writes:
            self._writes = False
            self._memory.done(flush=self._flush)

    def rollback(self) -> None:
        self._memory.undone()
        super().rollback()

    def close(self) -> None:
        """The connection is the database, and stays."""


class LoopWriter(Writer):
    """All that is handed in within one turn of the loop, or a pause, is one transaction after it."""

    def __init__(self, database: Database, changed: Listener) -> None:
        super().__init__(database, changed)
        self._waiting: list[Request] = []
        self.writing = False

    def pause_s(self) -> float:
        """How long what is handed in waits for more to share its transaction."""
        return 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._link = self._database.connect(writes=True)
        self._open = True

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._write_waiting()

    def drop(self) -> None:
        """What is handed in and not yet written will never be."""
        self._open = False
        self._waiting.clear()

    async def write(self, items: Sequence[Item]) -> None:
        if not self._open:
            raise StoreBusy("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_later(self.pause_s(), self._write_waiting)
        self._waiting.append((items, future))
        await future

    def _write_waiting(self) -> None:
        batch, self._waiting = self._waiting, []
        if batch:
            self.writing = True
            try:
                fault, touched = self._transact([item for items, _ in batch for item in items])
            finally:
                self.writing = False
            self._resolve(batch, fault, touched)


class MemoryStore(SqlStore):
    """A server's store over a database in memory. It needs an event loop that runs its executors' calls at once."""

    def __init__(
        self, database: MemoryDatabase, writer: Callable[[Database, Listener], LoopWriter] = LoopWriter
    ) -> None:
        super().__init__(database, readers=1, writer=writer)

    def _changed_elsewhere(self, workload_ids: frozenset[str]) -> None:
        """Of its own writes a server knows already, as with PostgreSQL."""
        assert isinstance(self._writer, LoopWriter)
        if not self._writer.writing:
            super()._changed_elsewhere(workload_ids)

    def die(self, *, written: bool) -> None:
        """The server is gone; what it had handed in a moment ago may still be ``written``."""
        assert isinstance(self._writer, LoopWriter)
        if self._stop_listening is not None:
            self._stop_listening()
        if written:
            self._writer.stop()
        else:
            self._writer.drop()


def _connection() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_KEPT)


@cache
def _statements() -> Statements:
    """Compiled once for all databases of this kind."""
    return Statements(Sqlite(Path(":memory:")))


@cache
def _empty() -> sqlite3.Connection:
    """The tables as they are made in a new database, to be copied."""
    connection = _connection()
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.begin() as made:
        schema.upgrade(made)
    return connection
