"""What speaks for and against the offers that fit, kept apart in parts so that a choice can be explained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from placet.domain.experience import Beliefs
from placet.domain.offer_table import Numbers, OfferTable
from placet.domain.offers import Interval, Offer
from placet.domain.spec import CapacityType, Objective, Repeat
from placet.stages.billing import charge, charges
from placet.stages.costs import UNBOUNDED_RUNTIME_S, longest_s
from placet.stages.filters import Asked
from placet.stages.learning import Course, beliefs, expected_course, undisturbed, untried_course

# Preferences decide between offers whose scores are close: each is worth this share of the score.
PREFERENCE_SHARE = 0.10
# What a score is at least taken for when a share of it is computed, so that preferences count among free offers too.
SCORE_FLOOR = 0.01
ROUNDING = 1e-9
MONEY_PLACES = Decimal("0.000001")
# What a resumable program is taken to repeat after a loss: it checkpoints about this often.
CHECKPOINT_H = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """One number per offer in each part; ``total`` is their sum, and lower is better."""

    total: Numbers
    parts: Mapping[str, Numbers]
    expected_usd: Numbers
    believed: Beliefs
    course: Course

    def and_(self, more: "Scores") -> "Scores":
        """These and more of the same request, one after the other."""
        return Scores(
            total=np.concatenate([self.total, more.total]),
            parts={name: np.concatenate([values, more.parts[name]]) for name, values in self.parts.items()},
            expected_usd=np.concatenate([self.expected_usd, more.expected_usd]),
            believed=self.believed.and_(more.believed),
            course=Course(
                hours=np.concatenate([self.course.hours, more.course.hours]),
                attempts=np.concatenate([self.course.attempts, more.course.attempts]),
            ),
        )

    def take(self, rows: NDArray[np.intp]) -> "Scores":
        """Those of some rows, in their order."""
        return Scores(
            total=self.total[rows],
            parts={name: values[rows] for name, values in self.parts.items()},
            expected_usd=self.expected_usd[rows],
            believed=self.believed.take(rows),
            course=Course(hours=self.course.hours[rows], attempts=self.course.attempts[rows]),
        )


def score(asked: Asked, table: OfferTable) -> Scores:
    """The utility of every offer under the spec's objective.

    cost: expected dollars per successful workload, all its attempts included; speed: expected seconds until the first
    start; balanced: dollars plus a cent per second until the start; reliability: expected dollars per chance that the
    first attempt succeeds. Each preference that is met subtracts a tenth, and a GPU that nobody asked for adds two.
    """
    spec = asked.spec
    believed = beliefs(asked.experience, table, now_ms=asked.now_ms)
    course = _course(asked, believed, None if asked.experience.tallies else table)
    each_micro = charges(
        table.price_micro,
        course.hours * 3600.0 / course.attempts,
        quantum_s=table.billing_quantum_s,
        least=table.minimum_charge_micro,
    )
    expected_usd: Numbers = each_micro * course.attempts / 1e6
    base = _base(asked, expected_usd, believed)
    parts = {str(spec.objective): base, **_preferences(asked, table, base)}
    total = _total(asked, parts)
    return Scores(total=total, parts=parts, expected_usd=expected_usd, believed=believed, course=course)


def _total(asked: Asked, parts: Mapping[str, Numbers]) -> Numbers:
    total = parts[str(asked.spec.objective)]
    for name, part in parts.items():
        if name != asked.spec.objective:
            total = total + part
    return total


def cheap_totals(asked: Asked) -> bool:
    """Does the total not depend on the cost?"""
    return asked.spec.objective is Objective.SPEED


def totals(asked: Asked, table: OfferTable) -> Numbers:
    """The totals of ``score``, where they are ``cheap_totals``."""
    base = _until_start_s(beliefs(asked.experience, table, now_ms=asked.now_ms))
    return _total(asked, {str(asked.spec.objective): base, **_preferences(asked, table, base)})


def dearest(asked: Asked, believed: Beliefs) -> Callable[[float], Numbers]:
    """Tells of a total the price, in millionths of a dollar per hour, above which no offer scores as low of which no
    more is believed than this; one price for each belief.

    Every base grows linearly with the expected cost, the cost with price and hours, the hours with start-up time and
    losses and with the chance that a start fails. Minimum charges and quanta only add to the cost. A score is its base
    less a tenth of it for each preference that is met, which grows with the base as there are fewer than ten. What is
    added at last is far more than rounding can do.
    """
    bounds = asked.spec.constraints
    wishes = bool(bounds.providers.preferred) + bool(bounds.regions.preferred) + (bounds.startup_latency_s is not None)
    off = wishes * PREFERENCE_SHARE
    free, dollar = np.zeros(len(believed.weight)), np.ones(len(believed.weight))
    least = _base(asked, free, believed)
    slope = _base(asked, dollar, believed) - least
    grows = slope > 0
    steep = np.where(grows, slope, 1.0)
    hours = np.maximum(_course(asked, believed).hours, 1e-300)

    def limits(total: float) -> Numbers:
        base = total / (1.0 - off) if total >= SCORE_FLOOR * (1.0 - off) else total + off * SCORE_FLOOR
        base += ROUNDING * max(abs(base), SCORE_FLOOR)
        room = np.where(least <= base, base - least, -1.0)
        usd = np.where(grows, room / steep, np.where(room < 0, -1.0, np.inf))
        micro: Numbers = usd * 1e6 / hours
        return micro * (1.0 + np.copysign(ROUNDING, micro)) + 0.5

    return limits


def _course(asked: Asked, believed: Beliefs, untried: OfferTable | None = None) -> Course:
    running_h, startup_h = _likely_s(asked) / 3600.0, believed.startup_s / 3600.0
    resumable = asked.spec.repeat is Repeat.RESUMABLE
    if untried is not None:
        return untried_course(running_h, startup_h, untried, resumable=resumable, checkpoint_h=CHECKPOINT_H)
    return expected_course(running_h, startup_h, believed, resumable=resumable, checkpoint_h=CHECKPOINT_H)


def _likely_s(asked: Asked) -> float:
    return float(asked.demand.runtime_s.likely) if asked.demand.runtime_s is not None else UNBOUNDED_RUNTIME_S


def _base(asked: Asked, expected_usd: Numbers, believed: Beliefs) -> Numbers:
    match asked.spec.objective:
        case Objective.COST:
            return expected_usd
        case Objective.SPEED:
            return _until_start_s(believed)
        case Objective.BALANCED:
            return expected_usd + _until_start_s(believed) / 100.0
        case Objective.RELIABILITY:
            first_try = believed.start_share * undisturbed(believed.losses_per_hour, _likely_s(asked) / 3600.0)
            return (expected_usd + SCORE_FLOOR) / np.maximum(first_try, 0.001)
        case _:
            assert_never(asked.spec.objective)


def _until_start_s(believed: Beliefs) -> Numbers:
    until: Numbers = believed.startup_s / np.maximum(believed.start_share, 0.01)
    return until


def _preferences(asked: Asked, table: OfferTable, base: Numbers) -> dict[str, Numbers]:
    bounds = asked.spec.constraints
    parts: dict[str, Numbers] = {}
    share = np.maximum(base, SCORE_FLOOR) * PREFERENCE_SHARE
    if bounds.providers.preferred:
        met = table.judged("provider", lambda name: name in bounds.providers.preferred)
        parts["preferred_provider"] = np.where(met, -share, 0.0)
    if bounds.regions.preferred:
        met = table.judged("region", lambda name: name in bounds.regions.preferred)
        parts["preferred_region"] = np.where(met, -share, 0.0)
    if bounds.startup_latency_s is not None:
        parts["preferred_startup"] = np.where(table.startup_s <= float(bounds.startup_latency_s), -share, 0.0)
    if asked.demand.gpu_count == 0:
        parts["unneeded_gpu"] = np.where(table.gpu_count > 0, share * 2, 0.0)
    return parts


def interval_of(asked: Asked) -> Callable[[Offer, float], Interval]:
    """Tells what the workload costs on an offer with this expected cost, in US dollars: at best, in the mean of all
    attempts, at worst once."""
    runtime = asked.demand.runtime_s
    low_s, high_s = runtime.low if runtime is not None else Decimal(0), longest_s(asked.demand)
    reason = runtime.reason if runtime is not None else "no bound on the run time is known; one hour is assumed"

    def interval(offer: Offer, expected_usd: float) -> Interval:
        bounds = _cost_bounds(
            offer.price_usd_per_hour, offer.minimum_charge_usd, offer.billing_quantum_s, offer.startup_s, low_s, high_s
        )
        expected = Decimal(repr(expected_usd))
        likely = bounds.low_usd if expected <= bounds.low else _money(expected)
        high = bounds.high_usd if expected <= bounds.high else likely
        return Interval(low=bounds.low_usd, likely=likely, high=high, reason=reason)

    return interval


class _Bounds(NamedTuple):
    """At best, and at worst once, exactly and as they are told."""

    low: Decimal
    high: Decimal
    low_usd: Decimal
    high_usd: Decimal


@lru_cache(maxsize=4096)
def _cost_bounds(
    hourly: Decimal, least: Decimal, quantum_s: int, startup_s: Decimal, low_s: Decimal, high_s: float
) -> _Bounds:
    """As ``costs.worst_usd`` has it; most decisions are about the same few offers."""
    low = charge(hourly, low_s + startup_s, quantum_s=quantum_s, least=least)
    high = max(hourly * ((Decimal(high_s) + startup_s + quantum_s) / 3600), least)
    return _Bounds(low=low, high=high, low_usd=_money(low), high_usd=_money(max(high, low)))


def _money(amount: Decimal) -> Decimal:
    return Decimal(0) if amount == 0 else amount.quantize(MONEY_PLACES)


def first_group(asked: Asked, table: OfferTable) -> Numbers | None:
    """0 for offers that come before all others whatever their score: reserved capacity, when the spec says so."""
    if not asked.spec.constraints.reserved_first:
        return None
    reserved = table.judged("capacity_type", lambda word: word == CapacityType.RESERVED)
    return np.where(reserved, 0.0, 1.0)
