"""Which version a database has, and how it gets the next one. Alembic is loaded only when something is to be done."""

import secrets
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, inspect, select

from placet.adapters.store.tables import meta
from placet.domain.errors import SchemaMismatch

HEAD = "0001"
MIGRATIONS = Path(__file__).parent / "migrations"
DEPLOYMENT = "deployment_id"


def current(connection: Connection) -> str | None:
    """The version of the tables, ``None`` for an empty database.

    Raises:
        SchemaMismatch: there are tables that are not ours.
    """
    names = inspect(connection).get_table_names()
    if not names:
        return None
    if "alembic_version" not in names or "workloads" not in names:
        raise SchemaMismatch("the database holds tables of something else; give Placet one of its own")
    versions = Table("alembic_version", MetaData(), autoload_with=connection)
    return str(connection.execute(select(versions.c.version_num)).scalar_one())


def check(version: str | None) -> None:
    """Raises ``SchemaMismatch`` unless it is ours."""
    if version is None:
        raise SchemaMismatch("the database is empty; run the migrations first")
    if version != HEAD:
        raise SchemaMismatch(f"the database has version {version} and this Placet needs {HEAD}; run the migrations")


def upgrade(connection: Connection) -> None:
    """Bring the tables to our version inside the connection's open transaction; does nothing when they have it.

    Raises:
        SchemaMismatch: the database is newer than we are.
    """
    version = current(connection)
    if version == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SchemaMismatch(f"cannot upgrade from version {version}: {error}") from error
    if version is None:
        connection.execute(meta.insert().values(name=DEPLOYMENT, value=secrets.token_hex(16)))
