"""An estimate as a value: named parts with bounds and reasons, and what they add up to. No formula stands here."""

from collections.abc import Iterable
from dataclasses import dataclass

from placet.domain.models import Architecture, ModelHint, ModelUse

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Span:
    """Bytes between two bounds; ``likely`` leans to the safe side and lies between them."""

    low: int
    likely: int
    high: int

    def __add__(self, other: "Span") -> "Span":
        return Span(low=self.low + other.low, likely=self.likely + other.likely, high=self.high + other.high)

    def times(self, factor: float) -> "Span":
        return span(self.low * factor, self.likely * factor, self.high * factor)


def span(low: float, likely: float | None = None, high: float | None = None) -> Span:
    """Whole bytes; one number stands for all three, and disorder is put right."""
    middle = low if likely is None else likely
    return Span(low=int(min(low, middle)), likely=int(middle), high=int(max(middle, middle if high is None else high)))


def total(spans: Iterable[Span]) -> Span:
    return sum(spans, start=Span(low=0, likely=0, high=0))


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that takes memory on each GPU. ``outside`` is not seen by the framework's own measurement."""

    name: str
    size: Span
    why: str
    outside: bool = False


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Memory per GPU as an interval with its reasons; ``recommended_bytes`` is what a GPU should have, at least.

    ``allocated`` is what the framework's allocator would report as its peak: everything but the context of the driver.
    """

    use: ModelUse
    hint: ModelHint
    architecture: Architecture
    gpu_count: int
    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]

    @property
    def size(self) -> Span:
        return total(part.size for part in self.parts)

    @property
    def allocated(self) -> Span:
        return total(part.size for part in self.parts if not part.outside)

    @property
    def recommended_bytes(self) -> int:
        return self.size.likely

    def part(self, name: str) -> Span:
        """The sum of the parts of that name; zero when there is none."""
        return total(part.size for part in self.parts if part.name == name)


@dataclass(frozen=True, kw_only=True)
class UnknownModel:
    """Nothing says how large the model is, so nothing is estimated."""

    why: str
    fix: str
