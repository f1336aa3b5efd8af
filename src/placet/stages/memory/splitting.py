"""How many GPUs of a given memory would hold a model. It counts GPUs; it chooses none and knows no price."""

from dataclasses import dataclass
from enum import StrEnum

from placet.domain.models import ModelKind, ModelUse
from placet.domain.units import GB
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.setting import TRAINING
from placet.stages.memory.values import MemoryEstimate, Span

COUNTS = (1, 2, 4, 8, 16, 32)
USUAL_MEMORIES_BYTES = tuple(size * GB for size in (16, 24, 40, 48, 80, 141, 192))


class Fit(StrEnum):
    """How an interval lies to a memory: all below, the likely figure below, only the lower bound below, all above."""

    SURE = "sure"
    LIKELY = "likely"
    DOUBTFUL = "doubtful"
    NO = "no"


@dataclass(frozen=True, kw_only=True)
class Split:
    """The model over so many GPUs, the estimate for each of them, and how it fits."""

    gpu_count: int
    estimate: MemoryEstimate
    fit: Fit


def fit_of(size: Span, gpu_memory_bytes: int) -> Fit:
    if size.high <= gpu_memory_bytes:
        return Fit.SURE
    if size.likely <= gpu_memory_bytes:
        return Fit.LIKELY
    return Fit.DOUBTFUL if size.low <= gpu_memory_bytes else Fit.NO


def split(estimate: MemoryEstimate, gpu_memory_bytes: int) -> tuple[Split, ...]:
    """Every count that the model can be split over, with its fit; inference by tensors, training by shards."""
    return tuple(_split(estimate, gpu_memory_bytes, count) for count in COUNTS if _divides(estimate, count))


def smallest_split(estimate: MemoryEstimate, gpu_memory_bytes: int) -> Split | None:
    """The fewest GPUs whose memory holds the recommended figure; ``None`` when no count does."""
    good = (Fit.SURE, Fit.LIKELY)
    return next((found for found in split(estimate, gpu_memory_bytes) if found.fit in good), None)


def _split(estimate: MemoryEstimate, gpu_memory_bytes: int, count: int) -> Split:
    each = estimate_memory(estimate.hint, estimate.architecture, gpu_count=count)
    assert isinstance(each, MemoryEstimate)  # its architecture is given
    return Split(gpu_count=count, estimate=each, fit=fit_of(each.size, gpu_memory_bytes))


def _divides(estimate: MemoryEstimate, count: int) -> bool:
    """Heads are split evenly or not at all; what keeps a whole copy on each GPU gains nothing from more."""
    facts = estimate.architecture
    if count == 1 or (estimate.use in TRAINING and facts.kind is not ModelKind.DIFFUSION):
        return True
    return estimate.use is ModelUse.INFERENCE and facts.heads % count == 0
