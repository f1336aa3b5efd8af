"""What speaks for and against an offer that fits; the parts are kept apart so that a choice can be explained."""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.offers import Demand, Interval, Offer
from placet.domain.spec import CapacityType, Objective, Spec
from placet.stages.filters import worst_cost_usd

# Where nothing is known of the run time, offers are compared over one hour.
UNKNOWN_RUNTIME_S = Decimal(3600)
# Preferences decide between offers whose cost is close: each is worth this share of the cost, or seconds of start-up.
PREFERENCE_SHARE = Decimal("0.10")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Lower is better. ``parts`` add up to ``total`` and name what they stand for."""

    total: Decimal
    cost_usd: Interval
    parts: tuple[tuple[str, Decimal], ...]


def score(spec: Spec, demand: Demand, offer: Offer) -> Score:
    """The utility of one fitting offer under the spec's objective.

    cost: dollars; speed: seconds until the start; balanced: dollars plus a cent per second of start-up; reliability:
    dollars divided by the reliability of the offer, where it is known. Preferences subtract a tenth each.
    """
    cost = _cost(demand, offer)
    base = _base(spec.objective, cost, offer)
    parts = [(str(spec.objective), base)]
    scale = max(base, Decimal("0.01")) * PREFERENCE_SHARE
    for name, applies in _preferences(spec, demand, offer):
        if applies:
            parts.append((name, -scale))
    if demand.gpu_count == 0 and offer.gpu is not None:
        parts.append(("unneeded_gpu", scale * 2))
    return Score(total=sum((value for _, value in parts), Decimal(0)), cost_usd=cost, parts=tuple(parts))


def _cost(demand: Demand, offer: Offer) -> Interval:
    runtime = demand.runtime_s
    likely_s = runtime.likely if runtime is not None else UNKNOWN_RUNTIME_S
    low_s = runtime.low if runtime is not None else Decimal(0)
    hourly = offer.price_usd_per_hour / Decimal(3600)
    least = offer.minimum_charge_usd
    return Interval(
        low=max(hourly * (low_s + offer.startup_s), least),
        likely=max(hourly * (likely_s + offer.startup_s), least),
        high=max(worst_cost_usd(demand, offer), least),
        reason=runtime.reason if runtime is not None else "no bound on the run time is known; one hour is assumed",
    )


def _base(objective: Objective, cost: Interval, offer: Offer) -> Decimal:
    match objective:
        case Objective.COST:
            return cost.likely
        case Objective.SPEED:
            return offer.startup_s
        case Objective.BALANCED:
            return cost.likely + offer.startup_s / Decimal(100)
        case Objective.RELIABILITY:
            known = Decimal(str(offer.reliability)) if offer.reliability else Decimal("0.5")
            return (cost.likely + Decimal("0.01")) / known


def _preferences(spec: Spec, demand: Demand, offer: Offer) -> tuple[tuple[str, bool], ...]:
    del demand
    bounds = spec.constraints
    latency = bounds.startup_latency_s
    return (
        ("preferred_provider", offer.provider in bounds.providers.preferred),
        ("preferred_region", offer.region in bounds.regions.preferred),
        ("preferred_startup", latency is not None and offer.startup_s <= latency),
    )


def first_group(spec: Spec, offer: Offer) -> int:
    """0 for offers that come before all others whatever their score: reserved capacity, when the spec says so."""
    return 0 if spec.constraints.reserved_first and offer.capacity_type is CapacityType.RESERVED else 1
