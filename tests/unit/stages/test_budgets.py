"""What attempts count, what a budget leaves, and what is said when it leaves too little."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.budgets import Budget, Budgeted, Holder, Spending, month_of, next_month_ms
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.records import Attempt
from placet.domain.spec import Constraints
from placet.domain.states import AttemptState
from placet.stages import budgets, placement, sizing
from placet.stages.filters import Asked
from tests.support.values import ATTEMPT, GPU_OFFER, NOW_MS, OFFER, SPEC, WORKLOAD

A = AttemptState
MINE = replace(WORKLOAD, token_id="t1")
LIVE = replace(ATTEMPT, placement=replace(ATTEMPT.placement, reserved_usd=Decimal("3.60")))
OVER = replace(LIVE, state=A.COLLECTED, cost_usd=Decimal("1.25"))
PAID = replace(OFFER, price_usd_per_hour=Decimal("3.60"), billing_quantum_s=1, startup_s=Decimal(0))
HOUR = replace(SPEC, constraints=Constraints(runtime_s=Decimal(3599)))  # and a second of billing
ASKED = Asked(spec=HOUR, demand=sizing.size(HOUR), now_ms=NOW_MS)
MONTH = month_of(NOW_MS)


def budget(
    total: str | None = None,
    month: str | None = None,
    *,
    spent: str = "0",
    reserved: str = "0",
    kind: Holder = Holder.TENANT,
) -> Budgeted:
    held = Spending(reserved_usd=Decimal(reserved), spent_usd=Decimal(spent))
    limits = {"total_usd": total, "month_usd": month}
    amounts = {name: None if text is None else Decimal(text) for name, text in limits.items()}
    return Budgeted(budget=Budget(kind=kind, holder="tenant", **amounts), month=MONTH, total=held, this_month=held)


def test_a_new_attempt_is_guarded_and_one_that_is_over_is_a_fact() -> None:
    begun = budgets.charges(MINE, (), (LIVE,))
    assert {(one.kind, one.holder, one.period) for one in begun} == {
        (kind, holder, period)
        for kind, holder in ((Holder.TENANT, "tenant"), (Holder.TOKEN, "t1"))
        for period in ("", MONTH)
    }
    assert {(one.reserved_usd, one.spent_usd, one.guarded) for one in begun} == {(Decimal("3.60"), Decimal(0), True)}
    ended = budgets.charges(WORKLOAD, (LIVE,), (OVER,))
    assert {(one.reserved_usd, one.spent_usd, one.guarded) for one in ended} == {
        (Decimal("-3.60"), Decimal("1.25"), False)
    }
    assert len(ended) == 2, "the token is not known"


def test_what_does_not_change_and_what_is_simulated_counts_nothing() -> None:
    assert budgets.charges(WORKLOAD, (LIVE,), (replace(LIVE, state=A.RUNNING),)) == ()
    made_up = replace(LIVE, placement=replace(LIVE.placement, simulated=True))
    assert budgets.charges(WORKLOAD, (), (made_up,)) == ()
    assert budgets.charges(WORKLOAD, (), (ATTEMPT,)) == (), "what costs nothing"


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from((A.SUBMITTED, A.RUNNING, A.COLLECTED, A.LOST)), st.integers(0, 10**9)),
    max_size=30,
)


@given(steps=STEPS)
def test_the_changes_add_up_to_what_the_attempts_count(steps: list[tuple[int, A, int]]) -> None:
    known: dict[int, Attempt] = {}
    reserved = spent = Decimal(0)
    for epoch, state, cost in steps:
        after = replace(LIVE, epoch=epoch, state=state, cost_usd=Decimal(cost).scaleb(-6))
        for one in budgets.charges(WORKLOAD, tuple(known.values()), (after,)):
            if one.period == "":
                reserved, spent = reserved + one.reserved_usd, spent + one.spent_usd
        known[epoch] = after
    counted = [budgets.counted(attempt) for attempt in known.values()]
    assert (reserved, spent) == (sum(one[0] for one in counted), sum(one[1] for one in counted))


def test_months_are_those_of_the_calendar_in_utc() -> None:
    last = int(datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1000)
    assert (month_of(last), month_of(next_month_ms(last))) == ("2027-12", "2028-01")
    assert next_month_ms(last) == last + 1000


@pytest.mark.parametrize(
    ("held", "exceeded"),
    [
        (budget("3.60"), False),
        (budget("3.599999"), True),
        (budget("10", spent="6.40"), False),
        (budget("10", spent="6", reserved="0.400001"), True),
        (budget(month="3.60"), False),
        (budget("100", "3.59"), True),
        (budget("0"), True),
    ],
)
def test_the_worst_case_must_fit_to_the_last_millionth(held: Budgeted, exceeded: bool) -> None:
    table = OfferTable.of((PAID,))
    assert (budgets.exceeded(ASKED, table, [budget("1000"), held]) is not None) is exceeded
    begun = budgets.beyond(LIVE, [held, budget("1000")])
    assert (begun is not None) is exceeded
    fits = placement.place(replace(ASKED, budget_usd=budgets.left_usd([held])), table, seed="")
    assert bool(fits.ranked) is not exceeded


def test_what_costs_nothing_is_within_any_budget_and_the_cheaper_offer_is_taken() -> None:
    nothing = budget("0", spent="5")
    assert budgets.exceeded(ASKED, OfferTable.of((OFFER,)), [nothing]) is None
    left = budgets.left_usd([nothing])
    assert (
        placement.place(replace(ASKED, budget_usd=left), OfferTable.of((OFFER, PAID)), seed="").ranked[0].offer == OFFER
    )
    made_up = replace(PAID, simulated=True)
    assert budgets.exceeded(ASKED, OfferTable.of((made_up,)), [nothing]) is None


def test_where_nothing_would_do_anyway_the_budget_is_not_blamed() -> None:
    big = replace(HOUR, resources=replace(HOUR.resources, memory_bytes=10**15))
    asked = Asked(spec=big, demand=sizing.size(big), now_ms=NOW_MS)
    assert budgets.exceeded(asked, OfferTable.of((PAID, GPU_OFFER)), [budget("0")]) is None
    assert budgets.exceeded(ASKED, OfferTable.of(()), [budget("0")]) is None


@pytest.mark.parametrize(
    ("held", "for_ever"),
    [
        (budget("10", spent="9"), True),
        (budget("10", spent="1", reserved="8"), False),
        (budget("1"), True),
        (budget(month="10", spent="9"), False),
        (budget(month="1"), True),
    ],
)
def test_it_is_waited_for_while_money_may_come_free(held: Budgeted, for_ever: bool) -> None:
    found = budgets.exceeded(ASKED, OfferTable.of((PAID,)), [held])
    assert found is not None
    assert found.for_ever is for_ever
    assert budgets.failure(found).cause is Cause.BUDGET


def test_the_refusal_says_what_is_left_why_and_what_would_help() -> None:
    found = budgets.exceeded(ASKED, OfferTable.of((PAID,)), [budget("10", spent="6", reserved="1")])
    assert found is not None
    problem = budgets.refuse(found)
    assert (problem.code, problem.field) == ("budget_exceeded", "constraints.maximum_estimated_cost")
    assert "$3.60" in problem.what
    assert "$3.00 is left" in problem.what
    assert "$6.00 spent and $1.00 set aside" in problem.why
    assert "placet budget set" in problem.fix


@pytest.mark.parametrize(
    ("spent", "more", "told"),
    [
        ("4.99", "0", ""),
        ("5", "0", "50%"),
        ("4", "1", "50%"),
        ("8", "0", "80%"),
        ("10", "0", "100%"),
        ("12", "0", "100%"),
    ],
)
def test_warnings_come_at_a_half_at_four_fifths_and_at_the_end(spent: str, more: str, told: str) -> None:
    found = budgets.warnings([budget("10", spent=spent)], Decimal(more))
    assert [warning.split()[0] for warning in found] == ([told] if told else [])
    assert len(budgets.doubts([budget("10", spent=spent)], Decimal(more))) == len(found)
