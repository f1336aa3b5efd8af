"""One resumable workload on a recorded trace of spot availability: what a policy costs, and whether it is on time.

The rules are those of the "Can't Be Late" study and its public leaderboard, with one made strict: every start of other
capacity, in another place too, pays the changeover delay. All times are whole seconds, so every figure is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

SPOT_USD_PER_HOUR = 0.9731
ON_DEMAND_USD_PER_HOUR = 3.06
HOUR_S = 3600


class Kind(StrEnum):
    """What is held for one interval."""

    NONE = "none"
    SPOT = "spot"
    ON_DEMAND = "on_demand"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to hold during the next interval, and where."""

    kind: Kind
    place: int = 0


NOTHING = Choice(Kind.NONE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One workload: ``up[place][tick]`` is 1 where spot can be started or kept; times count from its start."""

    group: str
    start: str
    places: tuple[str, ...]
    up: tuple[bytes, ...]
    gap_s: int
    work_s: int
    deadline_s: int
    delay_s: int

    @property
    def ticks(self) -> int:
        """Whole ticks until the deadline."""
        return self.deadline_s // self.gap_s


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a policy may know at a tick beside what it saw at earlier ones."""

    tick: int
    left_s: int
    delay_left_s: int
    held: Choice
    up: tuple[bool, ...]


class Policy(Protocol):
    """Made anew for each case."""

    def decide(self, seen: Seen) -> Choice:
        """What to hold during the next interval."""
        ...


Rule = Callable[[Case], Policy]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one case cost under one policy. Work is counted where it was done."""

    usd: float
    on_time: bool
    spot_work_s: int
    on_demand_work_s: int
    starts: int
    looks: int


class RuleBroken(Exception):
    """A policy chose what is not there."""


def simulate(case: Case, rule: Rule) -> Outcome:
    """Ticks until the work is done or the deadline has come; a late workload is stopped and has cost what it cost."""
    policy = rule(case)
    gap_s = case.gap_s
    held, left_s, delay_left_s, starts, tick = NOTHING, case.work_s, 0, 0, 0
    intervals = {Kind.NONE: 0, Kind.SPOT: 0, Kind.ON_DEMAND: 0}
    worked_s = {Kind.NONE: 0, Kind.SPOT: 0, Kind.ON_DEMAND: 0}
    for tick in range(case.ticks):
        up = tuple(bool(place[tick]) for place in case.up)
        if held.kind is Kind.SPOT and not up[held.place]:
            held, delay_left_s = NOTHING, 0
        choice = policy.decide(Seen(tick, left_s, delay_left_s, held, up))
        if choice.kind is Kind.SPOT and not up[choice.place]:
            raise RuleBroken(f"spot in {case.places[choice.place]} is not there at tick {tick} of {case.start}")
        if choice.kind is Kind.NONE:
            held, delay_left_s = NOTHING, 0
            continue
        if choice != held:
            held, delay_left_s, starts = choice, case.delay_s, starts + 1
        work_s = min(max(gap_s - delay_left_s, 0), left_s)
        delay_left_s = max(delay_left_s - gap_s, 0)
        intervals[held.kind] += 1
        worked_s[held.kind] += work_s
        left_s -= work_s
        if left_s == 0:
            break
    hours = gap_s / HOUR_S
    return Outcome(
        usd=hours * (intervals[Kind.SPOT] * SPOT_USD_PER_HOUR + intervals[Kind.ON_DEMAND] * ON_DEMAND_USD_PER_HOUR),
        on_time=left_s == 0,
        spot_work_s=worked_s[Kind.SPOT],
        on_demand_work_s=worked_s[Kind.ON_DEMAND],
        starts=starts,
        looks=tick + 1,
    )
