"""Declared outputs against found files, and the one document every ending has."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.allocations import FoundOutput, LogSeal, Phase
from placet.domain.failures import Cause, Failure
from placet.domain.records import Artifact
from placet.domain.spec import Output
from placet.domain.states import AttemptState, DeliveryState, WorkloadState
from placet.stages.delivery import deliver
from placet.stages.result import conclude, digest
from tests.support.values import ATTEMPT, NOW_MS, SEEN, SPEC, WORKLOAD

TWO = replace(SPEC, outputs=(Output(name="a", path="a"), Output(name="b", path="b", required=False)))


def found(name: str) -> FoundOutput:
    return FoundOutput(name=name, path=name, size_bytes=1, sha256="0" * 64, location="/x")


@pytest.mark.parametrize(
    ("names", "state", "missing_required"),
    [
        ("ab", DeliveryState.COMPLETE, ()),
        ("a", DeliveryState.PARTIAL, ()),
        ("b", DeliveryState.PARTIAL, ("a",)),
        ("", DeliveryState.MISSING, ("a",)),
    ],
)
def test_delivery_is_complete_partial_or_missing(
    names: str, state: DeliveryState, missing_required: tuple[str, ...]
) -> None:
    seen = replace(SEEN, phase=Phase.ENDED, outputs=tuple(found(name) for name in names))
    delivery = deliver(TWO, seen)
    assert (delivery.state, delivery.missing_required) == (state, missing_required)


def test_what_was_not_declared_is_not_delivered() -> None:
    assert deliver(TWO, replace(SEEN, outputs=(found("c"),))).found == ()
    assert deliver(SPEC, SEEN).state is DeliveryState.NONE


COMPUTED = replace(
    ATTEMPT,
    state=AttemptState.COLLECTED,
    computed=True,
    exit_code=0,
    cost_usd=Decimal("0.30"),
    submitted_ms=NOW_MS,
    started_ms=NOW_MS + 1000,
    exited_ms=NOW_MS + 3000,
    logs=(LogSeal(stream="stdout", bytes_total=10, bytes_kept=8, gaps=((8, 2),)),),
)
LOST = replace(
    ATTEMPT, state=AttemptState.LOST, cost_usd=Decimal("0.10"), failure=Failure(cause=Cause.LOST, message="x")
)
ARTIFACT = Artifact(
    workload_id=WORKLOAD.id, epoch=2, name="a", path="a", size_bytes=1, sha256="0" * 64, location="secret"
)
DONE = replace(WORKLOAD, state=WorkloadState.SUCCEEDED, finished_ms=NOW_MS + 4000, epoch=2)


def test_every_ending_has_the_same_keys() -> None:
    endings = [
        conclude(replace(DONE, state=state, failure=failure), attempts, ())
        for state, failure in (
            (WorkloadState.SUCCEEDED, None),
            (WorkloadState.FAILED, Failure(cause=Cause.EXIT_CODE, message="m", exit_code=1)),
            (WorkloadState.CANCELLED, Failure(cause=Cause.CANCELLED, message="m")),
            (WorkloadState.EXPIRED, Failure(cause=Cause.DEADLINE, message="m")),
        )
        for attempts in ((), (LOST,), (LOST, replace(COMPUTED, epoch=2)))
    ]
    assert len({tuple(json.loads(ending)) for ending in endings}) == 1


def test_the_digest_is_that_of_the_rest_and_any_change_shows() -> None:
    document = json.loads(conclude(DONE, (COMPUTED,), (ARTIFACT,)))
    assert document["digest"] == digest(document)
    document["state"] = "changed"
    assert document["digest"] != digest(document)


def test_money_is_split_into_useful_overhead_and_waste_exactly() -> None:
    cost = json.loads(conclude(DONE, (LOST, replace(COMPUTED, epoch=2)), ()))["cost"]
    assert cost == {
        "useful_usd": "0.200000",
        "overhead_usd": "0.100000",
        "wasted_usd": "0.10",
        "total_usd": "0.400000",
        "at_most": True,
    }


def test_what_is_measured_is_not_called_an_estimate() -> None:
    document = json.loads(conclude(DONE, (replace(COMPUTED, epoch=2),), ()))
    assert (document["cost"]["at_most"], document["attempts"][0]["cost_at_most"]) == (False, False)


def test_where_the_bytes_are_stays_inside() -> None:
    assert "secret" not in conclude(DONE, (COMPUTED,), (ARTIFACT,))


def test_logs_are_told_with_their_gaps() -> None:
    logs = json.loads(conclude(DONE, (COMPUTED,), ()))["logs"]
    assert logs == [
        {"epoch": 1, "stream": "stdout", "bytes_total": 10, "bytes_kept": 8, "gaps": [[8, 2]], "sealed": True}
    ]
