"""Spot capacity with a deadline: wait, take spot somewhere, take on-demand capacity, or stay - and never be late.

Each look decides for the time until the next one. A choice is allowed only if on-demand capacity, started at the next
look, still meets the deadline whatever happens in between; among the allowed ones the cheapest expected way to the end
wins. What is expected comes from the history seen so far, nothing else.
"""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from placet.domain.spec import CapacityType
from placet.stages.spot_history import HOUR_S, History, age_class_of
from placet.stages.spot_values import (
    COVER_STEPS,
    PRICE_STEPS,
    Costs,
    Market,
    Values,
    rounded_factor,
    solve,
)

# The plan's own step: looks may be more frequent, the plan need not be.
PLAN_STEPS = 900


class Action(StrEnum):
    """What to do until the next look."""

    WAIT = "wait"
    SPOT = "spot"
    ON_DEMAND = "on_demand"
    STAY = "stay"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One place where the workload may go; a price is ``None`` where that kind is not offered."""

    name: str
    spot_there: bool
    spot_usd_per_hour: float | None
    on_demand_usd_per_hour: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What the workload runs on now; ``pending_s`` is what is left of its changeover."""

    capacity: CapacityType
    place: int
    pending_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """All that a decision depends on; ``planned_s`` is the time from the start to the deadline."""

    time_left_s: float
    work_left_s: float
    planned_s: float
    planned_work_s: float
    changeover_s: float
    look_s: float
    held: Held | None
    places: tuple[Place, ...]
    history: History


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to do, where, and why; ``expected_usd`` is the price of the way to the end, if one was worked out."""

    action: Action
    place: str | None
    reason: str
    slack_s: float
    expected_usd: float | None = None
    next_best: str | None = None
    next_best_usd: float | None = None


def decide(situation: Situation) -> Decision:
    """The cheapest expected choice among those that keep the deadline safe.

    Where on-demand capacity is offered and the first look had time for the work and one changeover, following every
    decision meets the deadline, whatever spot does. Spot that is held is kept: it is never left for other spot.
    """
    on_demand = _cheapest_on_demand(situation)
    if on_demand is None:
        return _without_on_demand(situation)
    held = _held(situation, on_demand)
    if held is not Kept.ON_DEMAND and situation.work_left_s + situation.changeover_s > situation.time_left_s:
        return _cannot_be_sure(situation, on_demand)
    spot = _best_spot(situation, on_demand)
    allowed = sorted(_allowed(situation, on_demand, spot, held), key=lambda option: (option.cost_h, option.action))
    return _decision(situation, allowed, _price(on_demand.on_demand_usd_per_hour))


class Kept(StrEnum):
    """What is held, as far as it is worth keeping."""

    NOTHING = "nothing"
    SPOT = "spot"
    ON_DEMAND = "on_demand"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One allowed choice and the expected way to the end from it, in hours of on-demand capacity."""

    action: Action
    kind: str
    place: str | None
    cost_h: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spot:
    """The place whose spot is considered, or ``None`` where there is none now; and what everything costs then."""

    place: str | None
    costs: Costs


def market(situation: Situation, loss_factor: float, spot_share: float) -> Market:
    """The rounded figures of a situation, for a place that loses spot so fast and sells it at such a share."""
    caution = situation.history.learning.caution
    step_s = situation.look_s * max(1, math.ceil(situation.planned_s / (PLAN_STEPS * situation.look_s)))
    return Market(
        step_h=step_s / HOUR_S,
        steps=math.ceil(situation.planned_s / step_s),
        slack_h=max(situation.planned_s - situation.planned_work_s, step_s) / HOUR_S,
        changeover_h=situation.changeover_s / HOUR_S,
        spot_price=round(spot_share * PRICE_STEPS),
        loss=rounded_factor(loss_factor * caution),
        recovery=rounded_factor(situation.history.return_factor * caution),
        cover=round(situation.history.cover * COVER_STEPS) if len(situation.places) > 1 else 0,
    )


def _best_spot(situation: Situation, on_demand: Place) -> _Spot:
    unit = _price(on_demand.on_demand_usd_per_hour)
    shares = [
        (number, place.spot_usd_per_hour / unit)
        for number, place in enumerate(situation.places)
        if place.spot_usd_per_hour is not None and place.spot_usd_per_hour < unit
    ]
    held = situation.held
    if held is not None and held.capacity is CapacityType.SPOT:
        shares = [(number, share) for number, share in shares if number == held.place] or shares
    there = [(number, share) for number, share in shares if situation.places[number].spot_there]
    history = situation.history
    if not there:
        factor = statistics.geometric_mean(history.loss_factor(number) for number in range(len(situation.places)))
        share = min((share for _, share in shares), default=1.0)
        values = solve(market(situation, factor, share))
        return _Spot(place=None, costs=_costs(situation, values, history.anywhere.age_h, up=False))
    considered = []
    for number, share in there:
        values = solve(market(situation, history.loss_factor(number), share))
        costs = _costs(situation, values, history.places[number].age_h, up=True)
        considered.append(_Spot(place=situation.places[number].name, costs=costs))
    return min(considered, key=lambda spot: spot.costs.start_spot)


def _costs(situation: Situation, values: Values, age_h: float, *, up: bool) -> Costs:
    return values.at(
        situation.time_left_s / HOUR_S,
        (situation.time_left_s - situation.work_left_s) / HOUR_S,
        situation.held.pending_s / HOUR_S if situation.held is not None else 0.0,
        age_class_of(age_h),
        up=up,
    )


def _allowed(situation: Situation, on_demand: Place, spot: _Spot, held: Kept) -> Iterator[Option]:
    costs, kept = spot.costs, situation.held
    name = situation.places[kept.place].name if kept is not None else None
    if held is Kept.ON_DEMAND:
        yield Option(action=Action.STAY, kind="on-demand", place=name, cost_h=costs.stay_on_demand)
    else:
        yield Option(action=Action.ON_DEMAND, kind="on-demand", place=on_demand.name, cost_h=costs.start_on_demand)
    if held is not Kept.SPOT and _is_safe(situation, 0.0):
        yield Option(action=Action.WAIT, kind="waiting for spot", place=None, cost_h=costs.wait)
    if spot.place is None:
        return
    if held is Kept.SPOT and kept is not None:
        if _is_safe(situation, situation.look_s - kept.pending_s):
            yield Option(action=Action.STAY, kind="spot", place=name, cost_h=costs.stay_spot)
    elif _is_safe(situation, situation.look_s - situation.changeover_s):
        yield Option(action=Action.SPOT, kind="spot", place=spot.place, cost_h=costs.start_spot)


def _is_safe(situation: Situation, work_s: float) -> bool:
    """Whether on-demand capacity, started at the next look with so much more work done, meets the deadline."""
    left_s = situation.work_left_s - max(work_s, 0.0)
    return left_s <= 0 or left_s + situation.changeover_s <= situation.time_left_s - situation.look_s


def _held(situation: Situation, on_demand: Place) -> Kept:
    held = situation.held
    if held is None:
        return Kept.NOTHING
    place = situation.places[held.place]
    if held.capacity is CapacityType.SPOT:
        return Kept.SPOT if place.spot_there else Kept.NOTHING
    excess = _price(place.on_demand_usd_per_hour) - _price(on_demand.on_demand_usd_per_hour)
    moving_usd = _price(on_demand.on_demand_usd_per_hour) * situation.changeover_s
    worth_moving = excess * situation.work_left_s > moving_usd
    in_time = situation.work_left_s + situation.changeover_s <= situation.time_left_s
    return Kept.NOTHING if worth_moving and in_time else Kept.ON_DEMAND


def _cheapest_on_demand(situation: Situation) -> Place | None:
    offered = [place for place in situation.places if place.on_demand_usd_per_hour is not None]
    return min(offered, key=lambda place: _price(place.on_demand_usd_per_hour)) if offered else None


def _price(usd_per_hour: float | None) -> float:
    return math.inf if usd_per_hour is None else usd_per_hour


def _decision(situation: Situation, allowed: list[Option], usd_per_hour: float) -> Decision:
    best = allowed[0]
    slack_s = situation.time_left_s - situation.work_left_s
    if len(allowed) == 1:
        reason = f"only {best.kind} surely meets the deadline: {slack_s:.0f} s of slack are left"
        return Decision(action=best.action, place=best.place, reason=reason, slack_s=slack_s)
    other = allowed[1]
    best_usd, other_usd = best.cost_h * usd_per_hour, other.cost_h * usd_per_hour
    return Decision(
        action=best.action,
        place=best.place,
        reason=f"{best.kind} is expected to cost {best_usd:.2f} USD to the end, {other.kind} {other_usd:.2f}",
        slack_s=slack_s,
        expected_usd=best_usd,
        next_best=other.kind,
        next_best_usd=other_usd,
    )


def _cannot_be_sure(situation: Situation, on_demand: Place) -> Decision:
    """Too late for a changeover: what works is kept, because nothing else ends sooner."""
    slack_s = situation.time_left_s - situation.work_left_s
    held = situation.held
    if held is not None and situation.places[held.place].spot_there:
        reason = "no time is left for a change: the deadline depends on this spot capacity"
        return Decision(action=Action.STAY, place=situation.places[held.place].name, reason=reason, slack_s=slack_s)
    reason = "the deadline cannot be met for certain any more: on-demand capacity ends soonest"
    return Decision(action=Action.ON_DEMAND, place=on_demand.name, reason=reason, slack_s=slack_s)


def _without_on_demand(situation: Situation) -> Decision:
    """Nothing can guarantee the deadline: spot wherever it is, the steadiest place first."""
    slack_s = situation.time_left_s - situation.work_left_s
    held = situation.held
    if held is not None and situation.places[held.place].spot_there:
        name = situation.places[held.place].name
        return Decision(action=Action.STAY, place=name, reason="only spot is offered, and it is held", slack_s=slack_s)
    history = situation.history
    there = [number for number, place in enumerate(situation.places) if place.spot_there]
    if not there:
        return Decision(action=Action.WAIT, place=None, reason="only spot is offered, none is there", slack_s=slack_s)
    best = min(there, key=lambda number: (history.loss_factor(number), -history.places[number].age_h))
    name = situation.places[best].name
    return Decision(action=Action.SPOT, place=name, reason="only spot is offered", slack_s=slack_s)
