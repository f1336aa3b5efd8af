"""Rows and values: what goes in comes out, exactly."""

from dataclasses import fields, is_dataclass
from decimal import Decimal

import pytest

from placet.adapters.store import codec, tables
from placet.adapters.store.codec import SpecCache
from placet.domain.records import Attempt, Workload
from placet.testing.conformance.store_values import (
    RICH_SPEC,
    event_of,
    new_artifact,
    new_attempt,
    new_intent,
    new_workload,
    plain_spec,
    rich_attempt,
    rich_workload,
)


def row(table: str, columns: dict[str, object]) -> tuple[object, ...]:
    """The columns in the order of the table, as a SELECT gives them."""
    return tuple(columns[column.name] for column in tables.metadata.tables[table].columns)


@pytest.mark.parametrize("workload", [new_workload(1), rich_workload(2)], ids=["plain", "rich"])
def test_a_workload_comes_back(workload: Workload) -> None:
    columns = codec.workload_birth(workload, "spec-id")
    assert codec.workload_from(row("workloads", columns), workload.spec) == workload


@pytest.mark.parametrize(
    "attempt", [new_attempt(new_workload(1)), rich_attempt(new_workload(1))], ids=["plain", "rich"]
)
def test_an_attempt_comes_back(attempt: Attempt) -> None:
    back = codec.attempt_from(row("attempts", codec.attempt_columns(attempt)))
    assert back == attempt
    assert str(back.cost_usd) == str(attempt.cost_usd), "money keeps its digits"


def test_the_rich_values_leave_nothing_at_its_default() -> None:
    plain, rich = new_attempt(new_workload(1)), rich_attempt(new_workload(1))
    fixed = {"workload_id", "epoch", "key", "nonce", "provider", "placement", "created_ms"}
    same = {field.name for field in fields(Attempt) if getattr(plain, field.name) == getattr(rich, field.name)}
    assert same == fixed


def test_small_rows_come_back() -> None:
    workload = new_workload(1)
    intent, artifact = new_intent(workload), new_artifact(workload)
    assert codec.intent_from(row("intents", codec.intent_columns(intent))) == intent
    assert codec.artifact_from(row("artifacts", codec.artifact_columns(artifact))) == artifact
    event = event_of(workload)
    assert codec.event_from(row("events", {"seq": 0, **codec.event_columns(event)})) == event


def test_a_spec_is_addressed_by_its_content() -> None:
    first, again = codec.spec_document(RICH_SPEC), codec.spec_document(RICH_SPEC)
    assert first == again
    assert codec.spec_document(plain_spec())[0] != first[0]
    assert SpecCache().decode(*first) == RICH_SPEC
    assert SpecCache().decode(*first).resources.cpu_cores == Decimal("0.50")


def test_a_spec_from_before_a_field_existed_is_read_with_its_default() -> None:
    body = '{"runtime":{"kind":"process","command":["true"]},"unheard_of":1}'
    assert SpecCache().decode("old", body) == plain_spec()


def test_the_cache_keeps_the_latest_used() -> None:
    cache = SpecCache(size=2)
    for name in ("a", "b"):
        cache.put(name, plain_spec(name))
    assert cache.get("a") is not None
    cache.put("c", plain_spec("c"))
    assert cache.get("b") is None
    assert cache.get("a") == plain_spec("a")


def test_text_that_has_no_encoding_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        codec.spec_document(plain_spec("\ud800"))


def test_every_value_is_a_dataclass_field_of_the_row() -> None:
    assert is_dataclass(Attempt)
    names = {column.name for column in tables.attempts.columns}
    assert {field.name for field in fields(Attempt)} == names
