"""SQLite: one file, write-ahead log, one writer at a time whoever it is."""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, Text, bindparam, create_engine, event, func, select
from sqlalchemy.dialects.sqlite import Insert, dialect, insert
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from placet.adapters.store import schema
from placet.adapters.store.link import Link
from placet.adapters.store.sql import Statements
from placet.domain.errors import StoreBusy, StoreError, StoreFull, StoreUnknown

T = TypeVar("T")

BUSY_TIMEOUT_S = 10.0
STATEMENTS_KEPT = 256
CACHE_KIB, READER_CACHE_KIB = 32 * 1024, 4 * 1024
JOURNAL_TRIES, JOURNAL_PAUSE_S = 200, 0.05
# The log is cut back to this after a checkpoint; a burst does not keep its size for ever.
LOG_KEPT_BYTES = 64 * 1024 * 1024

NOTHING_WRITTEN = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
FAULTS_OF_ITEM = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
FAULTS_OF_DATABASE = (sqlite3.Error, OSError, MemoryError)


class SqliteLink(Link):
    """A connection to the file; the flush switch is thrown only between transactions and only when it must be."""

    def __init__(self, database: "Sqlite", connection: sqlite3.Connection, statements: Statements) -> None:
        super().__init__(database, connection.cursor(), statements)
        self._connection = connection
        self._flushes = True

    def _begin(self, *, flush: bool) -> None:
        if flush is not self._flushes:
            self.cursor.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
            self._flushes = flush
        self.cursor.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        self.cursor.execute("BEGIN")

    def watch_statements(self, listener: Callable[[str], None]) -> None:
        """Show each statement as it is run."""
        self._connection.set_trace_callback(listener)

    def rollback(self) -> None:
        # After a full disk SQLite may have rolled back by itself.
        if self._connection.in_transaction:
            self.cursor.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class Sqlite:
    """One file; its folder and the files beside it are for the owner's eyes only."""

    dialect: Dialect = dialect()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._statements = Statements(self)

    def insert(self, table: Table) -> Insert:
        return insert(table)

    def one_of(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        values = func.json_each(bindparam(name, type_=Text())).table_valued("value")
        return column.in_(select(values.c.value))

    def many(self, values: Sequence[str]) -> object:
        return msgspec.json.encode(values).decode()

    def prepare(self) -> None:
        self._make_private()
        self._turn_on_log()
        version = self._in_transaction(schema.current, "BEGIN")
        if version is None:
            self.migrate()
        else:
            schema.check(version)

    def migrate(self) -> None:
        """Bring the tables to our version; of concurrent callers one does it and the others find it done."""
        self._make_private()
        self._in_transaction(schema.upgrade, "BEGIN IMMEDIATE")

    def connect(self, *, writes: bool) -> SqliteLink:
        connection = self._connect()
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB if writes else READER_CACHE_KIB}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA journal_size_limit={LOG_KEPT_BYTES}")
        if not writes:
            connection.execute("PRAGMA query_only=ON")
        return SqliteLink(self, connection, self._statements)

    def now_ms(self, link: Link) -> int:
        """A file belongs to one machine, and has its clock."""
        del link
        return time.time_ns() // 1_000_000

    def listen(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:  # noqa: ARG002 - one server per file: all changes are our own
        return lambda: None

    def is_fault_of_item(self, error: Exception) -> bool:
        # A closed connection is told in the same way; in it there is no transaction left to be as good as before.
        ours = isinstance(error, FAULTS_OF_ITEM) and "closed database" not in str(error)
        return ours or not isinstance(error, FAULTS_OF_DATABASE)

    def is_worth_repeating(self, error: Exception) -> bool:  # noqa: ARG002 - the busy timeout has repeated enough
        return False

    def translate(self, error: Exception, *, committing: bool) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # A commit that fails for lack of space or of the lock has not happened; of other failures nobody knows.
        told: type[StoreError] = StoreBusy if code in NOTHING_WRITTEN else StoreUnknown if committing else StoreError
        if code == sqlite3.SQLITE_FULL:
            told = StoreFull
        fault = told(f"{type(error).__name__}: {error}" + (" (at commit)" if committing else ""))
        fault.__cause__ = error
        return fault

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,  # transactions are ours to begin
            check_same_thread=False,  # opened by one thread and handed to another, never shared
            cached_statements=STATEMENTS_KEPT,
        )

    def _turn_on_log(self) -> None:
        """Once in the life of a file; needs a moment without other users, and does not wait for one by itself."""
        for left in reversed(range(JOURNAL_TRIES)):
            try:
                with closing(self._connect()) as connection:
                    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.Error as error:
                if not left or error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise self.translate(error, committing=False) from error
                time.sleep(JOURNAL_PAUSE_S)
            else:
                if mode != "wal":
                    raise StoreError(f"{self.path} is on a file system without shared memory; put it on a local disk")
                return

    def _in_transaction(self, act: Callable[[Connection], T], begin: str) -> T:
        engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        try:
            with engine.begin() as connection:
                return act(connection)
        except DBAPIError as error:
            raise self.translate(
                error.orig if isinstance(error.orig, Exception) else error, committing=False
            ) from error
        finally:
            engine.dispose()

    def _make_private(self) -> None:
        """Before SQLite creates anything: the log and the shared memory get the mode of the file."""
        try:
            self._make_file()
        except OSError as error:
            raise StoreError(f"cannot make {self.path}: {error}") from error

    def _make_file(self) -> None:
        missing = [folder for folder in (self.path.parent, *self.path.parent.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)  # whatever the umask took away
        try:
            # Not opened when it exists: closing it would drop the locks that SQLite holds on it in this process.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        self.path.chmod(0o600)
