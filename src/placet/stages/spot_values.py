"""What each choice costs from here on, by dynamic programming over (time left, slack, what spot does, what is held).

Slack is the time left minus the work left. Work on any capacity keeps it; waiting and changing over spend it; when it
is gone, only on-demand capacity until the end meets the deadline. Spot is a chain over classes of age, up and down:
the longer a state has lasted the longer it will. One solution serves every moment of every workload with the same
few figures, so solutions are kept and the figures are rounded to make them few.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from placet.stages.spot_history import AGE_ENDS_H, AGES, USUAL_LOSS, USUAL_RETURN

Array = NDArray[np.float64]

# Factors are rounded to powers of this; nearer ones do not change decisions.
FACTOR_STEP = 1.3
COVER_STEPS = 10
PRICE_STEPS = 100
# Beyond so many steps before the deadline (a multiple of the next) every sixth is kept.
KEPT_ALL = 30
KEPT_EVERY = 6
# Spot in another place at the moment of a loss has been there for a while: this class of age.
COVER_AGE = 3
# Lateness is refused elsewhere; here it only has to be dear. In hours of on-demand capacity.
LATE_H = 3.0

_UP = slice(0, AGES)
_ALL = slice(0, 2 * AGES)
_HELD = slice(2 * AGES, 4 * AGES)
_HELD_UP = slice(2 * AGES, 3 * AGES)
_SPOT = slice(4 * AGES, 5 * AGES)


@dataclass(frozen=True, slots=True)
class Market:
    """The figures a solution depends on, rounded; times in hours, prices in those of on-demand capacity."""

    step_h: float
    steps: int
    slack_h: float
    changeover_h: float
    spot_price: int
    loss: int
    recovery: int
    cover: int


@dataclass(frozen=True, slots=True)
class Costs:
    """From one moment on, in hours of on-demand capacity; infinite where there is nothing to choose."""

    wait: float
    start_on_demand: float
    stay_on_demand: float
    start_spot: float = math.inf
    stay_spot: float = math.inf


@dataclass(frozen=True)
class Values:
    """A solved market: ``costs[kept step, choice and phase, slack]``."""

    market: Market
    slack_h: Array
    costs: NDArray[np.float32]

    def at(self, time_left_h: float, slack_h: float, pending_h: float, age_class: int, *, up: bool) -> Costs:
        """Costs with so much time and slack; staying also pays what is pending of the changeover."""
        steps = min(max(math.ceil(time_left_h / self.market.step_h - 1e-9), 1), self.market.steps)
        beyond = math.ceil(max(steps - KEPT_ALL, 0) / KEPT_EVERY)
        table = self.costs[min(steps, KEPT_ALL) + beyond - 1]
        # The kept step has a little more work before it: all costs shrink alike, so no comparison changes. With less
        # work than there is, a step would take it for done.
        kept_h = (min(steps, KEPT_ALL) + beyond * KEPT_EVERY) * self.market.step_h
        scale = (time_left_h - slack_h) / max(kept_h - slack_h, self.market.step_h)
        phase = age_class if up else AGES + age_class
        spot = (6 * AGES + age_class, 7 * AGES + age_class) if up else ()
        now, later = self._place(slack_h), self._place(slack_h - pending_h)
        return Costs(
            wait=scale * _between(table[phase], *now),
            start_on_demand=scale * _between(table[2 * AGES + phase], *now),
            stay_on_demand=scale * _between(table[4 * AGES + phase], *later),
            start_spot=scale * _between(table[spot[0]], *now) if spot else math.inf,
            stay_spot=scale * _between(table[spot[1]], *later) if spot else math.inf,
        )

    def _place(self, slack_h: float) -> tuple[int, float]:
        grid = self.slack_h
        column = min(max(int(np.searchsorted(grid, slack_h, side="right")) - 1, 0), len(grid) - 2)
        share = (slack_h - grid[column]) / (grid[column + 1] - grid[column])
        return column, min(max(float(share), 0.0), 1.0)


def rounded_factor(factor: float) -> int:
    return round(math.log(factor) / math.log(FACTOR_STEP))


@lru_cache(maxsize=40)
def solve(market: Market) -> Values:
    """Backwards from the deadline, one step at a time."""
    grid = _grid(market)
    chain = _chain(market)
    waiting, changing = _shift(grid, market.step_h), _shift(grid, market.changeover_h)
    on_demand = market.step_h
    spot = market.step_h * market.spot_price / PRICE_STEPS
    values = np.zeros((5 * AGES, len(grid)))
    kept = []
    for step in range(1, market.steps + KEPT_EVERY):  # the last kept one may lie beyond the first moment
        time_left_h = step * market.step_h
        late = np.maximum(time_left_h - grid, 0.0) + LATE_H
        ahead = chain @ values
        wait = waiting.of(ahead[_ALL]) + late * waiting.beyond
        changed = changing.of(ahead[2 * AGES :]) + late * changing.beyond
        start_on_demand, start_spot = changed[: 2 * AGES] + on_demand, changed[2 * AGES :] + spot
        stay_on_demand, stay_spot = ahead[_HELD] + on_demand, ahead[_SPOT] + spot
        values = np.empty_like(values)
        np.minimum(wait, start_on_demand, out=values[_ALL])
        np.minimum(values[_UP], start_spot, out=values[_UP])
        np.minimum(stay_on_demand, wait, out=values[_HELD])
        np.minimum(values[_HELD_UP], start_spot, out=values[_HELD_UP])
        np.minimum(stay_spot, values[_UP], out=values[_SPOT])
        values[:, grid >= time_left_h - 1e-9] = 0.0
        if step <= KEPT_ALL or step % KEPT_EVERY == 0:
            kept.append(np.concatenate((wait, start_on_demand, stay_on_demand, start_spot, stay_spot)))
    return Values(market=market, slack_h=grid, costs=np.array(kept, dtype=np.float32))


@dataclass(frozen=True, slots=True)
class _Shift:
    """Values after slack is spent, between two points of the grid; ``beyond`` is 1 where there is not so much slack."""

    below: NDArray[np.intp]
    lower: Array
    upper: Array
    beyond: Array

    def of(self, values: Array) -> Array:
        shifted: Array = values[:, self.below] * self.lower + values[:, self.below + 1] * self.upper
        return shifted


def _grid(market: Market) -> Array:
    """Slack from zero up: fine where one changeover more or less decides, coarser above."""
    width = min(market.changeover_h, market.step_h) / 2
    fine_to = 4 * max(market.changeover_h, market.step_h) + 2 * width
    points = [0.0]
    while points[-1] < market.slack_h or len(points) < 3:
        points.append(points[-1] + width)
        if points[-1] > fine_to:
            width *= 1.07
    return np.array(points)


def _shift(grid: Array, spent_h: float) -> _Shift:
    left_h = grid - spent_h
    there = left_h >= -1e-9
    below = np.clip(np.searchsorted(grid, left_h + 1e-9, side="right") - 1, 0, len(grid) - 2)
    share = (left_h - grid[below]) / (grid[below + 1] - grid[below])
    return _Shift(
        below=below,
        lower=np.where(there, 1.0 - share, 0.0),
        upper=np.where(there, share, 0.0),
        beyond=np.where(there, 0.0, 1.0),
    )


def _chain(market: Market) -> Array:
    """Chances from one step to the next, for nothing held, on-demand held, and spot held (which ends with spot)."""
    loss = _chances(USUAL_LOSS, FACTOR_STEP**market.loss, market.step_h)
    recovery = _chances(USUAL_RETURN, FACTOR_STEP**market.recovery, market.step_h)
    cover = market.cover / COVER_STEPS
    widths_h = np.diff(np.array((0.0, *AGE_ENDS_H, math.inf)))
    ageing = np.minimum(market.step_h / widths_h, 1.0)
    chain = np.zeros((5 * AGES, 5 * AGES))
    for age in range(AGES):
        older = min(age + 1, AGES - 1)
        lives, stays_gone = 1.0 - loss[age], 1.0 - recovery[age]
        for held in (0, 2 * AGES):
            chain[held + age, held + older] += lives * ageing[age]
            chain[held + age, held + age] += lives * (1.0 - ageing[age])
            chain[held + age, held + AGES] += loss[age] * (1.0 - cover)
            chain[held + age, held + COVER_AGE] += loss[age] * cover
            gone = held + AGES
            chain[gone + age, gone + older] += stays_gone * ageing[age]
            chain[gone + age, gone + age] += stays_gone * (1.0 - ageing[age])
            chain[gone + age, held] += recovery[age]
        spot = 4 * AGES
        chain[spot + age, spot + older] += lives * ageing[age]
        chain[spot + age, spot + age] += lives * (1.0 - ageing[age])
        chain[spot + age, AGES] += loss[age] * (1.0 - cover)
        chain[spot + age, COVER_AGE] += loss[age] * cover
    return chain


def _chances(usual_per_hour: tuple[float, ...], factor: float, step_h: float) -> Array:
    return 1.0 - np.exp(-np.array(usual_per_hour) * factor * step_h)


def _between(row: NDArray[np.float32], column: int, share: float) -> float:
    return float(row[column]) * (1.0 - share) + float(row[column + 1]) * share
