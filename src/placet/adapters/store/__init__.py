"""The durable store on SQLite or PostgreSQL."""

from pathlib import Path

from sqlalchemy.engine import URL, make_url

from placet.adapters.store.base import SqlStore
from placet.adapters.store.link import Database
from placet.adapters.store.sqlite import Sqlite

__all__ = ["SqlStore", "make_store", "migrate"]

READERS = 2


def make_store(url: str, *, readers: int = READERS) -> SqlStore:
    """A store, not yet open, on ``sqlite:///path`` or ``postgresql://host/database``; ``readers`` threads read."""
    return SqlStore(_database(make_url(url)), readers=readers)


def migrate(url: str) -> None:
    """Bring the database to the version that this Placet needs; safe to run from several servers at once. Blocks.

    Raises:
        SchemaMismatch: the database is newer than this Placet, or not Placet's.
    """
    _database(make_url(url)).migrate()


def _database(url: URL) -> Database:
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise ValueError("a store needs a file: sqlite:///path")
            return Sqlite(Path(url.database))
        case "postgresql":
            try:
                from placet.adapters.store.postgres import Postgres
            except ImportError as error:
                raise ValueError(f"PostgreSQL needs its driver, pip install '.[postgres]': {error}") from error
            return Postgres(url)
        case other:
            raise ValueError(f"no store for {other}; use sqlite:///path or postgresql://host/database")
