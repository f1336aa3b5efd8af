"""Migrations and tables say the same, and the tables themselves refuse what must never be written."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, func, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from placet.adapters.store import SqlStore, codec, items, make_store, migrate, schema
from placet.adapters.store.tables import (
    artifacts,
    attempts,
    events,
    intents,
    labels,
    meta,
    metadata,
    results,
    specs,
    submission_keys,
    tokens,
    workloads,
)
from placet.domain.errors import SchemaMismatch
from placet.testing.conformance.store_values import (
    NOW_MS,
    TENANT,
    acceptance_of,
    accepted,
    new_artifact,
    new_attempt,
    new_intent,
    new_workload,
    plain_spec,
)
from tests.support.postgres import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def new_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes addresses of empty databases on either engine."""
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}.db"
        return
    server = cast(PostgresServer, request.getfixturevalue("postgres_server"))
    made: list[str] = []

    def address() -> str:
        made.append(server.create_database())
        return server.url(made[-1])

    yield address
    for name in made:
        server.drop_database(name)


def run_migrations(address: str) -> None:
    """From nothing through every migration, as a database got here that is as old as the first of them."""
    engine = create_engine(address)
    with engine.begin() as connection:
        schema.run_migrations(connection)
    engine.dispose()


@cache
def migrated_file() -> Path:
    """An empty store's file, made once."""
    file = Path(tempfile.mkdtemp(prefix="placet-schema-")) / "placet.db"
    run_migrations(f"sqlite:///{file}")
    return file


@pytest.fixture
def migrated(new_address: object, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a migrated database, copied from one that was migrated before."""
    if "sqlite" in request.node.callspec.params.values():
        shutil.copy(migrated_file(), tmp_path / "copy.db")
        yield f"sqlite:///{tmp_path}/copy.db"
    else:
        server = cast(PostgresServer, request.getfixturevalue("postgres_server"))
        template = request.getfixturevalue("postgres_template")("migrated", run_migrations)
        name = server.create_database(template)
        yield server.url(name)
        server.drop_database(name)


@pytest.fixture
def connection(migrated: str) -> Iterator[Connection]:
    """With the switches that the store sets."""
    engine = create_engine(migrated)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA foreign_keys=ON"))
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def described(connection: Connection) -> dict[str, object]:
    """All that the inspector can tell of our tables."""
    look = inspect(connection)
    names = sorted(look.get_table_names())
    return {
        name: {
            "columns": [{**column, "type": str(column["type"])} for column in look.get_columns(name)],
            "primary": look.get_pk_constraint(name),
            "unique": sorted(look.get_unique_constraints(name), key=str),
            "checks": sorted(look.get_check_constraints(name), key=str),
            "foreign": sorted(look.get_foreign_keys(name), key=str),
            "indexes": sorted(look.get_indexes(name), key=str),
            "text": connection.execute(
                text("SELECT group_concat(sql) FROM sqlite_master WHERE tbl_name = :name").bindparams(name=name)
            ).scalar()
            if connection.dialect.name == "sqlite"
            else "",
        }
        for name in names
    }


def test_migrated_and_fresh_tables_are_equal(connection: Connection, new_address: Callable[[], str]) -> None:
    migrate(address := new_address())
    engine = create_engine(address)
    with engine.connect() as fresh:
        wanted, found = described(fresh), described(connection)
        assert schema.current(fresh) == schema.current(connection) == schema.HEAD
    engine.dispose()
    assert wanted.keys() == found.keys() == {*metadata.tables, "alembic_version"}
    for name in wanted:
        assert normal(found[name]) == normal(wanted[name]), name


def normal(value: object) -> object:
    """Without line breaks, quotes and the order of clauses, in which the two ways of writing a table differ."""
    if isinstance(value, dict):
        return {key: normal(each) for key, each in value.items()}
    if isinstance(value, list):
        return [normal(each) for each in value]
    return sorted(" ".join(clause.split()) for clause in re.split("[,()]", str(value).replace('"', "")))


def test_autogenerate_finds_nothing_to_do(connection: Connection) -> None:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    assert compare_metadata(context, metadata) == []


def test_the_version_in_the_code_is_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


def test_migrating_again_changes_nothing(new_address: Callable[[], str]) -> None:
    address = new_address()
    migrate(address)
    before = deployment_ids(address)
    migrate(address)
    assert deployment_ids(address) == before
    assert len(before) == 1


def test_concurrent_migrations_agree(new_address: Callable[[], str]) -> None:
    address = new_address()
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(migrate, address) for _ in range(6)]:
            done.result()
    assert len(deployment_ids(address)) == 1


def deployment_ids(address: str) -> list[str]:
    engine = create_engine(address)
    with engine.connect() as connection:
        found = list(connection.scalars(select(meta.c.value).where(meta.c.name == schema.DEPLOYMENT)))
    engine.dispose()
    return found


async def test_an_empty_database_opens_only_where_it_is_ours_alone(new_address: Callable[[], str]) -> None:
    store = make_store(address := new_address())
    if address.startswith("sqlite"):
        await store.open()
        assert len(await store.deployment_id()) == 32
    else:
        with pytest.raises(SchemaMismatch):
            await store.open()
    await store.close()


@pytest.mark.parametrize("statement", ["UPDATE alembic_version SET version_num = '9999'", "DROP TABLE alembic_version"])
async def test_another_version_is_refused(new_address: Callable[[], str], statement: str) -> None:
    address = new_address()
    migrate(address)
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    store: SqlStore = make_store(address)
    with pytest.raises(SchemaMismatch):
        await store.open()
    await store.close()
    with pytest.raises(SchemaMismatch):
        migrate(address)


async def test_an_open_after_a_mismatch_can_be_tried_again(new_address: Callable[[], str]) -> None:
    address = new_address()
    migrate(address)
    store = make_store(address)
    await store.open()
    await accepted(store, 1)
    await store.close()


# What the tables refuse by themselves


def put_workload(connection: Connection, **columns: object) -> None:
    workload = new_workload(1, spec=plain_spec("n", (("a", "b"),)))
    rows = items.admission(acceptance_of(workload, key="k"))
    connection.execute(insert(specs), rows.spec)
    connection.execute(insert(workloads), {**rows.workload, **columns})
    connection.execute(insert(labels), [dict(label) for label in rows.labels])
    assert rows.key is not None
    connection.execute(insert(submission_keys), rows.key)
    connection.execute(insert(events), rows.event)


def put_attempt(connection: Connection, **columns: object) -> None:
    connection.execute(insert(attempts), {**codec.attempt_columns(new_attempt(new_workload(1))), **columns})


def put_intent(connection: Connection, **columns: object) -> None:
    put_attempt(connection)
    connection.execute(insert(intents), {**codec.intent_columns(new_intent(new_workload(1))), **columns})


def put_artifact(connection: Connection, **columns: object) -> None:
    put_attempt(connection)
    connection.execute(insert(artifacts), {**codec.artifact_columns(new_artifact(new_workload(1))), **columns})


def refused(connection: Connection, act: Callable[[], object]) -> None:
    with pytest.raises(IntegrityError):
        act()
    connection.rollback()


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "resting"},
        {"desired": "perhaps"},
        {"delivery": "soon"},
        {"revision": -1},
        {"lease_epoch": -1},
        {"lease_owner": ""},
        {"epoch": -1},
        {"user_failures": -1},
        {"infrastructure_failures": -1},
        {"finished_ms": 5},
        {"state": "succeeded"},
        {"spec_id": "nowhere"},
        {"tenant": None},
    ],
    ids="-".join,
)
def test_a_wrong_workload_is_refused(connection: Connection, columns: dict[str, object]) -> None:
    put_workload(connection)
    connection.rollback()
    refused(connection, lambda: put_workload(connection, **columns))


@pytest.mark.parametrize(
    "columns",
    [{"state": "resting"}, {"desired": "perhaps"}, {"epoch": 0}, {"absent_reads": -1}, {"workload_id": "nobody"}],
    ids="-".join,
)
def test_a_wrong_attempt_is_refused(connection: Connection, columns: dict[str, object]) -> None:
    put_workload(connection)
    put_attempt(connection)
    connection.rollback()
    put_workload(connection)
    refused(connection, lambda: put_attempt(connection, **columns))


def test_an_epoch_and_a_key_belong_to_one_attempt(connection: Connection) -> None:
    for again in ({"key": "other"}, {"epoch": 2}):
        put_workload(connection)
        put_attempt(connection)
        refused(connection, lambda again=again: put_attempt(connection, **again))


@pytest.mark.parametrize(
    "columns",
    [{"verb": "bake"}, {"state": "resting"}, {"epoch": 2}],
    ids="-".join,
)
def test_a_wrong_intent_is_refused(connection: Connection, columns: dict[str, object]) -> None:
    put_workload(connection)
    put_intent(connection)
    connection.rollback()
    put_workload(connection)
    refused(connection, lambda: put_intent(connection, **columns))


@pytest.mark.parametrize("columns", [{"size_bytes": -1}, {"epoch": 2}], ids="-".join)
def test_a_wrong_artifact_is_refused(connection: Connection, columns: dict[str, object]) -> None:
    put_workload(connection)
    put_artifact(connection)
    connection.rollback()
    put_workload(connection)
    refused(connection, lambda: put_artifact(connection, **columns))


def test_a_result_needs_an_end_and_there_is_one(connection: Connection) -> None:
    workload_id = new_workload(1).id
    row = {"workload_id": workload_id, "finished_ms": NOW_MS, "document": "{}"}
    put_workload(connection)
    refused(connection, lambda: connection.execute(insert(results), row))
    put_workload(connection, state="failed", finished_ms=NOW_MS)
    connection.execute(insert(results), row)
    assert connection.scalar(select(func.count()).select_from(results)) == 1
    refused(connection, lambda: connection.execute(insert(results), row))


def test_a_workload_with_a_result_cannot_become_unfinished(connection: Connection) -> None:
    put_workload(connection, state="failed", finished_ms=NOW_MS)
    row = {"workload_id": new_workload(1).id, "finished_ms": NOW_MS, "document": "{}"}
    connection.execute(insert(results), row)
    revived = update(workloads).values(state="running", finished_ms=None)
    refused(connection, lambda: connection.execute(revived))


def test_a_key_is_unique_for_tenant_and_operation(connection: Connection) -> None:
    put_workload(connection)
    row = {"tenant": TENANT, "operation": "submit", "key": "k", "workload_id": new_workload(1).id, "body_digest": ""}
    refused(connection, lambda: connection.execute(insert(submission_keys), row))


def test_a_key_without_a_workload_cannot_be_committed(connection: Connection) -> None:
    row = {"tenant": TENANT, "operation": "submit", "key": "k", "workload_id": "nobody", "body_digest": ""}
    connection.execute(insert(submission_keys), row)
    with pytest.raises(DBAPIError):
        connection.commit()
    connection.rollback()


def test_a_token_id_is_used_once(connection: Connection) -> None:
    row = {"id": "t", "digest": "d", "name": "n", "tenant": TENANT, "scopes": "[]", "created_ms": 1}
    connection.execute(insert(tokens), row)
    refused(connection, lambda: connection.execute(insert(tokens), row))
