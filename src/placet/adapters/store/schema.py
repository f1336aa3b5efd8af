"""Which version a database has, and how it gets the next one. Alembic is loaded only when something is to be done."""

import secrets
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, inspect, select

from placet.adapters.store.tables import meta, metadata
from placet.domain.errors import SchemaMismatch

HEAD = "0009"
MIGRATIONS = Path(__file__).parent / "migrations"
DEPLOYMENT = "deployment_id"

# Alembic's own table, as it would make it.
versions = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def current(connection: Connection) -> str | None:
    """The version of the tables, ``None`` for an empty database.

    Raises:
        SchemaMismatch: there are tables that are not ours.
    """
    names = inspect(connection).get_table_names()
    if not names:
        return None
    if versions.name not in names or "workloads" not in names:
        raise SchemaMismatch("the database holds tables of something else; give Placet one of its own")
    return str(connection.execute(select(versions.c.version_num)).scalar_one())


def check(version: str | None) -> None:
    """Raises ``SchemaMismatch`` unless it is ours."""
    if version is None:
        raise SchemaMismatch("the database is empty; run the migrations first")
    if version != HEAD:
        raise SchemaMismatch(f"the database has version {version} and this Placet needs {HEAD}; run the migrations")


def upgrade(connection: Connection) -> None:
    """Bring the tables to our version inside the connection's open transaction; does nothing when they have it.

    An empty database gets the tables as they are now, at once; the migrations lead to the same tables.

    Raises:
        SchemaMismatch: the database is newer than we are.
    """
    version = current(connection)
    if version == HEAD:
        return
    if version is None:
        metadata.create_all(connection, checkfirst=False)
        versions.create(connection)
        connection.execute(versions.insert().values(version_num=HEAD))
        connection.execute(meta.insert().values(name=DEPLOYMENT, value=secrets.token_hex(16)))
    else:
        run_migrations(connection)


def run_migrations(connection: Connection) -> None:
    """Take the tables from whatever version they have, even from none, through every later one to ours.

    Raises:
        SchemaMismatch: the database is newer than we are.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SchemaMismatch(f"cannot upgrade: {error}") from error
