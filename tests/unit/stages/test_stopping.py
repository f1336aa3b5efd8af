"""How far a stop has come, and what may go on costing until it is proven."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.records import Attempt, Intent, Record
from placet.domain.states import AttemptState, Desired, IntentState, IntentVerb, WorkloadState
from placet.stages.stopping import OVERDUE_MS, TAKEN, StopStage, stop_of
from tests.support.values import ATTEMPT, NOW_MS, WORKLOAD

A, S = AttemptState, StopStage
STOPPED = replace(WORKLOAD, state=WorkloadState.RUNNING, epoch=1, desired=Desired.STOP, updated_ms=NOW_MS)
ASKED = replace(ATTEMPT, state=A.STOPPING, stop_requested_ms=NOW_MS + 5)
SENT = Intent(
    workload_id=WORKLOAD.id, epoch=1, verb=IntentVerb.CANCEL, state=IntentState.SENT, sent_ms=NOW_MS, sender="w"
)
GRACE_MS = int(WORKLOAD.spec.stop_grace_s * 1000)


def stage(attempt: Attempt, *intents: Intent, now_ms: int = NOW_MS + 10) -> StopStage:
    stop = stop_of(Record(workload=STOPPED, attempts=(attempt,), intents=intents), now_ms)
    assert stop is not None
    return stop.stage


def test_what_nobody_stops_has_no_stop() -> None:
    assert stop_of(Record(workload=WORKLOAD), NOW_MS) is None
    running = replace(ATTEMPT, state=A.RUNNING)
    assert stop_of(Record(workload=replace(STOPPED, desired=Desired.RUN), attempts=(running,)), NOW_MS) is None


def test_asked_then_taken_then_proven() -> None:
    assert stage(replace(ATTEMPT, state=A.RUNNING)) is S.REQUESTED
    assert stage(ASKED, SENT) is S.REQUESTED
    assert stage(ASKED, replace(SENT, evidence=TAKEN)) is S.DELIVERED
    ended = replace(ASKED, state=A.STOPPED)
    assert stage(ended) is S.DELIVERED
    assert stage(replace(ended, released_ms=NOW_MS)) is S.CONFIRMED


def test_what_is_not_proven_in_time_is_told_with_what_it_may_cost() -> None:
    taken = replace(SENT, evidence=TAKEN)
    last_ms = NOW_MS + 5 + GRACE_MS + OVERDUE_MS
    assert stage(ASKED, taken, now_ms=last_ms) is S.DELIVERED
    assert stage(ASKED, taken, now_ms=last_ms + 1) is S.UNCONFIRMED
    stop = stop_of(Record(workload=STOPPED, attempts=(ASKED,), intents=(taken,)), last_ms + 1)
    assert stop is not None
    assert (stop.usd_per_hour, stop.requested_ms) == (Decimal("3.60"), NOW_MS + 5)


@pytest.mark.parametrize("attempts", [(), (replace(ATTEMPT, state=A.REFUSED),)])
def test_where_nothing_was_ever_there_the_stop_is_proven(attempts: tuple[Attempt, ...]) -> None:
    stop = stop_of(Record(workload=STOPPED, attempts=attempts), NOW_MS)
    assert stop is not None
    assert (stop.stage, stop.usd_per_hour) == (S.CONFIRMED, 0)
