"""The pieces that need no database."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from placet.adapters.store import make_store, sqlite
from placet.adapters.store.batch import Move, _waves
from placet.adapters.store.items import admission, move
from placet.adapters.store.postgres import NOTES_MAX, PAYLOAD_BYTES_MAX, Postgres, payloads
from placet.adapters.store.sql import Statement, Statements
from placet.adapters.store.sqlite import Sqlite
from placet.domain.errors import StoreBusy, StoreError, StoreFull, StoreUnknown
from placet.domain.states import WorkloadState
from placet.testing.conformance.store_values import acceptance_of, new_workload, transition_to

W = WorkloadState


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://host/x"])
def test_an_address_that_cannot_be_a_store_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///path"):
        make_store(url)


@pytest.mark.parametrize("url", ["sqlite:////tmp/x/placet.db", "postgresql://h/d", "postgresql+psycopg://h/d"])
def test_making_a_store_does_nothing_yet(url: str) -> None:
    make_store(url)
    assert not Path("/tmp/x/placet.db").exists()


@pytest.mark.parametrize("database", [Sqlite(Path("x")), Postgres(make_url("postgresql://h/d"))], ids=["lite", "pg"])
def test_all_statements_compile(database: Sqlite | Postgres) -> None:
    statements = Statements(database)
    names = [name for name in vars(Statements) if not name.startswith("_") and name != "list_page"]
    compiled = {name: getattr(statements, name) for name in names}
    assert all(isinstance(statement, Statement) for statement in compiled.values())
    assert len(compiled) > 30
    assert not [name for name, statement in compiled.items() if "POSTCOMPILE" in statement.text]


def test_one_statement_for_each_shape_of_list() -> None:
    statements = Statements(Sqlite(Path("x")))
    shape = {"label_count": 1, "named": False, "before": True}
    first = statements.list_page(states=(W.FAILED,), **shape)
    assert statements.list_page(states=(W.SUCCEEDED, W.FAILED), **shape) is first
    assert statements.list_page(states=(W.ACCEPTED,), **shape) is not first


def test_a_few_ids_are_named_and_many_are_not() -> None:
    few = frozenset({"wl_1", "wl_2"})
    assert payloads("me", few) == ["me wl_1 wl_2"]
    ids = frozenset(new_workload(number).id for number in range(600))
    pieces = payloads("me", ids)
    assert 1 < len(pieces) <= NOTES_MAX
    assert all(len(piece.encode()) <= PAYLOAD_BYTES_MAX for piece in pieces)
    assert {word for piece in pieces for word in piece.split()[1:]} == ids
    assert payloads("me", frozenset(str(number) * 9 for number in range(10_000))) == ["me"]


def moves_of(*numbers: int) -> list[Move]:
    return [move(transition_to(new_workload(number), W.PLACING)) for number in numbers]


def test_waves_hold_each_workload_once_in_order() -> None:
    moves = moves_of(2, 1, 2, 3, 2)
    waves = _waves(moves)
    assert [[each.workload_id[-1] for each in wave] for wave in waves] == [["1", "2", "3"], ["2"], ["2"]]
    assert [wave[-1 if len(wave) == 1 else 1] for wave in waves] == [moves[0], moves[2], moves[4]]


def test_contradictions_never_reach_the_database() -> None:
    acceptance = acceptance_of(new_workload(1))
    with pytest.raises(StoreError):
        admission(replace(acceptance, event=replace(acceptance.event, workload_id="other")))
    step = transition_to(new_workload(1), W.PLACING)
    for wrong in (
        replace(step, result="{}"),
        replace(step, workload=replace(step.workload, revision=9)),
        replace(step, events=(replace(step.events[0], workload_id="other"),)),
    ):
        with pytest.raises(StoreError):
            move(wrong)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (sqlite.sqlite3.SQLITE_BUSY, StoreBusy),
        (sqlite.sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite.sqlite3.SQLITE_LOCKED, StoreBusy),
        (sqlite.sqlite3.SQLITE_FULL, StoreFull),
        (sqlite.sqlite3.SQLITE_IOERR_FSYNC, StoreUnknown),
        (sqlite.sqlite3.SQLITE_CORRUPT, StoreUnknown),
    ],
)
def test_busy_is_said_only_when_nothing_was_written(code: int, told: type[StoreError]) -> None:
    error = sqlite.sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    assert type(Sqlite(Path("x")).translate(error, committing=True)) is told
