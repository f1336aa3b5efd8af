"""Every cent has a place: useful, overhead, or wasted for a reason; what was charged after the end is told apart."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt
from placet.domain.states import AttemptState, WorkloadState
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
