"""What an allocation costs. Recorded costs and forecasts count by the same rule."""

from decimal import ROUND_CEILING, ROUND_UP, Decimal
from typing import TypeAlias

import numpy as np

from placet.domain.offer_table import Numbers, Whole
from placet.domain.records import Attempt
from placet.domain.states import AttemptState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve

MICRO = Decimal("0.000001")
Columns: TypeAlias = Numbers | Whole


def charges(hourly: float | Columns, held_s: Numbers, *, quantum_s: float | Columns, least: float | Columns) -> Numbers:
    """The price of allocations held so many seconds, one entry each, in the unit of the hourly price and the minimum.

    Time counts in whole quanta, a begun one as a whole, at the hourly price; no allocation costs less than the minimum
    charge: ``max(price * ceil(held / quantum) * quantum, minimum)``. That is how clouds bill, each with a quantum and a
    minimum of its own: seconds after a first minute (Amazon EC2, "Amazon EC2 On-Demand Pricing"; Google Compute
    Engine, "VM instance pricing"), or whole hours.
    """
    paid_s = np.ceil(held_s / quantum_s) * quantum_s
    charged: Numbers = np.maximum(hourly * paid_s / 3600.0, least)
    return charged


def charge(hourly: Decimal, held_s: Decimal, *, quantum_s: int, least: Decimal) -> Decimal:
    """The same of one allocation, exactly."""
    paid_s = (max(held_s, Decimal(0)) / quantum_s).to_integral_value(ROUND_CEILING) * quantum_s
    return max(hourly * paid_s / 3600, least)


def price_usd_per_hour(attempt: Attempt) -> Decimal:
    """What its allocation costs: as the provider itself says of it, or else as it was offered."""
    told = attempt.handle.price_usd_per_hour if attempt.handle is not None else None
    return attempt.placement.price_usd_per_hour if told is None else told


def charge_usd(attempt: Attempt, held_ms: int) -> Decimal:
    """What an attempt is charged in US dollars; the last millionth is rounded up."""
    note = attempt.placement
    charged = charge(
        price_usd_per_hour(attempt),
        Decimal(held_ms) / SECOND_MS,
        quantum_s=note.billing_quantum_s,
        least=note.minimum_charge_usd,
    )
    return charged.quantize(MICRO, rounding=ROUND_UP)


def begun_ms(attempt: Attempt) -> int:
    """When its allocation began: as the provider says, or else when it can have begun at the earliest."""
    return attempt.handle.created_ms if attempt.handle is not None else attempt.created_ms


def settled(attempt: Attempt, now_ms: int) -> Attempt:
    """An attempt that is over, with its cost.

    Where nobody knows when it ended, it is taken to have run until now, when its end is proven, and the cost is the
    most that it may be (``Attempt.cost_at_most``). One that was refused never was, and costs nothing.
    """
    if attempt.state is AttemptState.REFUSED:
        return attempt
    cost = attempt.cost_usd if attempt.exited_ms is not None else charge_usd(attempt, now_ms - begun_ms(attempt))
    return evolve(attempt, cost_usd=cost, wasted_usd=Decimal(0) if attempt.computed else cost)


def until_gone(attempt: Attempt, gone_ms: int) -> Attempt:
    """An attempt that is over, charged until its allocation was gone; what was charged after its end is waste."""
    cost = max(attempt.cost_usd, charge_usd(attempt, gone_ms - begun_ms(attempt)))
    return evolve(attempt, cost_usd=cost, wasted_usd=attempt.wasted_usd + cost - attempt.cost_usd)
