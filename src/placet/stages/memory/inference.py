"""Memory of a model that answers: weights, cache of keys and values, the working set of the prompt; embeddings too."""

from placet.domain.models import Architecture, ModelKind
from placet.stages.memory import common
from placet.stages.memory.setting import Setting
from placet.stages.memory.shapes import BITS, attention_width, compute_bytes, kv_width, mlp_width
from placet.stages.memory.values import GIB, Part, Span, span

KV_CACHE = "KV cache"
# Serving engines compute a prompt in pieces of at most so many tokens.
PREFILL_TOKENS = 8192
_SPEECH_FRAMES = 1500


def parts(setting: Setting) -> tuple[Part, ...]:
    """Everything on one GPU while it serves; several GPUs split each layer between them."""
    moving = (_working_set(setting), _logits(setting))
    held = (common.weights(setting, setting.gpu_count), _cache(setting), _graphs(setting))
    return (*held, *moving, common.fragmentation(moving), *common.beside(setting))


def embedding_parts(setting: Setting) -> tuple[Part, ...]:
    """No cache and no logits: weights and the activations of one batch."""
    facts = setting.facts
    tokens = setting.batch * setting.tokens
    number = compute_bytes(setting.precision)
    per_token = 6 * facts.hidden + 3 * attention_width(facts) + 2 * mlp_width(facts)
    scores = setting.batch * max(facts.heads, 1) * setting.tokens**2 * number * 2
    size = span(
        tokens * per_token * number * 0.7, tokens * per_token * number, tokens * per_token * number * 2 + scores
    )
    why = f"{setting.batch} x {setting.tokens} tokens; more where attention scores are written out"
    work = Part(name=common.WORKING, size=common.guess(facts, size, 0.6, 1.5), why=why)
    weights = common.weights(setting, 1)
    return (weights, work, common.fragmentation((work,)), *common.beside(setting))


def kv_bytes_per_token(setting: Setting) -> int:
    """Of one sequence in all layers of a GPU, where every layer sees the whole context."""
    facts = setting.facts
    number = BITS[setting.kv_precision][1] / 8
    if facts.kv_latent:
        return int(facts.layers * facts.kv_latent * number)  # the latent is held by every GPU
    heads = max(facts.kv_heads, 1)
    here = -(-heads // setting.gpu_count)  # fewer heads than GPUs: each GPU still holds one
    return int(2 * facts.layers * kv_width(facts) * here / heads * number)


def _cache(setting: Setting) -> Part:
    facts = setting.facts
    if facts.kind is ModelKind.ENCODER:
        return Part(name=KV_CACHE, size=span(0), why="an encoder keeps none")
    each = kv_bytes_per_token(setting)
    seen = setting.tokens + (_SPEECH_FRAMES if facts.kind is ModelKind.ENCODER_DECODER else 0)
    full = each * seen * setting.sequences
    windowed = full
    if facts.window:
        local = min(seen, facts.window) / seen
        windowed = int(full * (1 - facts.windowed_percent / 100 * (1 - local)))
    why = f"{setting.sequences} x {seen} tokens at {each / 1024:.4g} KiB each"
    size = common.guess(facts, span(windowed, full, full), 0.5, _unknown_heads(facts))
    return Part(name=KV_CACHE, size=size, why=why + (", the grouping of heads is guessed" if facts.guessed else ""))


def _unknown_heads(facts: Architecture) -> float:
    """How much larger the cache is if the guessed model has a key head for each query head."""
    return facts.heads / max(facts.kv_heads, 1)


def _working_set(setting: Setting) -> Part:
    facts = setting.facts
    tokens = min(setting.tokens * setting.sequences, PREFILL_TOKENS)
    number = compute_bytes(setting.precision)
    wide = 2 * mlp_width(facts) + 2 * attention_width(facts)
    per_token = 3 * facts.hidden + wide / setting.gpu_count
    size = tokens * per_token * number
    why = f"a prompt is read {tokens} tokens at a time"
    spread = common.guess(facts, span(size * 0.25, size, size * 2), 0.7, 1.5)
    return Part(name=common.WORKING, size=spread, why=why)


def _logits(setting: Setting) -> Part:
    vocabulary = setting.facts.vocabulary
    likely = setting.sequences * vocabulary * 8
    whole = min(setting.tokens * setting.sequences, PREFILL_TOKENS) * vocabulary * 4
    why = "for the last token of each sequence; some stacks make them for the whole prompt"
    return Part(name=common.LOGITS, size=_at_least_likely(likely, whole), why=why)


def _at_least_likely(likely: int, high: int) -> Span:
    return span(likely, likely, max(likely, high))


def _graphs(setting: Setting) -> Part:
    small = min(setting.facts.parameters * 0.3, 1.5 * GIB)
    return Part(name="CUDA graphs", size=span(0, 0, small), why="only where the serving engine records them")
