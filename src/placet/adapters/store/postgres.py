"""PostgreSQL: several servers over one database, told of one another's writes by NOTIFY."""

import os
import secrets
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from time import monotonic
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.errors import DeadlockDetected, LockNotAvailable, SerializationFailure
from psycopg.rows import TupleRow
from sqlalchemy import ColumnElement, Connection, Table, Text, any_, bindparam, create_engine
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert
from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from placet.adapters.store import schema
from placet.adapters.store.codec import number
from placet.adapters.store.link import Link, Step
from placet.adapters.store.sql import Statements
from placet.domain.errors import StoreBusy, StoreError, StoreUnknown

T = TypeVar("T")

CHANNEL = "placet_changed"
PAYLOAD_BYTES_MAX = 7_900  # the server refuses 8,000
NOTES_MAX = 4  # beyond that many one is cheaper that says "something changed"
MIGRATION_LOCK = 0x706C61636574  # "placet"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# After this long a server starts without hearing of the others; it is told that it missed something once it does.
LISTEN_WITHIN_S = 5.0

# No call may hang: neither on a server that is gone, nor on a lock, nor on a network that swallows packets.
LIMITS: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "options": "-c statement_timeout=30000 -c lock_timeout=15000 -c idle_in_transaction_session_timeout=60000",
}

DIALECT = make_url("postgresql+psycopg://").get_dialect()()

FAULTS_OF_ITEM = (
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.ProgrammingError,
    psycopg.NotSupportedError,
)
FAULTS_OF_DATABASE = (psycopg.Error, OSError, MemoryError)
WORTH_REPEATING = (DeadlockDetected, SerializationFailure)


class PostgresLink(Link):
    """A connection in autocommit mode: transactions begin and end with our own words."""

    def __init__(
        self, database: "Postgres", connection: "psycopg.Connection[TupleRow]", statements: Statements
    ) -> None:
        super().__init__(database, connection.cursor(), statements)
        self._connection = connection
        self._sender = database.sender
        self._notes: list[str] = []

    def _begin(self, *, flush: bool) -> None:
        self._notes = []
        words = "BEGIN" if flush else "BEGIN; SET LOCAL synchronous_commit = off"
        self._connection.execute(words, prepare=False)  # two commands in one way, which cannot be prepared

    def begin_reading(self) -> None:
        self.cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def run_together(self, steps: Sequence[Step]) -> None:
        """In one way to the server and back."""
        sent: list[tuple[Step, psycopg.Cursor[TupleRow]]] = []
        with self._connection.pipeline():
            for step in steps:
                if step.params:
                    cursor = self._connection.cursor()
                    cursor.executemany(step.statement.text, step.params)
                    sent.append((step, cursor))
        for step, cursor in sent:
            step.check(cursor.rowcount)

    def announce(self, workload_ids: frozenset[str]) -> None:
        self._notes = payloads(self._sender, workload_ids)

    def commit(self) -> None:
        with self._connection.pipeline():
            for payload in self._notes:
                self._connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])
            self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Postgres:
    """One database; the schema in it is made by ``migrate`` and only checked by ``prepare``."""

    dialect: Dialect = DIALECT

    def __init__(self, url: URL) -> None:
        self.sender = secrets.token_hex(8)
        self._conninfo = _conninfo(url)
        self._statements = Statements(self)

    def insert(self, table: Table) -> Insert:
        return insert(table)

    def one_of(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        return column == any_(bindparam(name, type_=ARRAY(Text)))

    def many(self, values: Sequence[str]) -> object:
        return list(values)

    def now_ms(self, link: Link) -> int:
        link.cursor.execute("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
        return number(link.cursor.fetchall()[0][0])

    def prepare(self) -> None:
        schema.check(self._in_transaction(schema.current))

    def migrate(self) -> None:
        def upgrade(connection: Connection) -> None:
            # Held to the end of the transaction; who comes second finds the work done.
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
            schema.upgrade(connection)

        self._in_transaction(upgrade)

    def connect(self, *, writes: bool) -> PostgresLink:  # noqa: ARG002 - a read only transaction is one by itself
        return PostgresLink(self, self._connect(), self._statements)

    def listen(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        return Listener(self._connect, self.sender, changed).start()

    def is_fault_of_item(self, error: Exception) -> bool:
        return isinstance(error, FAULTS_OF_ITEM) or not isinstance(error, FAULTS_OF_DATABASE)

    def is_worth_repeating(self, error: Exception) -> bool:
        return isinstance(error, WORTH_REPEATING)

    def translate(self, error: Exception, *, committing: bool) -> StoreError:
        # Before the commit everything is undone by the loss of the connection; after it was sent, nobody knows.
        passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | LockNotAvailable | OSError)
        told: type[StoreError] = (StoreUnknown if committing else StoreBusy) if passing else StoreError
        fault = told(f"{type(error).__name__}: {str(error).strip()}" + (" (at commit)" if committing else ""))
        fault.__cause__ = error
        return fault

    def _connect(self) -> "psycopg.Connection[TupleRow]":
        return psycopg.connect(self._conninfo, autocommit=True)

    def _in_transaction(self, act: Callable[[Connection], T]) -> T:
        def connection() -> "psycopg.Connection[TupleRow]":
            return psycopg.connect(self._conninfo)

        engine = create_engine("postgresql+psycopg://", creator=connection, poolclass=NullPool)
        try:
            with engine.begin() as one:
                return act(one)
        except DBAPIError as error:
            raise self.translate(
                error.orig if isinstance(error.orig, Exception) else error, committing=False
            ) from error
        except psycopg.Error as error:
            raise self.translate(error, committing=False) from error
        finally:
            engine.dispose()


class Listener:
    """A thread that sleeps on a connection of its own until the server or ``stop`` wakes it; idle costs nothing."""

    def __init__(
        self,
        connect: "Callable[[], psycopg.Connection[TupleRow]]",
        sender: str,
        changed: Callable[[frozenset[str]], None],
    ) -> None:
        self._connect = connect
        self._sender = sender
        self._changed = changed
        self._stopped = threading.Event()
        self._listening = threading.Event()
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._serve, name="placet-store-listener", daemon=True)

    def start(self) -> Callable[[], None]:
        """Blocks until what others write is heard of, or for ``LISTEN_WITHIN_S``; returns the way to stop."""
        self._thread.start()
        self._listening.wait(LISTEN_WITHIN_S)
        return self._stop

    def _stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        os.write(self._wake, b"!")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)

    def _serve(self) -> None:
        began_s, pause_s, missed = monotonic(), FIRST_PAUSE_S, False
        while not self._stopped.is_set():
            with suppress(psycopg.Error, OSError), closing(self._connect()) as connection:
                connection.execute(f"LISTEN {CHANNEL}")
                missed = missed or monotonic() - began_s > LISTEN_WITHIN_S
                self._listening.set()
                if missed:
                    self._changed(frozenset())  # whatever was said meanwhile
                pause_s, missed = FIRST_PAUSE_S, True
                self._hear(connection)
            if not self._stopped.is_set():
                select.select([self._woken], [], [], pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _hear(self, connection: "psycopg.Connection[TupleRow]") -> None:
        while not self._stopped.is_set():
            heard: set[str] = set()
            vague = False
            for note in connection.notifies(timeout=0):
                sender, _, ids = note.payload.partition(" ")
                if sender != self._sender:  # of our own writes our listeners know already
                    heard.update(ids.split())
                    vague = vague or not ids
            if heard or vague:
                self._changed(frozenset() if vague else frozenset(heard))
            select.select([connection.fileno(), self._woken], [], [])


def payloads(sender: str, workload_ids: frozenset[str]) -> list[str]:
    """What is said of a change: the sender and the ids in pieces that fit, or the sender alone if they are too many."""
    pieces: list[list[str]] = [[]]
    size = len(sender)
    for workload_id in sorted(workload_ids):
        needed = 1 + len(workload_id.encode())
        if size + needed > PAYLOAD_BYTES_MAX:
            pieces.append([])
            size = len(sender)
        pieces[-1].append(workload_id)
        size += needed
    if len(pieces) > NOTES_MAX:
        return [sender]
    return [" ".join([sender, *piece]) for piece in pieces]


def _conninfo(url: URL) -> str:
    """The driver's own form of the address, with our limits where it sets none."""
    _, named = DIALECT.create_connect_args(url)
    return make_conninfo("", **{**LIMITS, **named})
