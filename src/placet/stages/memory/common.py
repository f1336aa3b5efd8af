"""Parts that every use of a model has: weights, what lies beside the model, what is lost between allocations."""

from placet.domain.models import Architecture, Precision
from placet.stages.memory.setting import Setting
from placet.stages.memory.shapes import (
    BITS,
    NARROW,
    embedding_parameters,
    linear_parameters,
    mlp_parameters,
)
from placet.stages.memory.values import GIB, Part, Span, span, total

WEIGHTS, ACTIVATIONS, WORKING, LOGITS = "weights", "activations", "working set", "logits and loss"

# The driver's context and loaded kernels. Serving stacks have reported from 0.05 to 1.8 GiB outside their allocator.
_CONTEXT = span(0.3 * GIB, 0.5 * GIB, 1.8 * GIB)
# Buffers of collective communication; one stack reported 1.8 GiB more with two GPUs than with one.
_COLLECTIVES = span(0.1 * GIB, 0.2 * GIB, 1.8 * GIB)


def weight_bytes(facts: Architecture, precision: Precision) -> Span:
    """All weights once. Quantisers leave embeddings, head and norms in 16 bits."""
    low, likely, high = BITS[precision]
    if precision not in NARROW:
        return span(facts.parameters * likely / 8)
    linear, kept = linear_parameters(facts), embedding_parameters(facts)
    if precision is Precision.FP8 and facts.fp8_only_mlp:
        linear = mlp_parameters(facts) * max(facts.layers - 2, 0) // max(facts.layers, 1)
        kept = facts.parameters - linear
    return span(linear * low / 8 + kept * 2, linear * likely / 8 + kept * 2, linear * high / 8 + kept * 2)


def weights(setting: Setting, shards: int) -> Part:
    facts = setting.facts
    size = weight_bytes(facts, setting.precision).times(1 / shards)
    kept = "; embeddings and head in 16 bits" if setting.precision in NARROW else ""
    share = f", 1/{shards} of them on each GPU" if shards > 1 else ""
    count = f"{facts.parameters / 10**9:.4g} B parameters"
    return Part(name=WEIGHTS, size=size, why=f"{count} in {setting.precision}{kept}{share}")


def beside(setting: Setting) -> tuple[Part, ...]:
    """What the driver takes; no framework counts it."""
    context = Part(name="CUDA context", size=_CONTEXT, why="driver context and loaded kernels", outside=True)
    if setting.gpu_count == 1:
        return (context,)
    buffers = Part(name="collective buffers", size=_COLLECTIVES, why="communication between the GPUs", outside=True)
    return (context, buffers)


def fragmentation(moving: tuple[Part, ...]) -> Part:
    """What cannot be used between allocations of changing size."""
    size = total(part.size for part in moving)
    lost = span(0, size.likely * 0.02, size.high * 0.1)
    return Part(name="fragmentation", size=lost, why="2% of what comes and goes; up to 10%")


def guess(facts: Architecture, size: Span, low: float, high: float) -> Span:
    """Wider where the shape is only guessed from the size."""
    if not facts.guessed:
        return size
    return span(size.low * low, size.likely, size.high * high)
