"""What a spec's model asks of each GPU: how many GPUs the estimate is for, and the sentences that explain it."""

from placet.domain.spec import Accelerator, Spec
from placet.domain.units import GB, format_bytes
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.splitting import COUNTS, smallest_split
from placet.stages.memory.values import MemoryEstimate, UnknownModel

# Where the number of GPUs is left open, the model is split until a part fits the most common large GPU.
USUAL_GPU_BYTES = 80 * GB
_WORTH_TELLING = 0.02


def model_memory(spec: Spec) -> MemoryEstimate | UnknownModel | None:
    """The estimate for the number of GPUs asked for, or for the fewest usual ones; ``None`` without model or GPU."""
    needs = spec.resources
    if spec.model is None or needs.accelerator is not Accelerator.GPU:
        return None
    estimate = estimate_memory(spec.model, gpu_count=max(needs.gpu_count, 1))
    if isinstance(estimate, UnknownModel) or needs.gpu_count or estimate.recommended_bytes <= USUAL_GPU_BYTES:
        return estimate
    found = smallest_split(estimate, USUAL_GPU_BYTES)
    if found is not None:
        return found.estimate
    largest = estimate_memory(spec.model, gpu_count=COUNTS[-1])
    return estimate if isinstance(largest, UnknownModel) else largest


def told(estimate: MemoryEstimate) -> tuple[str, ...]:
    """The estimate and its assumptions as sentences, the largest parts first."""
    size, whole = estimate.size, max(estimate.size.likely, 1)
    ranked = sorted(estimate.parts, key=lambda part: part.size.likely, reverse=True)
    parts = [
        f"{part.name} {format_bytes(part.size.likely)}" for part in ranked if part.size.likely >= _WORTH_TELLING * whole
    ]
    over = "" if estimate.gpu_count == 1 else f" on each of {estimate.gpu_count} GPUs"
    head = (
        f"GPU memory: {format_bytes(size.likely)}{over} for {estimate.use} of {estimate.architecture.name}, "
        f"between {format_bytes(size.low)} and {format_bytes(size.high)}: {', '.join(parts)}"
    )
    return (head, *(f"GPU memory: {assumed}" for assumed in estimate.assumptions))
