"""The two databases of a benchmark: a ledger for the floor and a fresh place for Placet, on the same disk."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.floors import Ledger, PostgresLedger, SqliteLedger
from bench.report import say
from tests.support.postgres import PostgresServer, find_programs, running_server

SAFE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@dataclass(frozen=True, kw_only=True)
class Database:
    """``fresh_ledger`` gives the way to open one new, empty ledger, as often as there are lanes."""

    name: str
    folder: Path
    fresh_ledger: Callable[[], Callable[[], Ledger]]
    fresh_url: Callable[[], str | None]


@contextmanager
def database(name: str) -> Iterator[Database | None]:
    """None, and a word about it, where there is no such database on this machine."""
    folder = Path(tempfile.mkdtemp(prefix="placet-bench-floor-"))
    try:
        if name == "sqlite":
            yield sqlite(folder)
        elif (programs := find_programs()) is None:
            say("postgresql: SKIPPED, no server program (initdb, pg_ctl) on this machine")
            yield None
        else:
            with running_server(programs, SAFE) as server:
                yield postgresql(folder, server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sqlite(folder: Path) -> Database:
    numbers = itertools.count()

    def fresh() -> Callable[[], Ledger]:
        path = folder / f"ledger-{next(numbers)}.db"
        return lambda: SqliteLedger(path)

    return Database(name="sqlite", folder=folder, fresh_ledger=fresh, fresh_url=lambda: None)


def postgresql(folder: Path, server: PostgresServer) -> Database:
    def fresh() -> Callable[[], Ledger]:
        url = server.url(server.create_database()).replace("+psycopg", "")
        return lambda: PostgresLedger(url)

    def fresh_url() -> str:
        return server.url(server.create_database()).replace("+psycopg", "")

    return Database(name="postgresql", folder=folder, fresh_ledger=fresh, fresh_url=fresh_url)
