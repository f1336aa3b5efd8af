"""The least a case can cost, by exact dynamic programming over (tick, what is held, slack), knowing the whole trace.

Slack is the time to the deadline minus the work left: waiting and changing over spend it, working keeps it. In units of
the greatest common divisor of all times involved it is a whole number between zero and the slack at the start, so one
array over the slack per thing held is the whole table of a tick.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.traces.simulator import (
    HOUR_S,
    NOTHING,
    ON_DEMAND_USD_PER_HOUR,
    SPOT_USD_PER_HOUR,
    Case,
    Choice,
    Kind,
    Seen,
)

Costs = NDArray[np.float64]


@dataclass
class Optimum:
    """Solved when made; as a policy it replays the solution, so that the simulator can confirm ``usd``."""

    case: Case
    usd: float = 0.0
    _fresh: list[NDArray[np.int8]] = field(default_factory=list)
    _stays: list[NDArray[np.bool_]] = field(default_factory=list)

    def __post_init__(self) -> None:
        case = self.case
        slack_s = case.deadline_s - case.work_s
        self._unit_s = math.gcd(case.gap_s, case.delay_s, slack_s)
        self._gap, self._delay, self._slack = (time_s // self._unit_s for time_s in (case.gap_s, case.delay_s, slack_s))
        # Holding a thing for k intervals leaves this much of its delay; the last level is a settled one.
        self._levels = [max(self._delay - k * self._gap, 0) for k in range(1, -(-self._delay // self._gap) + 1)] or [0]
        self._choices = [Choice(Kind.ON_DEMAND), *(Choice(Kind.SPOT, place) for place in range(len(case.places)))]
        self._solve()

    def decide(self, seen: Seen) -> Choice:
        index = (self.case.deadline_s - seen.tick * self.case.gap_s - seen.left_s) // self._unit_s
        if seen.held.kind is not Kind.NONE:
            level = self._levels.index(seen.delay_left_s // self._unit_s)
            row = self._choices.index(Choice(seen.held.kind, seen.held.place)) * len(self._levels) + level
            if self._stays[seen.tick][row, index]:
                return seen.held
        fresh = self._fresh[seen.tick][index]
        return NOTHING if fresh < 0 else self._choices[fresh]

    def _solve(self) -> None:
        case, levels = self.case, len(self._levels)
        hours = case.gap_s / HOUR_S
        prices = [ON_DEMAND_USD_PER_HOUR * hours] + [SPOT_USD_PER_HOUR * hours] * len(case.places)
        later_held: Costs = np.zeros((len(self._choices) * levels, self._slack + 1))
        later_idle: Costs = np.zeros(self._slack + 1)
        for tick in range(case.ticks - 1, -1, -1):
            there = [True, *(bool(place[tick]) for place in case.up)]
            idle = _spend(later_idle, self._gap)
            fresh = np.full(self._slack + 1, -1, dtype=np.int8)
            for number, price in enumerate(prices):
                if there[number]:
                    start = price + _spend(later_held[number * levels], min(self._delay, self._gap))
                    better = start < idle
                    idle[better], fresh[better] = start[better], number
            held = np.tile(idle, (len(self._choices) * levels, 1))
            stays = np.zeros(held.shape, dtype=np.bool_)
            for number, price in enumerate(prices):
                for level in range(levels if there[number] else 0):
                    row, then = number * levels + level, number * levels + min(level + 1, levels - 1)
                    stay = price + _spend(later_held[then], min(self._levels[level], self._gap))
                    stays[row] = stay <= idle
                    held[row] = np.minimum(stay, idle)
            done = (case.ticks - tick) * self._gap
            idle[done:], held[:, done:] = 0.0, 0.0
            later_idle, later_held = idle, held
            self._fresh.append(fresh)
            self._stays.append(stays)
        self._fresh.reverse()
        self._stays.reverse()
        self.usd = float(later_idle[self._slack])


def _spend(costs: Costs, units: int) -> Costs:
    """The costs after so much slack is spent; what has too little slack for it is late for ever."""
    if units == 0:
        return costs.copy()
    spent = np.full_like(costs, np.inf)
    spent[units:] = costs[:-units]
    return spent
