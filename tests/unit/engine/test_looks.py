"""What a look proves is as old as the look, however late it is heard."""

from dataclasses import replace

import pytest

from placet.domain.offer_table import OfferTable
from placet.domain.records import Lease, Record
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.decide import decide
from placet.engine.facts import Found, Situation, World
from placet.testing.scripted import CARD
from tests.support.values import ATTEMPT, NOW_MS, OFFER, WORKLOAD

A = AttemptState


@pytest.mark.parametrize(("asked_ms", "state"), [(NOW_MS + 10, A.UNKNOWN), (None, A.REFUSED)])
def test_absence_is_not_proven_by_a_look_of_before_a_standstill(asked_ms: int | None, state: AttemptState) -> None:
    attempt = replace(
        ATTEMPT, provider=OFFER.provider, state=A.UNKNOWN, absent_reads=2, absent_since_ms=NOW_MS, created_ms=NOW_MS
    )
    workload = replace(WORKLOAD, state=WorkloadState.PLACING, epoch=1, lease=Lease(owner="w", epoch=1))
    world = World(
        now_ms=NOW_MS + 30_000,
        deployment="d",
        worker="w",
        offers=lambda: OfferTable.of([]),
        places=frozenset(),
        cards={OFFER.provider: CARD},
    )
    found = Found(epoch=1, handles=(), asked_ms=asked_ms)
    step = decide(Situation(record=Record(workload=workload, attempts=(attempt,)), world=world, facts=(found,)))
    assert step.record.attempts[0].state is state
