"""From finished attempts to what is expected of offers. Old evidence fades, thin evidence leans on coarser groups.

Start success is a Beta-binomial, losses are a Gamma-Poisson over hours, start-up times are log-normal; the prior of a
group is what is believed of the next coarser one, worth a few attempts (an empirical-Bayes shrinkage chain: offer,
provider and region and GPU and capacity type, provider and capacity type, capacity type).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placet.domain.experience import Beliefs, Evidence, Experience, Level, Tally
from placet.domain.offer_table import Numbers, OfferTable
from placet.domain.spec import CapacityType
from placet.domain.values import evolve

DAY_MS = 86_400_000
# After this long an attempt counts half.
HALF_LIFE_MS = 7 * DAY_MS
# How many attempts, and how many hours, the belief about the coarser group is worth.
PRIOR_ATTEMPTS = 4.0
PRIOR_HOURS = 24.0
STARTUP_SPREAD = 0.6
NINTH_DECILE = 1.2816

LEVELS = (Level.CAPACITY, Level.PROVIDER, Level.PLACE, Level.OFFER)


@dataclass(frozen=True, kw_only=True)
class Prior:
    """What is believed of a kind of capacity before anything was tried."""

    start_share: float
    losses_per_hour: float


# Spot: 2 to 7.5 losses of availability a day and zone in published traces; reserved and on-demand machines fail 2 to
# 6.5 times in 1,000 node-days.
PRIORS = {
    CapacityType.RESERVED: Prior(start_share=0.99, losses_per_hour=0.0002),
    CapacityType.ON_DEMAND: Prior(start_share=0.92, losses_per_hour=0.0003),
    CapacityType.SERVERLESS: Prior(start_share=0.95, losses_per_hour=0.002),
    CapacityType.SPOT: Prior(start_share=0.75, losses_per_hour=0.12),
}


def learn(experience: Experience, evidence: Iterable[Evidence]) -> Experience:
    """The experience with more attempts in it. The order of the attempts does not matter beyond rounding."""
    tallies = dict(experience.tallies)
    for one in evidence:
        for level in LEVELS:
            key = level, group_of(level, one.offer_id, one.provider, one.region, one.gpu_model, one.capacity_type)
            tallies[key] = _add(tallies.get(key, Tally(at_ms=one.at_ms)), one)
    return Experience(tallies=tallies)


def group_of(level: Level, offer_id: str, provider: str, region: str, gpu_model: str, capacity_type: str) -> str:
    """The name of the group of this level that an offer belongs to."""
    match level:
        case Level.OFFER:
            return offer_id
        case Level.PLACE:
            return f"{provider}/{region}/{gpu_model}/{capacity_type}"
        case Level.PROVIDER:
            return f"{provider}/{capacity_type}"
        case Level.CAPACITY:
            return capacity_type


def _add(tally: Tally, one: Evidence) -> Tally:
    """Bring both to the later of the two times, then count."""
    at_ms = max(tally.at_ms, one.at_ms)
    faded, weight = _faded(tally, at_ms), _weight(at_ms - one.at_ms)
    log_startup = math.log(max(one.startup_s, 0.1)) if one.started and one.startup_s is not None else None
    return evolve(
        faded,
        starts=faded.starts + (weight if one.started else 0.0),
        failed_starts=faded.failed_starts + (0.0 if one.started else weight),
        log_startup=faded.log_startup + (0.0 if log_startup is None else weight * log_startup),
        log_startup_squared=faded.log_startup_squared + (0.0 if log_startup is None else weight * log_startup**2),
        hours=faded.hours + weight * one.hours,
        losses=faded.losses + (weight if one.taken_away else 0.0),
    )


def _weight(age_ms: int) -> float:
    return float(0.5 ** (age_ms / HALF_LIFE_MS))


def _faded(tally: Tally, at_ms: int) -> Tally:
    if at_ms == tally.at_ms:
        return tally
    weight = _weight(at_ms - tally.at_ms)
    return Tally(
        at_ms=at_ms,
        starts=tally.starts * weight,
        failed_starts=tally.failed_starts * weight,
        log_startup=tally.log_startup * weight,
        log_startup_squared=tally.log_startup_squared * weight,
        hours=tally.hours * weight,
        losses=tally.losses * weight,
    )


def beliefs(experience: Experience, table: OfferTable, *, now_ms: int) -> Beliefs:
    """What is expected of every row, coarse groups first, each level correcting the one before by its own evidence."""
    starts, rates = _priors(table)
    startup_log = np.log(np.maximum(table.startup_s, 0.1))
    weight = np.zeros(len(table))
    for level in LEVELS if experience.tallies else ():
        rows, tallies = _tallied(experience, table, level, now_ms)
        if not tallies:
            continue
        begun = np.array([tally.starts for tally in tallies])
        failed = np.array([tally.failed_starts for tally in tallies])
        hours = np.array([tally.hours for tally in tallies])
        losses = np.array([tally.losses for tally in tallies])
        logs = np.array([tally.log_startup for tally in tallies])
        chosen = rows >= 0
        at = rows[chosen]
        starts[chosen] = (begun[at] + PRIOR_ATTEMPTS * starts[chosen]) / (begun[at] + failed[at] + PRIOR_ATTEMPTS)
        rates[chosen] = (losses[at] + PRIOR_HOURS * rates[chosen]) / (hours[at] + PRIOR_HOURS)
        startup_log[chosen] = (logs[at] + PRIOR_ATTEMPTS * startup_log[chosen]) / (begun[at] + PRIOR_ATTEMPTS)
        weight[chosen] = begun[at] + failed[at]
    return Beliefs(
        start_share=starts,
        startup_s=np.where(table.startup_s > 0, np.exp(startup_log), table.startup_s),
        startup_high_s=np.exp(startup_log + NINTH_DECILE * STARTUP_SPREAD),
        losses_per_hour=rates,
        weight=weight,
    )


def _priors(table: OfferTable) -> tuple[Numbers, Numbers]:
    words = [PRIORS[CapacityType(text)] for text in table.words["capacity_type"].texts]
    starts = np.array([prior.start_share for prior in words], dtype=np.float64)
    rates = np.array([prior.losses_per_hour for prior in words], dtype=np.float64)
    return starts[table.capacity_type], rates[table.capacity_type]


def _tallied(
    experience: Experience, table: OfferTable, level: Level, now_ms: int
) -> tuple[NDArray[np.intp], Sequence[Tally]]:
    """For each row the index of its group's tally, -1 without one; work is per group that was ever tried."""
    rows = np.full(len(table), -1, dtype=np.intp)
    tallies: list[Tally] = []
    for (known, group), tally in experience.tallies.items():
        if known is not level:
            continue
        mask = _rows_of(table, level, group)
        if mask is not None:
            rows[mask] = len(tallies)
            tallies.append(_faded(tally, max(now_ms, tally.at_ms)))
    return rows, tallies


def _rows_of(table: OfferTable, level: Level, group: str) -> NDArray[np.bool_] | None:
    columns = {
        Level.OFFER: ("id",),
        Level.PLACE: ("provider", "region", "gpu_model", "capacity_type"),
        Level.PROVIDER: ("provider", "capacity_type"),
        Level.CAPACITY: ("capacity_type",),
    }[level]
    parts = (group,) if len(columns) == 1 else tuple(group.split("/"))
    mask: NDArray[np.bool_] | None = None
    for column, part in zip(columns, parts, strict=True):
        code = table.words[column].find(part)
        if code is None:
            return None
        here = getattr(table, column) == code
        mask = here if mask is None else mask & here
    return mask


@dataclass(frozen=True, kw_only=True)
class Course:
    """What one successful workload takes on an offer, attempts that fail included; per row of a table."""

    hours: Numbers
    attempts: Numbers


def expected_course(
    running_h: float, startup_h: Numbers, believed: Beliefs, *, resumable: bool, checkpoint_h: float
) -> Course:
    """Paid hours and attempts until one run of ``running_h`` hours has ended well.

    Losses come as a Poisson process of rate r. A program that starts over needs (exp(r T) - 1) / r running hours and
    exp(r T) starts in the mean (the classical checkpoint-free restart time); one that resumes repeats, at each loss,
    half a checkpoint interval. Every start is paid for from the request on, and fails with chance 1 - s.
    """
    rate = np.maximum(believed.losses_per_hour, 1e-9)
    if resumable:
        running = running_h * (1.0 + rate * checkpoint_h / 2.0)
        begun = 1.0 + rate * running
    else:
        exponent = np.minimum(rate * running_h, 50.0)
        running = np.expm1(exponent) / rate
        begun = np.exp(exponent)
    tries = begun / np.maximum(believed.start_share, 0.01)
    return Course(hours=running + tries * startup_h, attempts=tries)
