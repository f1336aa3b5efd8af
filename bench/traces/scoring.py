"""From outcomes to one figure per set, and how sure it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.traces.sets import CaseSet
from bench.traces.simulator import Outcome

SEED = 20221026
RESAMPLES = 1000
LOWER, UPPER = 2.5, 97.5

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where 95 of 100 resamples lie."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Score:
    """Money spent over workloads that were on time; in set C the mean of that over its scenarios."""

    usd_per_on_time: float
    late: int
    interval: Interval
    on_demand_work_h: float
    spot_work_h: float


def score(cases: CaseSet, outcomes: Sequence[Outcome]) -> Score:
    usd, on_time = _usd(outcomes), _on_time(outcomes)
    resampled = [_per_on_time(cases, usd, on_time, weights) for weights in _weights(cases)]
    return Score(
        usd_per_on_time=_per_on_time(cases, usd, on_time, np.ones(len(usd))),
        late=int(len(usd) - on_time.sum()),
        interval=_interval(resampled),
        on_demand_work_h=float(np.mean([outcome.on_demand_work_s for outcome in outcomes])) / 3600,
        spot_work_h=float(np.mean([outcome.spot_work_s for outcome in outcomes])) / 3600,
    )


def difference(cases: CaseSet, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Interval:
    """Ours minus theirs, case by case, for two policies that are never late: windows overlap, so only pairs tell."""
    saved, everyone = _usd(ours) - _usd(theirs), np.ones(len(ours))
    return _interval([_per_on_time(cases, saved, everyone, weights) for weights in _weights(cases)])


def _per_on_time(cases: CaseSet, usd: Array, on_time: Array, weights: Array) -> float:
    if not cases.mean_of_groups:
        return _ratio(float(usd @ weights), float(on_time @ weights))
    names = np.array([case.group for case in cases.cases])
    groups = [names == name for name in dict.fromkeys(names)]
    return float(
        np.mean([_ratio(float((usd * weights)[g].sum()), float((on_time * weights)[g].sum())) for g in groups])
    )


def _weights(cases: CaseSet) -> list[Array]:
    """How often each case is drawn, when the set's pairs and starts are drawn with replacement.

    Scenarios of set C are not drawn, they are what is averaged over; windows are, within each.
    """
    rng = np.random.default_rng(SEED)
    groups, group_of = np.unique([case.group for case in cases.cases], return_inverse=True)
    starts, start_of = np.unique([case.start for case in cases.cases], return_inverse=True)
    drawn = []
    for _ in range(RESAMPLES):
        if cases.mean_of_groups:
            weights = np.zeros(len(cases.cases))
            for group in range(len(groups)):
                members = np.flatnonzero(group_of == group)
                np.add.at(weights, rng.choice(members, len(members)), 1.0)
            drawn.append(weights)
            continue
        of_groups = np.bincount(rng.integers(len(groups), size=len(groups)), minlength=len(groups))
        of_starts = np.bincount(rng.integers(len(starts), size=len(starts)), minlength=len(starts))
        drawn.append((of_groups[group_of] * of_starts[start_of]).astype(np.float64))
    return drawn


def _usd(outcomes: Sequence[Outcome]) -> Array:
    return np.array([outcome.usd for outcome in outcomes])


def _on_time(outcomes: Sequence[Outcome]) -> Array:
    return np.array([float(outcome.on_time) for outcome in outcomes])


def _ratio(usd: float, on_time: float) -> float:
    return usd / on_time if on_time else math.inf


def _interval(values: Sequence[float]) -> Interval:
    """A resample in which nothing is on time has no finite figure, and an interval with one has no upper end."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Interval(low=math.inf, high=math.inf)
    low, high = np.percentile(finite, [LOWER, UPPER])
    return Interval(low=float(low), high=float(high) if len(finite) == len(values) else math.inf)
