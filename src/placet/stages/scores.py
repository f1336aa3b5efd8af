"""What speaks for and against the offers that fit, kept apart in parts so that a choice can be explained."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

import numpy as np

from placet.domain.offer_table import Numbers, OfferTable
from placet.domain.offers import Demand, Interval, Offer
from placet.domain.spec import CapacityType, Objective, Spec
from placet.stages.filters import UNBOUNDED_RUNTIME_S, worst_costs_micro

# Preferences decide between offers whose scores are close: each is worth this share of the score.
PREFERENCE_SHARE = 0.10
# What a score is at least taken for when a share of it is computed, so that preferences count among free offers too.
SCORE_FLOOR = 0.01
UNKNOWN_RELIABILITY = 0.5
MONEY_PLACES = Decimal("0.000001")


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """One number per offer in each part; ``total`` is their sum, and lower is better."""

    total: Numbers
    parts: Mapping[str, Numbers]
    worst_micro: Numbers


def score(spec: Spec, demand: Demand, table: OfferTable) -> Scores:
    """The utility of every offer under the spec's objective.

    cost: dollars; speed: seconds until the start; balanced: dollars plus a cent per second of start-up; reliability:
    dollars divided by the reliability of the offer. Each preference that is met subtracts a tenth, and a GPU that
    nobody asked for adds two.
    """
    likely_usd = _likely_micro(demand, table) / 1e6
    base = _base(spec.objective, likely_usd, table)
    share = np.maximum(base, SCORE_FLOOR) * PREFERENCE_SHARE
    parts: dict[str, Numbers] = {str(spec.objective): base}
    bounds = spec.constraints
    if bounds.providers.preferred:
        met = table.judged("provider", lambda name: name in bounds.providers.preferred)
        parts["preferred_provider"] = np.where(met, -share, 0.0)
    if bounds.regions.preferred:
        met = table.judged("region", lambda name: name in bounds.regions.preferred)
        parts["preferred_region"] = np.where(met, -share, 0.0)
    if bounds.startup_latency_s is not None:
        parts["preferred_startup"] = np.where(table.startup_s <= float(bounds.startup_latency_s), -share, 0.0)
    if demand.gpu_count == 0:
        parts["unneeded_gpu"] = np.where(table.gpu_count > 0, share * 2, 0.0)
    total: Numbers = sum(parts.values(), np.zeros(len(table)))
    return Scores(total=total, parts=parts, worst_micro=worst_costs_micro(demand, table))


def _likely_micro(demand: Demand, table: OfferTable) -> Numbers:
    likely_s = float(demand.runtime_s.likely) if demand.runtime_s is not None else UNBOUNDED_RUNTIME_S
    likely: Numbers = np.maximum(
        table.price_micro * ((likely_s + table.startup_s) / 3600.0), table.minimum_charge_micro
    )
    return likely


def _base(objective: Objective, likely_usd: Numbers, table: OfferTable) -> Numbers:
    match objective:
        case Objective.COST:
            return likely_usd
        case Objective.SPEED:
            return table.startup_s
        case Objective.BALANCED:
            return likely_usd + table.startup_s / 100.0
        case Objective.RELIABILITY:
            known = np.where(np.isnan(table.reliability), UNKNOWN_RELIABILITY, table.reliability)
            return (likely_usd + SCORE_FLOOR) / np.maximum(known, 0.01)
        case _:
            assert_never(objective)


def cost_interval(demand: Demand, offer: Offer, worst_micro: float) -> Interval:
    """What one attempt on one offer costs, in US dollars."""
    runtime = demand.runtime_s
    hourly, least, startup_s = offer.price_usd_per_hour, offer.minimum_charge_usd, offer.startup_s
    low_s = runtime.low if runtime is not None else Decimal(0)
    likely_s = runtime.likely if runtime is not None else Decimal(int(UNBOUNDED_RUNTIME_S))
    return Interval(
        low=_money(max(hourly * (low_s + startup_s) / 3600, least)),
        likely=_money(max(hourly * (likely_s + startup_s) / 3600, least)),
        high=_money(max(Decimal(repr(worst_micro)) / 1_000_000, least)),
        reason=runtime.reason if runtime is not None else "no bound on the run time is known; one hour is assumed",
    )


def _money(amount: Decimal) -> Decimal:
    return Decimal(0) if amount == 0 else amount.quantize(MONEY_PLACES)


def first_group(spec: Spec, table: OfferTable) -> Numbers | None:
    """0 for offers that come before all others whatever their score: reserved capacity, when the spec says so."""
    if not spec.constraints.reserved_first:
        return None
    reserved = table.judged("capacity_type", lambda word: word == CapacityType.RESERVED)
    return np.where(reserved, 0.0, 1.0)
