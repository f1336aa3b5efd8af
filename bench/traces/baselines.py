"""The published policies and the simple ones, all over any number of places.

A policy over places keeps the place it runs in, and otherwise takes the first that has spot; the reserve rule over
places takes the one that was there most of the time lately.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.traces.simulator import NOTHING, Case, Choice, Kind, Seen

ON_DEMAND = Choice(Kind.ON_DEMAND)


def net(case: Case, seen: Seen) -> Choice | None:
    """The safety net of the study: what must be held now so that the deadline is met whatever happens, if anything."""
    ticks_left = case.ticks - seen.tick
    if seen.held.kind is not Kind.SPOT and _ceil(seen.left_s + 2 * case.delay_s, case.gap_s) >= ticks_left:
        return _on_demand(seen)
    if _ceil(seen.left_s + case.delay_s, case.gap_s) >= ticks_left:
        settled = seen.held.kind is Kind.SPOT and seen.delay_left_s == 0
        return seen.held if settled else _on_demand(seen)
    return None


@dataclass
class OnDemandOnly:
    """The list price of certainty."""

    case: Case

    def decide(self, seen: Seen) -> Choice:
        del seen
        return ON_DEMAND


@dataclass
class SpotOnly:
    """What the lowest listed price does: spot where it is, else wait, and no net."""

    case: Case

    def decide(self, seen: Seen) -> Choice:
        return _spot(seen) or NOTHING


@dataclass
class Greedy:
    """Spot if it is there, else wait, with the net."""

    case: Case

    def decide(self, seen: Seen) -> Choice:
        return net(self.case, seen) or _spot(seen) or NOTHING


@dataclass
class UniformProgress:
    """Greedy, but without spot and behind a straight line of progress it takes on-demand capacity."""

    case: Case

    def decide(self, seen: Seen) -> Choice:
        must = net(self.case, seen)
        if must is not None:
            return must
        case, time_s = self.case, seen.tick * self.case.gap_s
        done_s = case.work_s - seen.left_s
        spot = _spot(seen)
        if seen.held.kind is Kind.ON_DEMAND:
            ahead = (time_s + 2 * case.delay_s) * case.work_s < done_s * case.deadline_s
            return spot if spot is not None and ahead else seen.held
        behind = done_s * case.deadline_s < time_s * case.work_s
        return spot or (ON_DEMAND if behind else NOTHING)


@dataclass
class Reserve:
    """Waits only while the slack is more than a share of the work left; leaves on-demand only for spot that lasts."""

    case: Case
    share: float
    patient: bool = True
    in_a_row: list[int] = field(default_factory=list)
    ups: list[int] = field(default_factory=list)

    def decide(self, seen: Seen) -> Choice:
        self._remember(seen.up)
        must = net(self.case, seen)
        if must is not None:
            return must
        case = self.case
        spot = self._best(seen)
        if seen.held.kind is Kind.ON_DEMAND:
            waits = self.patient and spot and self.in_a_row[spot.place] < _ceil(3 * case.delay_s, case.gap_s)
            return seen.held if spot is None or waits else spot
        if spot is not None:
            return spot
        slack_s = case.deadline_s - seen.tick * case.gap_s - seen.left_s - 2 * case.delay_s - case.gap_s
        return NOTHING if slack_s > self.share * seen.left_s else ON_DEMAND

    def _remember(self, up: Sequence[bool]) -> None:
        if not self.ups:
            self.in_a_row, self.ups = [0] * len(up), [0] * len(up)
        self.in_a_row = [row + 1 if there else 0 for row, there in zip(self.in_a_row, up, strict=True)]
        self.ups = [count + there for count, there in zip(self.ups, up, strict=True)]

    def _best(self, seen: Seen) -> Choice | None:
        if seen.held.kind is Kind.SPOT:
            return seen.held
        there = [place for place, up in enumerate(seen.up) if up]
        return Choice(Kind.SPOT, max(there, key=lambda place: self.ups[place])) if there else None


def _spot(seen: Seen) -> Choice | None:
    if seen.held.kind is Kind.SPOT:
        return seen.held
    return Choice(Kind.SPOT, seen.up.index(True)) if any(seen.up) else None


def _on_demand(seen: Seen) -> Choice:
    return seen.held if seen.held.kind is Kind.ON_DEMAND else ON_DEMAND


def _ceil(amount_s: int, gap_s: int) -> int:
    return -(-amount_s // gap_s)
