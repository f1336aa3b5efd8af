"""Every cent has a place: useful, overhead, or wasted for a reason; what was charged after the end is told apart."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.allocations import Handle
from placet.domain.failures import Cause, Failure
from placet.domain.orphans import Orphan, OrphanReason
from placet.domain.records import Attempt
from placet.domain.states import AttemptState, OrphanState, WorkloadState
from placet.stages.billing import until_gone
from placet.stages.ledger import add_up, entries
from tests.support.values import ATTEMPT, NOW_MS, WORKLOAD

A = AttemptState
SECOND_MS = 1000  # 3.60 an hour is a tenth of a cent a second
DONE = replace(WORKLOAD, state=WorkloadState.SUCCEEDED, epoch=2)
LOST = replace(
    ATTEMPT, state=A.LOST, cost_usd=Decimal("0.5"), failure=Failure(cause=Cause.LOST, message="gone"), released_ms=1
)
RAN = replace(
    ATTEMPT,
    epoch=2,
    state=A.COLLECTED,
    computed=True,
    submitted_ms=NOW_MS,
    started_ms=NOW_MS + 25 * SECOND_MS,
    exited_ms=NOW_MS + 100 * SECOND_MS,
    cost_usd=Decimal("0.1"),
    released_ms=NOW_MS + 110 * SECOND_MS,
)


def test_useful_overhead_and_waste_with_its_reason() -> None:
    first, second = entries(DONE, (LOST, RAN), NOW_MS)
    assert (first.wasted_usd, first.reason, first.spent_usd) == (Decimal("0.5"), "attempt_lost", Decimal("0.5"))
    assert (first.at_most, first.open, second.open) == (True, False, False)
    assert (second.useful_usd, second.overhead_usd, second.wasted_usd) == (Decimal("0.075"), Decimal("0.025"), 0)
    sums = add_up((first, second))
    assert sums.spent_usd == Decimal("0.6")
    assert sums.wasted == (("attempt_lost", Decimal("0.5")),)


def test_what_is_charged_until_it_is_gone_is_waste_after_the_stop() -> None:
    charged = until_gone(RAN, NOW_MS + 110 * SECOND_MS)
    assert charged.cost_usd == Decimal("0.11")
    (entry,) = entries(DONE, (charged,), NOW_MS)
    assert (entry.after_stop_usd, entry.wasted_usd, entry.spent_usd) == (
        Decimal("0.01"),
        Decimal("0.01"),
        Decimal("0.11"),
    )
    assert add_up((entry,)).wasted == (("after its end", Decimal("0.01")),)


def test_what_runs_counts_until_now_and_what_may_not_exist_counts_nothing() -> None:
    running = replace(ATTEMPT, state=A.RUNNING, permit_ms=NOW_MS)
    (entry,) = entries(WORKLOAD, (running,), NOW_MS + 100 * SECOND_MS)
    assert (entry.spent_usd, entry.running_usd, entry.wasted_usd, entry.open) == (
        Decimal("0.1"),
        Decimal("0.1"),
        0,
        True,
    )
    unknown = replace(ATTEMPT, state=A.UNKNOWN)
    (entry,) = entries(WORKLOAD, (unknown,), NOW_MS + 100 * SECOND_MS)
    assert (entry.spent_usd, entry.open) == (0, True)
    refused = replace(ATTEMPT, state=A.REFUSED)
    (entry,) = entries(WORKLOAD, (refused,), NOW_MS)
    assert (entry.spent_usd, entry.open) == (0, False)


@given(
    cost=st.decimals(min_value=0, max_value=10**6, places=6),
    started_s=st.integers(0, 10**6),
    ran_s=st.integers(0, 10**6),
    computed=st.booleans(),
)
def test_the_parts_are_the_whole_to_the_last_digit(cost: Decimal, started_s: int, ran_s: int, computed: bool) -> None:
    started_ms = NOW_MS + started_s * SECOND_MS
    attempt: Attempt = replace(
        RAN, cost_usd=cost, computed=computed, started_ms=started_ms, exited_ms=started_ms + ran_s * SECOND_MS
    )
    (entry,) = entries(DONE, (attempt,), NOW_MS)
    assert entry.spent_usd == cost
    assert min(entry.useful_usd, entry.overhead_usd, entry.wasted_usd, entry.after_stop_usd) >= 0
    sums = add_up((entry, entry))
    assert sums.useful_usd + sums.overhead_usd + sums.wasted_usd == sums.spent_usd == cost * 2


def test_what_is_simulated_is_told_and_not_added_to_what_is_real() -> None:
    made_up = replace(LOST, placement=replace(LOST.placement, simulated=True), cost_usd=Decimal(100))
    found = entries(DONE, (made_up, RAN), NOW_MS)
    assert [entry.simulated for entry in found] == [True, False]
    assert add_up(found).spent_usd == Decimal("0.1")
    assert add_up(found[:1]).spent_usd == Decimal(100)


def _orphan(native_id: str, reason: OrphanReason, closed_s: int | None, *, key: str = ATTEMPT.key) -> Orphan:
    return Orphan(
        handle=Handle(provider="somewhere", key=key, native_id=native_id, created_ms=NOW_MS),
        reason=reason,
        state=OrphanState.LISTED if closed_s is None else OrphanState.CLOSED,
        first_seen_ms=NOW_MS + 900 * SECOND_MS,
        last_seen_ms=NOW_MS + 1000 * SECOND_MS,
        closed_ms=None if closed_s is None else NOW_MS + closed_s * SECOND_MS,
        proof="" if closed_s is None else "gone",
    )


def test_an_attempt_that_was_lost_too_early_costs_what_its_orphan_did() -> None:
    held = Handle(provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS)
    lost = replace(LOST, handle=held)
    closed = _orphan("n", OrphanReason.OVER, 1000)
    (entry,) = entries(DONE, (lost,), NOW_MS, (closed,))
    assert (entry.spent_usd, entry.wasted_usd, entry.reason) == (Decimal("1.0"), Decimal("1.0"), "attempt_lost")
    assert (entry.orphan_usd, entry.after_stop_usd, entry.open) == (Decimal("0.5"), Decimal("0.5"), False)
    (entry,) = entries(DONE, (lost,), NOW_MS + 2000 * SECOND_MS, (_orphan("n", OrphanReason.OVER, None),))
    assert (entry.spent_usd, entry.open, entry.at_most) == (Decimal("2.0"), True, True), "it may still cost"


def test_a_twin_costs_all_of_its_own_and_what_is_not_of_this_attempt_costs_it_nothing() -> None:
    lost = replace(LOST, handle=Handle(provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS))
    found = (
        _orphan("other", OrphanReason.TWIN, 100),
        _orphan("foreign", OrphanReason.FOREIGN, 100),
        _orphan("n", OrphanReason.OVER, 100, key="placet-d-0-2"),
        _orphan("n", OrphanReason.OVER, 100),
    )
    (entry,) = entries(DONE, (lost,), NOW_MS, found)
    assert (entry.spent_usd, entry.orphan_usd) == (Decimal("0.6"), Decimal("0.1"))


def test_what_was_refused_and_landed_late_is_no_longer_free() -> None:
    failure = Failure(cause=Cause.UNRESOLVED, message="verified absent")
    refused = replace(ATTEMPT, state=A.REFUSED, failure=failure)
    (entry,) = entries(WORKLOAD, (refused,), NOW_MS, (_orphan("n", OrphanReason.OVER, 100),))
    assert (entry.wasted_usd, entry.reason) == (Decimal("0.1"), "outcome_unknown")
    assert add_up((entry,)).spent_usd == Decimal("0.1")
