"""The way of a resumable workload to its deadline: which capacity it goes for until the next look.

``spot`` decides from plain figures; here they are read off a workload, its attempts and the offers that fit, and the
answer becomes a narrower question for placement. Only what is remembered between two looks is kept: what spot did.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from placet.domain.decisions import Within
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Interval
from placet.domain.records import Attempt, Workload
from placet.domain.spec import CapacityType, Repeat, Spec
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.stages import placement, spot
from placet.stages.filters import Asked, within_quote
from placet.stages.scores import CHECKPOINT_H
from placet.stages.spot_history import HOUR_S, History, begin, watch

# Between two looks; a workload that ends within a few looks has no time to play with.
LOOK_S = 60.0
# From the end of the program to a result: outputs are collected and delivered before the deadline, not after it.
DELIVERY_S = 60.0
# What is believed of a start where an offer says nothing of it.
STARTUP_S = 300.0
# Offers in more places than this are compared at the cheapest so many.
PLACES_MAX = 12


@dataclass(frozen=True, kw_only=True)
class Course:
    """What was decided at one look, and what the next one starts from."""

    decision: spot.Decision
    looked_ms: int
    work_left_s: float
    places: tuple[tuple[str, str], ...]
    history: History

    @property
    def look_ms(self) -> int:
        """When to look again."""
        return self.looked_ms + int(LOOK_S * SECOND_MS)


def follows(spec: Spec) -> bool:
    """Is this a workload whose spot capacity can be decided look by look? It says how long it takes at most."""
    constraints = spec.constraints
    return (
        spec.repeat is Repeat.RESUMABLE
        and constraints.deadline_ms is not None
        and constraints.runtime_s is not None
        and CapacityType.SPOT in (constraints.capacity_types or CapacityType)
    )


def look(
    asked: Asked, table: OfferTable, workload: Workload, attempts: Sequence[Attempt], before: Course | None
) -> Course | None:
    """The decision of this moment; ``None`` where spot is no question, as none is offered or the offer held is gone."""
    deadline_ms, runtime_s = workload.spec.constraints.deadline_ms, workload.spec.constraints.runtime_s
    live = next((attempt for attempt in attempts if not attempt.final), None)
    held_row = None if live is None else table.row_of(live.placement.offer_id)
    if deadline_ms is None or runtime_s is None or (live is not None and held_row is None):
        return None
    market = _Market.of(asked, table, held_row)
    if not market.has_spot:
        return None
    same = before is not None and before.places == market.places
    there = [place.spot_there for place in market.offered]
    if before is not None and same:
        history = watch(before.history, there, max(asked.now_ms - before.looked_ms, 0) / SECOND_MS)
    else:
        history = begin(there)
    changeover_s = market.startup_s + CHECKPOINT_H * HOUR_S
    planned_s = (deadline_ms - workload.created_ms) / SECOND_MS - DELIVERY_S
    situation = spot.Situation(
        time_left_s=(deadline_ms - asked.now_ms) / SECOND_MS - DELIVERY_S,
        work_left_s=max(float(runtime_s) - done_s(attempts, asked.now_ms), 0.0),
        planned_s=max(planned_s, LOOK_S),
        planned_work_s=float(runtime_s),
        changeover_s=changeover_s,
        look_s=LOOK_S,
        held=None if live is None else market.held(live, changeover_s, asked.now_ms),
        places=market.offered,
        history=history,
    )
    return Course(
        decision=spot.decide(situation),
        looked_ms=asked.now_ms,
        work_left_s=situation.work_left_s,
        places=market.places,
        history=history,
    )


def narrowed(asked: Asked, course: Course) -> Asked:
    """The same question for what was decided alone: spot in one place, or anything that is not taken back."""
    if course.decision.action is spot.Action.SPOT:
        provider, region = course.places[_number(course.decision.place)]
        within = Within(capacity_types=(CapacityType.SPOT,), providers=(provider,), regions=(region,))
    else:
        kinds = asked.spec.constraints.capacity_types or tuple(CapacityType)
        within = Within(capacity_types=tuple(kind for kind in kinds if kind is not CapacityType.SPOT))
    left_s = Decimal(round(course.work_left_s))
    left = Interval(low=Decimal(0), likely=left_s, high=left_s, reason="what is left of the declared runtime limit")
    demand = evolve(asked.demand, runtime_s=left)  # what was done already is not paid for again
    quoted = asked.quoted
    if quoted is not None and demand.usual_s is None:
        quoted = evolve(quoted, done_s=0.0)
    return evolve(asked, spec=within.of(asked.spec), within=within, demand=demand, quoted=quoted)


def moves(course: Course, asked: Asked, table: OfferTable) -> bool:
    """Is what runs now to be left for something else? Only for what its quote, if it has one, still pays for."""
    if course.decision.action not in (spot.Action.ON_DEMAND, spot.Action.SPOT):
        return False
    narrow = narrowed(asked, course)
    paid = within_quote(narrow, table)
    return paid is None or bool((placement.open_offers(narrow, table)[0] & paid).any())


def _number(place: str | None) -> int:
    assert place is not None, "spot is decided with its place"
    return int(place)


def done_s(attempts: Sequence[Attempt], now_ms: int) -> float:
    """What is surely done: an attempt that ended before its work did may have lost all since its last checkpoint."""
    surely_s = 0.0
    for attempt in attempts:
        if attempt.started_ms is None:
            continue
        ran_s = ((attempt.exited_ms or attempt.finished_ms or now_ms) - attempt.started_ms) / SECOND_MS
        surely_s += max(ran_s - (CHECKPOINT_H * HOUR_S if attempt.final else 0.0), 0.0)
    return surely_s


@dataclass(frozen=True, kw_only=True)
class _Market:
    """The places where the workload could go, by provider and region; names of places are their numbers."""

    places: tuple[tuple[str, str], ...]
    offered: tuple[spot.Place, ...]
    startup_s: float
    held_place: int | None
    held_kind: CapacityType | None

    @property
    def has_spot(self) -> bool:
        return any(place.spot_usd_per_hour is not None for place in self.offered)

    @classmethod
    def of(cls, asked: Asked, table: OfferTable, held_row: int | None) -> "_Market":
        possible, fits = placement.open_offers(asked, table)
        if held_row is not None:
            possible[held_row] = True
        rows = np.flatnonzero(possible)
        kinds = [CapacityType(table.text("capacity_type", int(row))) for row in rows]
        held_kind = None if held_row is None else CapacityType(table.text("capacity_type", held_row))
        cheapest: dict[tuple[str, str], dict[bool, float]] = {}
        there: set[tuple[str, str]] = set()
        for row, kind in zip(rows.tolist(), kinds, strict=True):
            place = (table.text("provider", row), table.text("region", row))
            is_spot = kind is CapacityType.SPOT
            prices = cheapest.setdefault(place, {})
            prices[is_spot] = min(prices.get(is_spot, np.inf), float(table.price_micro[row]) / 1e6)
            if is_spot and (fits[row] or row == held_row):
                there.add(place)
        held = None if held_row is None else (table.text("provider", held_row), table.text("region", held_row))
        ordered = sorted(cheapest, key=lambda place: (place != held, min(cheapest[place].values()), place))
        places = tuple(sorted(ordered[:PLACES_MAX]))
        startups = table.startup_s[rows]
        known = startups[~np.isnan(startups)]
        return cls(
            places=places,
            offered=tuple(
                spot.Place(
                    name=str(number),
                    spot_there=place in there,
                    spot_usd_per_hour=cheapest[place].get(True),
                    on_demand_usd_per_hour=cheapest[place].get(False),
                )
                for number, place in enumerate(places)
            ),
            startup_s=float(known.max()) if len(known) else STARTUP_S,
            held_place=None if held is None else places.index(held),
            held_kind=held_kind,
        )

    def held(self, live: Attempt, changeover_s: float, now_ms: int) -> spot.Held:
        assert self.held_place is not None
        is_spot = self.held_kind is CapacityType.SPOT
        waited_s = (now_ms - live.created_ms) / SECOND_MS
        return spot.Held(
            capacity=CapacityType.SPOT if is_spot else CapacityType.ON_DEMAND,
            place=self.held_place,
            pending_s=max(changeover_s - waited_s, 0.0) if live.started_ms is None else 0.0,
        )
