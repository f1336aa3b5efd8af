"""What has been seen of spot availability, as few numbers: how long the present state has lasted, and how this place
differs from what is usual.

The usual is a hazard that falls with age: the longer spot has been there (or gone), the less likely it is to go (or
come back) in the next hour. A place is then one factor on each of the two hazards, learned as a Poisson rate with a
gamma prior: events seen, over events that the usual hazard would have given in the same time.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

HOUR_S = 3600.0

# Upper ends of the classes of age in hours; the last class has none.
AGE_ENDS_H = (0.34, 0.67, 1.01, 2.0, 4.0, 8.0, 16.0)
AGES = len(AGE_ENDS_H) + 1
# Events per hour in each class. Measured, see the page on spot; the last class is shrunk towards the one before.
USUAL_LOSS = (1.375, 0.813, 0.459, 0.387, 0.203, 0.154, 0.120, 0.040)
USUAL_RETURN = (1.391, 0.675, 0.441, 0.359, 0.308, 0.283, 0.214, 0.100)
# With every further place spot is back somewhere sooner, and a loss finds all others without spot less often.
RETURN_PER_PLACE = 0.2
BARE_PER_PLACE = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """How what is seen becomes an expectation; the defaults were chosen on recorded traces, see the page on spot.

    A state that was there when watching began has lasted for ``first_age_h`` already. ``prior_events`` events at the
    usual rate are believed before the first one is seen; what was seen ``memory_h`` ago counts 1/e of what is seen now.
    Changes come in bursts, and slack that runs out early is dear, so plans expect ``caution`` times as many.
    """

    first_age_h: float = 2.0
    prior_events: float = 5.0
    memory_h: float = 24.0
    caution: float = 1.4


LEARNING = Learning()


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One place, or "anywhere": the present state, its age, and events seen and expected so far."""

    up: bool
    age_h: float
    losses: float = 0.0
    losses_usual: float = 0.0
    returns: float = 0.0
    returns_usual: float = 0.0

    def after(self, elapsed_h: float, *, up: bool, memory_h: float) -> "Record":
        """The record when, so much later, this is seen."""
        age_class, keeps = age_class_of(self.age_h), math.exp(-elapsed_h / memory_h)
        return Record(
            up=up,
            age_h=self.age_h + elapsed_h if up == self.up else 0.0,
            losses=(self.losses + (self.up and not up)) * keeps,
            losses_usual=(self.losses_usual + (USUAL_LOSS[age_class] * elapsed_h if self.up else 0.0)) * keeps,
            returns=(self.returns + (up and not self.up)) * keeps,
            returns_usual=(self.returns_usual + (0.0 if self.up else USUAL_RETURN[age_class] * elapsed_h)) * keeps,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """All places of a workload together. ``covered`` of ``lost`` losses found spot in another place at that moment."""

    places: tuple[Record, ...]
    anywhere: Record
    lost: float = 0.0
    covered: float = 0.0
    learning: Learning = LEARNING

    def loss_factor(self, place: int) -> float:
        """How much faster than usual spot is lost there."""
        record, prior = self.places[place], self.learning.prior_events
        return (prior + record.losses) / (prior + record.losses_usual)

    @property
    def return_factor(self) -> float:
        """How much faster than is usual in one place spot comes back anywhere; before anything is seen, the more
        places there are the faster."""
        prior = self.learning.prior_events
        expected = 1.0 + RETURN_PER_PLACE * (len(self.places) - 1)
        return (prior * expected + self.anywhere.returns) / (prior + self.anywhere.returns_usual)

    @property
    def cover(self) -> float:
        """The chance that another place has spot when one loses it."""
        prior = self.learning.prior_events
        expected = 1.0 - BARE_PER_PLACE ** (len(self.places) - 1)
        return (prior * expected + self.covered) / (prior + self.lost)


def begin(up: Sequence[bool], learning: Learning = LEARNING) -> History:
    """The history at the first look."""
    return History(
        places=tuple(Record(up=there, age_h=learning.first_age_h) for there in up),
        anywhere=Record(up=any(up), age_h=learning.first_age_h),
        learning=learning,
    )


def watch(history: History, up: Sequence[bool], elapsed_s: float) -> History:
    """The history when, so much after the look before, this is seen."""
    elapsed_h, learning = elapsed_s / HOUR_S, history.learning
    keeps = math.exp(-elapsed_h / learning.memory_h)
    lost = sum(record.up and not there for record, there in zip(history.places, up, strict=True))
    return History(
        places=tuple(
            record.after(elapsed_h, up=there, memory_h=learning.memory_h)
            for record, there in zip(history.places, up, strict=True)
        ),
        anywhere=history.anywhere.after(elapsed_h, up=any(up), memory_h=learning.memory_h),
        lost=(history.lost + lost) * keeps,
        covered=(history.covered + (lost if any(up) else 0)) * keeps,
        learning=learning,
    )


def age_class_of(age_h: float) -> int:
    """The class of an age, from 0 for the youngest."""
    return bisect_right(AGE_ENDS_H, age_h + 1e-9)
