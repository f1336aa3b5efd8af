"""Counts that follow from a model's shape: parameters by kind, bytes by precision, a shape for a bare size."""

import math
from dataclasses import replace
from itertools import pairwise

from placet.domain.models import Architecture, ModelKind, Precision

# Bits per stored parameter as (low, likely, high). Four-bit formats keep a scale per group besides; NF4 keeps 0.127
# bits when the scales are themselves quantised and 0.5 when they are not.
BITS: dict[Precision, tuple[float, float, float]] = {
    Precision.FP32: (32, 32, 32),
    Precision.TF32: (32, 32, 32),
    Precision.FP16: (16, 16, 16),
    Precision.BF16: (16, 16, 16),
    Precision.FP8: (8, 8, 8.1),
    Precision.INT8: (8, 8.1, 8.5),
    Precision.INT4: (4.125, 4.25, 4.75),
    Precision.NF4: (4.127, 4.127, 4.5),
}
WIDE = frozenset({Precision.FP32, Precision.TF32})
NARROW = frozenset({Precision.FP8, Precision.INT8, Precision.INT4, Precision.NF4})

# Size, layers, hidden width of well-known dense decoders: a bare parameter count is placed between two of them.
_LADDER = (
    (0.03e9, 6, 384),
    (0.124e9, 12, 768),
    (0.5e9, 24, 960),
    (1.5e9, 28, 1664),
    (3.2e9, 30, 2816),
    (8.0e9, 33, 4096),
    (14.5e9, 42, 5120),
    (32.5e9, 64, 5632),
    (70.5e9, 80, 8192),
    (123e9, 88, 12288),
    (405e9, 126, 16384),
    (1000e9, 150, 20480),
)
_USUAL_VOCABULARY = 128_000
_SMALL_VOCABULARY = 32_000
_KV_HEADS = 8


def compute_bytes(precision: Precision) -> int:
    """Bytes of one number while computing: quantised weights are computed with in 16 bits."""
    return 4 if precision in WIDE else 2


def attention_width(facts: Architecture) -> int:
    return facts.heads * facts.head_size


def kv_width(facts: Architecture) -> int:
    return facts.kv_heads * facts.head_size


def mlp_width(facts: Architecture) -> int:
    """The width of what one token passes through, all its experts together."""
    if facts.experts:
        return facts.expert_width * max(facts.experts_active, 1)
    return facts.intermediate


def embedding_parameters(facts: Architecture) -> int:
    """Input embedding and output head, one matrix when they are tied; never more than half of the model."""
    tables = 1 if facts.tied or facts.kind is not ModelKind.DECODER else 2
    return min(tables * head_parameters(facts), facts.parameters // 2)


def head_parameters(facts: Architecture) -> int:
    return facts.vocabulary * facts.hidden


def linear_parameters(facts: Architecture) -> int:
    """What a quantiser takes: all but the embeddings, the head and the norms (which weigh nothing)."""
    return max(facts.parameters - embedding_parameters(facts), 0)


def block_parameters(facts: Architecture) -> int:
    return linear_parameters(facts) // max(facts.layers, 1)


def largest_matrix(facts: Architecture) -> int:
    """Of one block, in parameters."""
    return max(mlp_width(facts), attention_width(facts), facts.hidden) * facts.hidden


def mlp_parameters(facts: Architecture) -> int:
    matrices = 3 if facts.gated else 2
    width = facts.expert_width * facts.experts if facts.experts else facts.intermediate
    return facts.layers * matrices * facts.hidden * width


def counted_parameters(facts: Architecture) -> int:
    """The parameters of a decoder by its shape, to check a stated number or to do without one."""
    attention = facts.hidden * (2 * attention_width(facts) + 2 * kv_width(facts))
    tables = head_parameters(facts) * (1 if facts.tied else 2)
    return facts.layers * attention + mlp_parameters(facts) + tables


def guessed_architecture(parameters: int, name: str, source: str) -> Architecture:
    """A dense decoder of that size with grouped queries, as most are; it marks itself as guessed."""
    layers, hidden = _between(parameters)
    vocabulary = _USUAL_VOCABULARY if parameters > 10**9 else _SMALL_VOCABULARY
    heads = max(hidden // 128, 1)
    shape = Architecture(
        name=name,
        parameters=parameters,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=min(_KV_HEADS, heads),
        head_size=128,
        vocabulary=vocabulary,
        source=source,
        guessed=True,
    )
    rest = parameters - counted_parameters(shape)
    return replace(shape, intermediate=max(rest // (3 * layers * hidden), hidden))


def _between(parameters: int) -> tuple[int, int]:
    """Layers and hidden width on the logarithmic line between the two nearest known sizes."""
    least, most = _LADDER[0][0], _LADDER[-1][0]
    size = min(max(float(parameters), least), most)
    for (small, few, narrow), (large, many, broad) in pairwise(_LADDER):
        if size <= large:
            part = (math.log(size) - math.log(small)) / (math.log(large) - math.log(small))
            layers = round(math.exp(math.log(few) + part * (math.log(many) - math.log(few))))
            hidden = math.exp(math.log(narrow) + part * (math.log(broad) - math.log(narrow)))
            return layers, max(round(hidden / 128), 1) * 128
    return int(_LADDER[-1][1]), int(_LADDER[-1][2])
