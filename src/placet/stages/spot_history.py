"""What has been seen of spot availability, as few numbers: how long the present state has lasted, and how this place
differs from what is usual.

The usual is a hazard that falls with age: the longer spot has been there (or gone), the less likely it is to go (or
come back) in the next hour. A place is then one factor on each of the two hazards, learned as a Poisson rate with a
gamma prior: events seen, over events that the usual hazard would have given in the same time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

HOUR_S = 3600.0

# Upper ends of the classes of age in hours; the last class has none.
AGE_ENDS_H = (0.34, 0.67, 1.01, 2.0, 4.0, 8.0, 16.0)
AGES = len(AGE_ENDS_H) + 1
# Events per hour in each class. Measured, see the page on spot; the last class is shrunk towards the one before.
USUAL_LOSS = (1.375, 0.813, 0.459, 0.387, 0.203, 0.154, 0.120, 0.040)
USUAL_RETURN = (1.391, 0.675, 0.441, 0.359, 0.308, 0.283, 0.214, 0.100)
# A state that was there when watching began has lasted for some time already.
FIRST_AGE_H = 2.0
# So many events at the usual rate are believed before the first one is seen.
PRIOR_EVENTS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One place, or "anywhere": the present state, its age, and events seen and expected so far."""

    up: bool
    age_h: float = FIRST_AGE_H
    losses: int = 0
    losses_usual: float = 0.0
    returns: int = 0
    returns_usual: float = 0.0

    @property
    def loss_factor(self) -> float:
        """How much faster than usual spot is lost here."""
        return (PRIOR_EVENTS + self.losses) / (PRIOR_EVENTS + self.losses_usual)

    def return_factor(self, prior: float = 1.0) -> float:
        """How much faster than usual spot comes back here, where ``prior`` was expected."""
        return (PRIOR_EVENTS * prior + self.returns) / (PRIOR_EVENTS + self.returns_usual)

    def after(self, elapsed_h: float, *, up: bool) -> "Record":
        """The record when, so much later, this is seen."""
        age_class = age_class_of(self.age_h)
        age_h = self.age_h + elapsed_h if up == self.up else 0.0
        if self.up:
            usual = self.losses_usual + USUAL_LOSS[age_class] * elapsed_h
            return replace(self, up=up, age_h=age_h, losses=self.losses + (not up), losses_usual=usual)
        usual = self.returns_usual + USUAL_RETURN[age_class] * elapsed_h
        return replace(self, up=up, age_h=age_h, returns=self.returns + up, returns_usual=usual)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """All places of a workload together. ``covered`` of ``lost`` losses found spot in another place at that moment."""

    places: tuple[Record, ...]
    anywhere: Record
    lost: int = 0
    covered: int = 0

    @property
    def return_factor(self) -> float:
        """Spot comes back somewhere sooner than in one place; the expectation before anything is seen grows slowly."""
        return self.anywhere.return_factor(1.0 + 0.2 * (len(self.places) - 1))

    @property
    def cover(self) -> float:
        """The chance that another place has spot when one loses it."""
        prior = 1.0 - 0.8 ** (len(self.places) - 1)
        return (PRIOR_EVENTS * prior + self.covered) / (PRIOR_EVENTS + self.lost)


def begin(up: Sequence[bool]) -> History:
    """The history at the first look."""
    return History(places=tuple(Record(up=there) for there in up), anywhere=Record(up=any(up)))


def watch(history: History, up: Sequence[bool], elapsed_s: float) -> History:
    """The history when, so much after the look before, this is seen."""
    elapsed_h = elapsed_s / HOUR_S
    lost = sum(record.up and not there for record, there in zip(history.places, up, strict=True))
    return History(
        places=tuple(record.after(elapsed_h, up=there) for record, there in zip(history.places, up, strict=True)),
        anywhere=history.anywhere.after(elapsed_h, up=any(up)),
        lost=history.lost + lost,
        covered=history.covered + (lost if any(up) else 0),
    )


def age_class_of(age_h: float) -> int:
    """The class of an age, from 0 for the youngest."""
    return bisect_right(AGE_ENDS_H, age_h + 1e-9)
