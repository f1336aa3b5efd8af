"""PostgreSQL through psycopg 3."""

from sqlalchemy.engine import URL

from placet.adapters.store.link import Database


def Postgres(url: URL) -> Database:
    raise NotImplementedError(str(url))
