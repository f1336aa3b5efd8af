"""What a workload on one offer will cost, and when it will start and end, as quantiles.

Hundreds of courses of the workload are followed over the points of a fixed lattice, so that equal inputs give equal
figures: each attempt starts or fails to, takes a log-normal time to start, and may lose its machine, by the same
beliefs that the ranking goes by. The mean of the courses is what ``learning.expected_course`` computes.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.offer_table import Numbers
from placet.domain.offers import Demand, Ranked
from placet.domain.spec import Repeat
from placet.domain.units import SECOND_MS, format_duration_ms
from placet.stages.billing import charges
from placet.stages.costs import UNBOUNDED_RUNTIME_S
from placet.stages.learning import LEAST_STARTUP_S, LOSS_SHAPE, NINTH_DECILE
from placet.stages.scores import CHECKPOINT_H

# A Korobov lattice: point i has, in dimension d, the fraction of i * GENERATOR**d / POINTS. The number of points is
# prime, so that each dimension by itself is evenly spread.
POINTS = 499
GENERATOR = 76
RANKS = tuple(round(share * (POINTS - 1)) for share in (0.1, 0.5, 0.9))
DIMENSIONS = 3  # does it start, after how long, when is it lost
# A course that is not over after so many attempts counts as it stands then.
ATTEMPTS_MAX = 32
# Beliefs move a little with every moment; so many digits of them count.
DIGITS = 3
KEPT = 1024
# Losses are told of from so many a day on.
LOSSES_TOLD = 0.1
# Of run times as of anything, so many shares of it are said to lie below a figure; beyond the outer deciles a run takes
# so many times less or more than these.
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
TAIL = 1.5


@dataclass(frozen=True, kw_only=True)
class _Course:
    """All that a course depends on: dollars, seconds, and losses per hour."""

    hourly_usd: float
    least_usd: float
    quantum_s: float
    start_share: float
    startup_s: float
    startup_p90_s: float
    losses_per_hour: float
    run_s: tuple[float, ...]
    resumable: bool


def forecast(ranked: Ranked, demand: Demand, repeat: Repeat) -> Forecast | None:
    """The forecast for a ranked offer; ``None`` for one that nothing is believed of.

    The run time is spread as that of equal workloads, evenly between the deciles that are known; with nothing but a
    declared limit, as likely below ``demand.runtime_s.likely`` as above.
    """
    offer, outlook = ranked.offer, ranked.outlook
    if outlook is None:
        return None
    startup_s = max(_rounded(outlook.startup_s), LEAST_STARTUP_S)
    course = _Course(
        hourly_usd=float(offer.price_usd_per_hour),
        least_usd=float(offer.minimum_charge_usd),
        quantum_s=float(offer.billing_quantum_s),
        start_share=_rounded(outlook.start_share),
        startup_s=startup_s,
        startup_p90_s=max(_rounded(outlook.startup_p90_s), startup_s),
        losses_per_hour=_rounded(outlook.losses_per_hour),
        run_s=_run_s(demand),
        resumable=repeat is Repeat.RESUMABLE,
    )
    gpu = f"{offer.gpu.count}x{offer.gpu.model}" if offer.gpu is not None else "cpu"
    cost_usd, start_s, run_s, finish_s = _quantiles(course)
    return Forecast(
        cost_usd=cost_usd,
        start_s=start_s,
        run_s=run_s,
        finish_s=finish_s,
        run_assumed=demand.runtime_s is None and demand.usual_s is None,
        machine=f"{offer.capacity_type} {gpu}",
    )


def grounds(ranked: Ranked, demand: Demand) -> tuple[str, ...]:
    """What the demand and its cost rest on, each sentence once."""
    cost = ranked.cost_usd.reason
    known = any(reason.endswith(cost) for reason in demand.reasons)
    return demand.reasons if known else (cost, *demand.reasons)


def assumptions(ranked: Ranked, demand: Demand, repeat: Repeat) -> tuple[str, ...]:
    """What the figures rest on, as sentences."""
    told = [*grounds(ranked, demand)]
    outlook = ranked.outlook
    if outlook is None:
        return tuple(told)
    if demand.usual_s is None and demand.runtime_s is not None:
        told.append("run time: nothing equal was run before, so it is taken to come near its limit")
    told.append(
        f"{ranked.offer.id}: {outlook.start_share:.0%} of attempts start, half of them within "
        f"{format_duration_ms(int(max(outlook.startup_s, LEAST_STARTUP_S) * SECOND_MS))}, nine of ten within "
        f"{format_duration_ms(int(outlook.startup_p90_s * SECOND_MS))}"
    )
    if outlook.losses_per_hour * 24 >= LOSSES_TOLD:
        after = "goes on from its last checkpoint" if repeat is Repeat.RESUMABLE else "starts over"
        told.append(f"it is taken away {outlook.losses_per_hour * 24:.2g} times a day, and the program {after}")
    return tuple(told)


def _run_s(demand: Demand) -> tuple[float, ...]:
    """The run time at each of ``SHARES``."""
    usual, bounds = demand.usual_s, demand.runtime_s
    if usual is not None:
        low, likely, high = (_rounded(float(part)) for part in (usual.low, usual.likely, usual.high))
        longest = high * TAIL if bounds is None else min(high * TAIL, max(float(bounds.high), high))
        return low / TAIL, low, likely, high, longest
    if bounds is None:
        return (UNBOUNDED_RUNTIME_S,) * len(SHARES)
    low, likely, high = (float(part) for part in (bounds.low, bounds.likely, bounds.high))
    return low, low + (likely - low) * 0.2, likely, likely + (high - likely) * 0.8, high


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@lru_cache(maxsize=KEPT)
def _quantiles(course: _Course) -> tuple[Quantiles, Quantiles, Quantiles, Quantiles]:
    """Cost, first start, run and end."""
    followed = follow(course)
    return (
        _of(followed.cost_usd, "0.000001"),
        _of(followed.start_s, "0.001"),
        _of(followed.run_s, "0.001"),
        _of(followed.finish_s, "0.001"),
    )


def _of(values: Numbers, places: str) -> Quantiles:
    ordered = np.sort(values)
    p10, p50, p90 = (Decimal(repr(ordered.item(rank))).quantize(Decimal(places)) for rank in RANKS)
    return Quantiles(p10=p10, p50=p50, p90=p90)


@dataclass(frozen=True, kw_only=True, eq=False)
class Followed:
    """One entry per course: dollars, and seconds from the first dispatch."""

    cost_usd: Numbers
    start_s: Numbers
    run_s: Numbers
    finish_s: Numbers


def follow(course: _Course) -> Followed:
    """Every course from dispatch to success."""
    run_s = _spread(course.run_s, _points(0))
    sigma = float(np.log(course.startup_p90_s / course.startup_s)) / NINTH_DECILE
    spent, at_s, first_s = np.zeros(POINTS), np.zeros(POINTS), np.full(POINTS, np.nan)
    done_s = np.zeros(POINTS)
    open_ = np.ones(POINTS, dtype=np.bool_)
    for attempt in range(ATTEMPTS_MAX):
        starts, startup, lost = (_points(1 + DIMENSIONS * attempt + place) for place in range(DIMENSIONS))
        begins = starts < course.start_share
        startup_s = course.startup_s * np.exp(sigma * _normal().take((startup * POINTS).astype(np.intp)))
        left_s = run_s - done_s if course.resumable else run_s
        until_loss_s = _until_loss_s(course.losses_per_hour, lost)
        ran_s = np.where(begins, np.minimum(left_s, until_loss_s), 0.0)
        charged = charges(course.hourly_usd, startup_s + ran_s, quantum_s=course.quantum_s, least=course.least_usd)
        first_s = np.where(open_ & begins & np.isnan(first_s), at_s + startup_s, first_s)
        spent += np.where(open_, charged, 0.0)
        at_s += np.where(open_, startup_s + ran_s, 0.0)
        if course.resumable:  # half a checkpoint interval is done again
            done_s = np.where(open_, done_s + np.maximum(ran_s - CHECKPOINT_H * 1800.0, 0.0), done_s)
        open_ &= ~(begins & (until_loss_s >= left_s))
        if not open_.any():
            break
    return Followed(cost_usd=spent, start_s=np.where(np.isnan(first_s), at_s, first_s), run_s=run_s, finish_s=at_s)


def _spread(at_shares: tuple[float, ...], points: Numbers) -> Numbers:
    spread: Numbers = np.interp(points, SHARES, at_shares)
    return spread


def _until_loss_s(losses_per_hour: float, points: Numbers) -> Numbers:
    """The inverse of ``learning.undisturbed``: after so long the chance that nothing was lost is the point."""
    if losses_per_hour <= 0:
        return np.full(len(points), np.inf)
    hours = (points ** (-1.0 / LOSS_SHAPE) - 1.0) * LOSS_SHAPE / losses_per_hour
    seconds: Numbers = hours * 3600.0
    return seconds


@lru_cache(maxsize=1 + DIMENSIONS * ATTEMPTS_MAX)
def _points(dimension: int) -> Numbers:
    """One dimension of the lattice: the middles of equal parts of (0, 1), in an order of its own."""
    order: NDArray[np.int64] = np.arange(POINTS, dtype=np.int64) * pow(GENERATOR, dimension, POINTS) % POINTS
    points: Numbers = (order + 0.5) / POINTS
    points.flags.writeable = False
    return points


@lru_cache(maxsize=1)
def _normal() -> Numbers:
    """The standard normal quantile of each part."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((part + 0.5) / POINTS) for part in range(POINTS)])
