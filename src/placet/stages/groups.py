"""Groups of offers that were tried, as arrays: where each stands, how much it counts now, what it makes of a belief."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.domain.experience import Level, Tally
from placet.domain.offer_table import Bits, Codes, Numbers

DAY_MS = 86_400_000
# After this long an attempt counts half.
HALF_LIFE_MS = 7 * DAY_MS
# How many attempts, and how many hours, the belief about the coarser group is worth.
PRIOR_ATTEMPTS = 4.0
PRIOR_HOURS = 24.0

Keys: TypeAlias = NDArray[np.int64] | Codes

PRIOR_WEIGHTS = (PRIOR_ATTEMPTS, PRIOR_HOURS, PRIOR_ATTEMPTS)
# Nothing was seen: the prior, once, divided by one, is the prior to the last digit.
UNSEEN = (1.0, 1.0, 1.0)
# Of so many possible groups of a level, where each stands is kept in a list of its own.
LISTED_MAX = 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """The groups of one level that were tried: their keys in order. They stand in ``part`` of the groups of all levels,
    and after them one that was not tried."""

    keys: Keys
    part: slice
    places: Codes | None

    @classmethod
    def of(cls, keys: Sequence[int], begins: int, possible: int) -> "Counted":
        ordered, places = np.array(keys, dtype=np.int64), None
        if possible <= LISTED_MAX:
            places = np.full(possible, len(keys), dtype=np.int32)
            places[ordered] = np.arange(len(keys))
        return cls(keys=ordered, part=slice(begins, begins + len(keys) + 1), places=places)

    def find(self, keys: Keys) -> NDArray[Any]:
        """Where each of some groups stands among these; their count for those that were not tried."""
        if self.places is not None:
            return self.places.take(keys)
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.intp)
        at = self.keys.searchsorted(keys)
        at[self.keys.take(at, mode="clip") != keys] = len(self.keys)
        return at


@dataclass(frozen=True, kw_only=True, eq=False)
class AllCounted:
    """The groups of all levels, level after level, and what was seen of each: starts, failed starts, hours, losses, and
    the logarithms of start-up times, one row each. ``priors`` is how often the prior counts, for each of three beliefs.
    """

    levels: Mapping[Level, Counted]
    at_ms: Keys
    counts: Numbers
    priors: Numbers

    @classmethod
    def of(cls, found: Mapping[Level, Sequence[tuple[int, Tally]]], possible: Mapping[Level, int]) -> "AllCounted":
        levels, rows, priors, at_ms = {}, list[tuple[float, ...]](), list[tuple[float, ...]](), list[int]()
        for level, pairs in found.items():
            levels[level] = Counted.of([key for key, _ in pairs], len(rows), possible[level])
            for _, one in pairs:
                rows.append((one.starts, one.failed_starts, one.hours, one.losses, one.log_startup))
            rows.append((0.0,) * 5)
            priors += [PRIOR_WEIGHTS] * len(pairs) + [UNSEEN]
            at_ms += [*(tally.at_ms for _, tally in pairs), 0]
        return cls(
            levels=levels,
            at_ms=np.array(at_ms, dtype=np.int64),
            counts=np.array(rows, dtype=np.float64).T.copy(),
            priors=np.array(priors, dtype=np.float64).T.copy(),
        )

    def faded(self, now_ms: int) -> "dict[Level, Groups]":
        """As they count now."""
        now = self.counts * np.exp2(np.minimum(self.at_ms - now_ms, 0) / HALF_LIFE_MS)
        starts, failed_starts, hours, losses, log_startup = now
        weight = starts + failed_starts
        terms = np.stack([*self.priors, starts, losses, log_startup, weight, hours, starts])
        terms[6:] += self.priors
        return {
            level: Groups(held=held, weight=weight[held.part], terms=terms[:, held.part])
            for level, held in self.levels.items()
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """The groups of one level as they count now: how often the prior counts, what is added to that, and what the sum is
    divided by, each for start share, loss rate and logarithm of the start-up time. The last group is one that was not
    tried, which leaves a prior as it is."""

    held: Counted
    weight: Numbers
    terms: Numbers

    def of(self, keys: Keys) -> tuple[Bits, NDArray[Any]]:
        """Which of some groups were tried, and where each stands here."""
        at = self.held.find(keys)
        return at != len(self.held.keys), at

    def updated(self, at: NDArray[Any], priors: Numbers) -> Numbers:
        """What is believed after what was seen of these groups; a fresh array."""
        terms = self.terms.take(at, axis=1)
        believed: Numbers = terms[:3] * priors
        believed += terms[3:6]
        believed /= terms[6:]
        return believed
