"""What an attempt counts against the budgets of its tenant and its token, and what a budget still allows.

An attempt counts in the month in which it was begun: while it lives with the most that it may cost, then with what it
did cost. A budget stops new attempts and never one that runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

import numpy as np

from placet.domain.budgets import ALWAYS, WARNED_AT, Bound, Budgeted, Charge, Holder, month_of
from placet.domain.failures import Cause, Failure
from placet.domain.offer_table import Bits, OfferTable
from placet.domain.problems import Problem
from placet.domain.records import Attempt, Workload
from placet.domain.units import format_money
from placet.stages import costs
from placet.stages.filters import NEVER_FILTERS, Asked

FIX = (
    "lower constraints.maximum_runtime_seconds or allow cheaper offers, wait until what runs is over, or have the "
    "budget raised: `placet budget set`"
)
MICRO = Decimal("0.000001")
Counted = tuple[Decimal, Decimal]
NOTHING: Counted = (Decimal(0), Decimal(0))


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """The next attempt does not fit: the bound, and the least that it may cost at worst on anything that would do."""

    bound: Bound
    least_usd: Decimal

    @property
    def told(self) -> str:
        """The same words while amounts come and go."""
        limit = format_money(self.bound.limit_usd)
        return f"it may cost {format_money(self.least_usd)}, and {self.bound.told} of {limit} does not leave that"

    @property
    def for_ever(self) -> bool:
        """Would it not fit either when all that runs had cost nothing, and for a month in the next one?"""
        held = Decimal(0) if self.bound.month else self.bound.held.spent_usd
        return held + self.least_usd > self.bound.limit_usd


def counted(attempt: Attempt | None) -> Counted:
    """What an attempt counts: set aside and spent. What is simulated is no money."""
    if attempt is None or attempt.placement.simulated:
        return NOTHING
    if attempt.final:
        return Decimal(0), attempt.cost_usd
    return attempt.placement.reserved_usd, Decimal(0)


def charges(workload: Workload, before: Sequence[Attempt], after: Sequence[Attempt]) -> tuple[Charge, ...]:
    """What changes by changed attempts; those that are new must be within the budgets."""
    known = {attempt.epoch: attempt for attempt in before}
    return tuple(charge for attempt in after for charge in _charges(workload, known.get(attempt.epoch), attempt))


def _charges(workload: Workload, before: Attempt | None, after: Attempt) -> Iterator[Charge]:
    was, now = counted(before), counted(after)
    reserved_usd, spent_usd = now[0] - was[0], now[1] - was[1]
    if not reserved_usd and not spent_usd:
        return
    holders = [(Holder.TENANT, workload.tenant)]
    if workload.token_id:
        holders.append((Holder.TOKEN, workload.token_id))
    for kind, holder in holders:
        for period in (ALWAYS, month_of(after.created_ms)):
            yield Charge(
                kind=kind,
                holder=holder,
                period=period,
                reserved_usd=reserved_usd,
                spent_usd=spent_usd,
                guarded=reserved_usd > 0,
            )


def tightest(budgets: Sequence[Budgeted]) -> Bound | None:
    """The bound that leaves least."""
    bounds = [bound for budget in budgets for bound in budget.bounds]
    return min(bounds, key=lambda bound: bound.left_usd, default=None)


def left_usd(budgets: Sequence[Budgeted]) -> Decimal | None:
    """What all budgets together leave for one more attempt; ``None`` where there is no bound."""
    bound = tightest(budgets)
    return None if bound is None else bound.left_usd


def least_usd(asked: Asked, table: OfferTable) -> Decimal | None:
    """The least that one attempt costs at worst on an offer that meets every bound of the spec; ``None``: none does."""
    if not len(table):
        return None
    possible: Bits = np.ones(len(table), dtype=np.bool_)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        if passed is not None:
            possible &= passed
    worst = np.where(table.simulated, 0.0, costs.worst_micro(asked.demand, table))
    if not possible.any():
        return None
    return int(np.ceil(worst[possible].min())) * MICRO


def exceeded(asked: Asked, table: OfferTable, budgets: Sequence[Budgeted]) -> Exceeded | None:
    """Why no offer that meets every bound of the spec is within the budgets; ``None`` while one is or none does."""
    bound = tightest(budgets)
    least = None if bound is None else least_usd(asked, table)
    if bound is None or not least or least <= bound.left_usd:
        return None
    return Exceeded(bound=bound, least_usd=least)


def beyond(attempt: Attempt, budgets: Sequence[Budgeted]) -> Exceeded | None:
    """The same of one attempt that is about to begin, to the last millionth."""
    bound, reserved_usd = tightest(budgets), counted(attempt)[0]
    if bound is None or not reserved_usd or reserved_usd <= bound.left_usd:
        return None
    return Exceeded(bound=bound, least_usd=reserved_usd)


def refuse(found: Exceeded) -> Problem:
    """What is said to who submits."""
    bound = found.bound
    held = f"{format_money(bound.held.spent_usd)} spent and {format_money(bound.held.reserved_usd)} set aside"
    return Problem(
        code="budget_exceeded",
        field="constraints.maximum_estimated_cost",
        what=f"it may cost {format_money(found.least_usd)} at worst; of {bound.told}, {format_money(bound.limit_usd)}, "
        f"{format_money(max(bound.left_usd, Decimal(0)))} is left",
        why=f"{held}; a budget stops new attempts before they could exceed it",
        fix=FIX,
    )


def failure(found: Exceeded) -> Failure:
    """The end of a workload that no budget will ever allow."""
    return Failure(cause=Cause.BUDGET, message=found.told)


def warnings(budgets: Sequence[Budgeted], more_usd: Decimal = Decimal(0)) -> tuple[str, ...]:
    """A sentence for each bound of which, with ``more_usd``, a half or more is spent or set aside."""
    bounds = (bound for budget in budgets for bound in budget.bounds)
    return tuple(_warning(bound, more_usd) for bound in bounds if bound.percent(more_usd) >= WARNED_AT[0])


def _warning(bound: Bound, more_usd: Decimal) -> str:
    level = max(at for at in WARNED_AT if at <= bound.percent(more_usd))
    held = (bound.held.held_usd + more_usd).quantize(MICRO, rounding=ROUND_UP)
    return (
        f"{level}% or more of {bound.told} is spent or set aside: "
        f"{format_money(held)} of {format_money(bound.limit_usd)}"
    )


def doubts(budgets: Sequence[Budgeted], more_usd: Decimal) -> tuple[Problem, ...]:
    """The same for who submits; no ground to refuse."""
    return tuple(
        Problem(
            code="budget_low",
            field="constraints.maximum_estimated_cost",
            what=told,
            why="once nothing is left no new attempt begins, a retry included",
            fix="`placet budget ls` tells what is left; `placet budget set` raises it",
        )
        for told in warnings(budgets, more_usd)
    )
