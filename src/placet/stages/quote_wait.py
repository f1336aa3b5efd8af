"""A workload whose quote pays for nothing that is offered: how long it waits for a lower price, what it is told then.

It has its ``start_within_seconds`` for that, or else the patience of the deployment, from when it began to wait; and no
longer than its deadline leaves.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from placet.domain.failures import Cause, Failure
from placet.domain.offer_table import OfferTable
from placet.domain.records import Workload
from placet.domain.states import WorkloadState
from placet.domain.units import SECOND_MS, format_instant, format_money
from placet.domain.values import evolve
from placet.stages.filters import NEVER_FILTERS, Asked, quoted_run_s, run_costs_micro, within_quote

PATIENCE_S = 86_400.0
SPENT = "quote_spent"


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """The world beyond a quote: the cheapest offer that meets every bound, if any does, and one more run on it."""

    bound_usd: Decimal
    left_usd: Decimal
    offer_id: str = ""
    hourly_usd: Decimal = Decimal(0)
    run_usd: Decimal = Decimal(0)

    @property
    def told(self) -> str:
        """Both prices, for people."""
        quote = f"of the quote of {format_money(self.bound_usd)} {format_money(max(self.left_usd, Decimal(0)))} is left"
        if not self.offer_id:
            return f"nothing is offered now that could run it; {quote}"
        return (
            f"one more run may cost {format_money(self.run_usd)}, {quote}; "
            f"the cheapest is {self.offer_id} at {format_money(self.hourly_usd)}/h"
        )

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """The same for machines, in US dollars."""
        quoted = (("quoted_usd", f"{self.bound_usd:f}"), ("quote_left_usd", f"{self.left_usd:f}"))
        if not self.offer_id:
            return quoted
        now = (
            ("offer", self.offer_id),
            ("price_usd_per_hour", f"{self.hourly_usd:f}"),
            ("run_usd", f"{self.run_usd:f}"),
        )
        return (*quoted, *now)


def beyond(asked: Asked, table: OfferTable) -> Beyond | None:
    """How far the world is beyond the quote; ``None`` while one offer is within it, be it taken for now, or where
    something else than the quote stands in the way of all."""
    paid = within_quote(asked, table)
    if asked.quoted is None or paid is None:
        return None
    possible = np.ones(len(table), dtype=np.bool_)
    for check in NEVER_FILTERS:
        passed = None if check.name == SPENT else check.passes(asked, table)
        if passed is not None:
            possible &= passed
    found = Beyond(bound_usd=asked.quoted.bound_usd, left_usd=asked.quoted.left_usd)
    if not possible.any():
        return None if len(table) else found
    if (possible & paid).any():
        return None
    row = int(np.argmin(np.where(possible, run_costs_micro(asked, table), np.inf)))
    offer = table.offer(row)
    hours = Decimal(repr(quoted_run_s(asked))) / 3600
    run_usd = max(offer.price_usd_per_hour * hours, offer.minimum_charge_usd)
    return evolve(found, offer_id=offer.id, hourly_usd=offer.price_usd_per_hour, run_usd=_rounded(run_usd))


def until_ms(workload: Workload, now_ms: int, patience_s: float) -> int:
    """Until when it waits for a price within its quote."""
    begun_ms = workload.state_since_ms if workload.state is WorkloadState.WAITING else now_ms
    bounds = workload.spec.constraints
    wait_s = patience_s if bounds.start_within_s is None else float(bounds.start_within_s)
    end_ms = begun_ms + int(wait_s * SECOND_MS)
    return end_ms if bounds.deadline_ms is None else min(end_ms, bounds.deadline_ms)


def waits(found: Beyond, end_ms: int) -> str:
    """What a workload says while it waits for that."""
    return f"{found.told}; it waits for a lower price until {format_instant(end_ms)}"


def over(found: Beyond, why: str) -> Failure:
    """The end of the waiting, or that there is nothing to wait for; ``why`` says which."""
    return Failure(cause=Cause.QUOTE_EXCEEDED, message=f"{why}: {found.told}", evidence=found.evidence)


def before_deadline(asked: Asked, table: OfferTable) -> Beyond | None:
    """How far the world is beyond the quote of a workload that can no longer keep its deadline; ``None`` if it was not
    the quote that it waited for."""
    bounds = asked.spec.constraints
    if bounds.deadline_ms is None:
        return None
    return beyond(evolve(asked, spec=evolve(asked.spec, constraints=evolve(bounds, deadline_ms=None))), table)


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.000001")).normalize() if amount else Decimal(0)
