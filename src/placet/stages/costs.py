"""What one attempt can cost at most, of all offers at once and of one offer exactly."""

from decimal import Decimal

import numpy as np

from placet.domain.offer_table import Bits, Numbers, OfferTable
from placet.domain.offers import Demand, Offer

# Without any bound on the run time, an offer that costs something is judged by this much of it.
UNBOUNDED_RUNTIME_S = 3600.0
# From so many rows on, what is worked out once per snapshot pays for itself.
MANY_ROWS = 4096
# What a bound on the cost leaves is looked up for so many kinds of offers; with more, it is worked out offer by offer.
COST_KINDS_MAX = 6
PRICE_TOP = 2**62


def worst_micro(demand: Demand, table: OfferTable) -> Numbers:
    """What one attempt can cost at most, in millionths of a dollar, per offer.

    The hourly price over start-up and the longest run time and one billing quantum, at least the minimum charge.
    Without any bound on the run time, one hour is counted.
    """
    price, overhead_s, least = columns(table)
    worst: Numbers = overhead_s + longest_s(demand)
    worst /= 3600.0
    worst *= price
    return np.maximum(worst, least, out=worst)


def columns(table: OfferTable) -> tuple[Numbers, Numbers, Numbers]:
    """Price, seconds that are paid for beside the run, and minimum charge, as floating-point numbers; made once."""
    columns: tuple[Numbers, Numbers, Numbers] | None = table.derived.get("cost_columns")
    if columns is None:
        columns = table.derived["cost_columns"] = (
            table.price_micro.astype(np.float64),
            table.startup_s + table.billing_quantum_s,
            table.minimum_charge_micro.astype(np.float64),
        )
    return columns


def worst_usd(demand: Demand, offer: Offer) -> Decimal:
    """The same of one offer, in dollars."""
    hours = (Decimal(longest_s(demand)) + offer.startup_s + offer.billing_quantum_s) / 3600
    return max(offer.price_usd_per_hour * hours, offer.minimum_charge_usd)


def longest_s(demand: Demand) -> float:
    """The longest that one run may take."""
    return float(demand.runtime_s.high) if demand.runtime_s is not None else UNBOUNDED_RUNTIME_S


def within(demand: Demand, table: OfferTable, left_micro: float) -> Bits:
    """Where ``worst_micro`` is at most this."""
    kinds = _kinds(table) if len(table) > MANY_ROWS else None
    if kinds is None:
        affordable: Bits = worst_micro(demand, table) <= left_micro
        return affordable
    passed = np.zeros(len(table), dtype=np.bool_)
    for rows, overhead_s, least in kinds:
        if least <= left_micro:
            factor = (overhead_s + longest_s(demand)) / 3600.0
            passed |= rows & (table.price_micro <= _dearest_micro(factor, left_micro))
    return passed


def _kinds(table: OfferTable) -> list[tuple[Bits, float, float]] | None:
    """The rows for each overhead and minimum charge, made once: within one of them the price alone decides. ``None``
    where there are many."""
    if "cost_kinds" not in table.derived:
        _, overhead_s, least = columns(table)
        overheads, of_overhead = np.unique(overhead_s, return_inverse=True)
        leasts, of_least = np.unique(least, return_inverse=True)
        found = None
        if len(overheads) * len(leasts) <= COST_KINDS_MAX:
            found = [
                ((of_overhead == at) & (of_least == under), overhead, minimum)
                for at, overhead in enumerate(overheads.tolist())
                for under, minimum in enumerate(leasts.tolist())
            ]
        table.derived["cost_kinds"] = found
    known: list[tuple[Bits, float, float]] | None = table.derived["cost_kinds"]
    return known


def _dearest_micro(factor: float, most: float) -> int:
    """The highest whole price that does not exceed ``most`` when multiplied, rounding included; -1 for none."""
    if most < 0:
        return -1
    if factor * PRICE_TOP <= most:
        return PRICE_TOP
    price = int(most / factor)
    while factor * price > most:
        price -= 1
    while factor * (price + 1) <= most:
        price += 1
    return price
