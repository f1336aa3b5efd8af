"""Memory of one training step on each GPU: full fine-tune, LoRA and QLoRA, alone or sharded over several GPUs.

The peak is in one of two moments. *Loss*: all activations are held, and the logits besides. *Block*: in the backward
pass of one block, whose activations are there in full. Only the larger of the two counts.
"""

from placet.domain.models import ModelUse, Optimizer
from placet.stages.memory import common
from placet.stages.memory.setting import Setting
from placet.stages.memory.shapes import (
    NARROW,
    attention_width,
    block_parameters,
    compute_bytes,
    embedding_parameters,
    head_parameters,
    kv_width,
    largest_matrix,
    linear_parameters,
    mlp_parameters,
    mlp_width,
)
from placet.stages.memory.values import Part, Span, span, total

# Bytes of optimizer state per trained parameter, as a multiple of the bytes of the parameter, or fixed.
_FP32_STATE_BYTES = 8
_8BIT_STATE_BYTES = 2.05
_PAGED = frozenset({Optimizer.PAGED_ADAMW, Optimizer.PAGED_ADAMW_8BIT})
# Without checkpoints: against the formula below, compiled code keeps less and eager code more.
_KEPT_LOW, _KEPT_HIGH = 0.85, 1.4
_MATRICES_PER_BLOCK = 7


def parts(setting: Setting) -> tuple[Part, ...]:
    """Everything on one GPU at the peak of a step."""
    held = (_weights(setting), *_trained(setting))
    moving = (*_gathered(setting), _activations(setting), *_peak(setting))
    return (*held, *moving, common.fragmentation(moving), *common.beside(setting))


def _full(setting: Setting) -> bool:
    return setting.use is ModelUse.FULL_FINE_TUNE


def _number_bytes(setting: Setting) -> int:
    return compute_bytes(setting.precision)


def _weights(setting: Setting) -> Part:
    facts, shards = setting.facts, setting.gpu_count
    if setting.cpu_offload:
        return Part(name=common.WEIGHTS, size=span(0), why="in main memory; a block at a time comes to the GPU")
    if _full(setting) and setting.optimizer is Optimizer.ADAMW_FP32:
        size = span(facts.parameters * 4 / shards, facts.parameters * 4 / shards, facts.parameters * 6 / shards)
        return Part(name=common.WEIGHTS, size=size, why="master weights in 32 bits; at most a 16-bit copy besides")
    part = common.weights(setting, shards)
    size, more = part.size, 0
    if _full(setting) and not setting.optimizer_stated:
        more = facts.parameters * 4 // shards - size.high
    if setting.use is ModelUse.QLORA and setting.precision in NARROW:  # some tools keep the rest in 32 bits
        more = embedding_parameters(facts) * 2 // shards
    return Part(name=part.name, size=span(size.low, size.likely, size.high + max(more, 0)), why=part.why)


def _trained(setting: Setting) -> tuple[Part, ...]:
    """Gradients and optimizer state of what is trained, and the adapters themselves."""
    if setting.cpu_offload:
        return ()
    if not _full(setting):
        return (_adapters(setting),)
    return (_gradients(setting), _state(setting))


def _gradients(setting: Setting) -> Part:
    facts, shards = setting.facts, setting.gpu_count
    if setting.in_backward:
        why = "each gradient is used and freed in the backward pass; see the peak"
        return Part(name="gradients", size=span(0), why=why)
    each = 4 if setting.optimizer is Optimizer.ADAMW_FP32 else _number_bytes(setting)
    size = facts.parameters * each / shards
    # Gradients grow while activations shrink: with one step per update the two are never there in full together.
    overlap = min(size, _activation_bytes(setting).low)
    high = facts.parameters * 4 / shards if not setting.optimizer_stated else size
    return Part(name="gradients", size=span(size - overlap, size, high), why=f"{each} bytes per parameter")


def _state_bytes(setting: Setting) -> float:
    match setting.optimizer:
        case Optimizer.ADAMW | Optimizer.PAGED_ADAMW:
            return 2.0 * _number_bytes(setting)
        case Optimizer.ADAMW_FP32:
            return _FP32_STATE_BYTES
        case Optimizer.ADAMW_8BIT | Optimizer.PAGED_ADAMW_8BIT:
            return _8BIT_STATE_BYTES
        case Optimizer.ADAFACTOR:
            return 8.0 / max(setting.facts.hidden, 1)
        case Optimizer.SGD:
            return 0.0


def _state(setting: Setting) -> Part:
    facts, shards = setting.facts, setting.gpu_count
    each = _state_bytes(setting)
    size = facts.parameters * each / shards
    if setting.optimizer in _PAGED:
        resident = head_parameters(facts) * each / shards
        why = f"{each:.3g} bytes per parameter, paged to main memory; those of the largest tensor are here"
        return Part(name="optimizer state", size=span(0, resident, 2 * resident), why=why)
    high = facts.parameters * _FP32_STATE_BYTES / shards if not setting.optimizer_stated else size
    if setting.optimizer is Optimizer.SGD:
        high = facts.parameters * _number_bytes(setting) / shards  # with momentum
    return Part(
        name="optimizer state", size=span(size, size, high), why=f"{setting.optimizer}: {each:.3g} bytes per parameter"
    )


def _adapters(setting: Setting) -> Part:
    """Low-rank matrices on all linear layers, with their gradients and AdamW state."""
    facts, rank = setting.facts, setting.rank
    attention = 3 * facts.hidden + attention_width(facts) * 2 + kv_width(facts) * 2 + facts.hidden
    width = facts.expert_width * facts.experts if facts.experts else facts.intermediate
    copies = facts.experts or 1
    mlp = 3 * (facts.hidden * copies + width)
    everywhere = facts.layers * rank * (attention + mlp)
    few = facts.layers * rank * (2 * facts.hidden + attention_width(facts) + kv_width(facts))
    likely = facts.layers * rank * attention if facts.experts else everywhere
    bytes_each = 2 * _number_bytes(setting) + _state_bytes(setting)
    size = span(few * bytes_each, likely * bytes_each, everywhere * 16).times(1 / setting.gpu_count)
    why = f"rank {rank}: {likely / 10**6:.0f} M parameters at {bytes_each:.3g} bytes with gradients and state"
    return Part(name="adapters", size=size, why=why)


def _activation_bytes(setting: Setting) -> Span:
    """Held from the forward pass until they are used: block inputs only, or all that the backward pass reads."""
    facts = setting.facts
    inputs = facts.layers * _block_input_bytes(setting)
    full = facts.layers * _block_bytes(setting)
    if not setting.checkpointing:
        return common.guess(facts, span(full * _KEPT_LOW, full, full * _KEPT_HIGH), 0.7, 1.4)
    high = inputs if setting.checkpointing_stated else full * _KEPT_HIGH
    return common.guess(facts, span(inputs, inputs, max(high, inputs)), 0.7, 1.4)


def _block_input_bytes(setting: Setting) -> int:
    return setting.batch * setting.tokens * setting.facts.hidden * _number_bytes(setting)


def _block_bytes(setting: Setting) -> int:
    """What one block keeps with fused attention: both norms with inputs and outputs, four tensors of attention, and
    the two or three wide ones of the MLP (frozen weights need one less)."""
    facts = setting.facts
    wide = 3 if _full(setting) else 2
    per_token = 4 * facts.hidden + 4 * attention_width(facts) + wide * mlp_width(facts)
    return setting.batch * setting.tokens * per_token * _number_bytes(setting)


def _activations(setting: Setting) -> Part:
    tokens = f"{setting.batch} x {setting.tokens} tokens"
    kept = "the input of every block" if setting.checkpointing else "everything the backward pass reads"
    why = f"{tokens}, {setting.facts.layers} blocks: {kept}"
    return Part(name=common.ACTIVATIONS, size=_activation_bytes(setting), why=why)


def _gathered(setting: Setting) -> tuple[Part, ...]:
    """Sharded training puts embeddings and head together on each GPU, and one block at a time."""
    if setting.gpu_count == 1 and not setting.cpu_offload:
        return ()
    facts = setting.facts
    root = embedding_parameters(facts) * _number_bytes(setting)
    part = Part(name="gathered weights", size=span(root / 2, root, root), why="embeddings and head in full")
    return (part,)


def _unit_bytes(setting: Setting) -> Span:
    """One gathered block, as it is stored; a second one when it is fetched ahead."""
    if setting.gpu_count == 1 and not setting.cpu_offload:
        return span(0)
    block = common.weight_bytes(setting.facts, setting.precision)
    share = block_parameters(setting.facts) / setting.facts.parameters
    one = block.times(share)
    if setting.precision in NARROW:
        kept = embedding_parameters(setting.facts) * 2
        one = span(*((each - kept) / max(setting.facts.layers, 1) for each in (block.low, block.likely, block.high)))
    return span(one.low, one.likely, 2 * one.high)


def _peak(setting: Setting) -> tuple[Part, ...]:
    """The moment that likely takes more; its upper bound also covers the other one."""
    moments = [(_sum(parts), parts) for parts in (_loss_parts(setting), _block_parts(setting))]
    (size, chosen), (other, _) = sorted(moments, key=lambda moment: moment[0].likely, reverse=True)
    more = max(other.high - size.high, 0)
    last = chosen[-1]
    grown = span(last.size.low, last.size.likely, last.size.high + more)
    return (*chosen[:-1], Part(name=last.name, size=grown, why=last.why))


def _sum(parts: tuple[Part, ...]) -> Span:
    return total(part.size for part in parts)


def _loss_parts(setting: Setting) -> tuple[Part, ...]:
    facts = setting.facts
    numbers = setting.batch * setting.tokens * facts.vocabulary
    size = span(numbers * 0.1, numbers * 2, numbers * 10)
    why = f"{facts.vocabulary} logits per token in 16 bits; more without a chunked loss, less with a fused one"
    logits = Part(name=common.LOGITS, size=size, why=why)
    if not _full(setting) or not _streams(setting):
        return (logits,)
    head = head_parameters(facts) * _number_bytes(setting)
    grown = Part(
        name="gradient of the head", size=span(head, 2 * head, 2 * head), why="the sum and what is added to it"
    )
    return (logits, grown)


def _block_parts(setting: Setting) -> tuple[Part, ...]:
    unit = _unit_bytes(setting)
    again = _block_bytes(setting) if setting.checkpointing else 0
    gradients = block_parameters(setting.facts) * _number_bytes(setting) if _full(setting) and _streams(setting) else 0
    # A block's activations are freed as its gradients appear.
    work = max(again, gradients)
    unpacked_low = unpacked_high = 0.0
    if setting.precision in NARROW:
        unpacked_low = _linear_share(setting) * 2 / _MATRICES_PER_BLOCK
        unpacked_high = float(largest_matrix(setting.facts) * 2)
    size = span(
        work * _KEPT_LOW + unit.low,
        work + unit.likely + unpacked_low,
        work * _KEPT_HIGH + unit.high + unpacked_high,
    )
    words = ["one block computed again"] if again else ["one block"]
    words += ["its gathered weights"] if unit.likely else []
    words += ["a matrix of it unpacked to 16 bits"] if unpacked_low else []
    return (Part(name=common.WORKING, size=size, why=", ".join(words)),)


def _linear_share(setting: Setting) -> float:
    """Parameters of one block that one token meets; experts are unpacked one at a time."""
    facts = setting.facts
    if not facts.experts:
        return block_parameters(facts)
    return (linear_parameters(facts) - mlp_parameters(facts) * (1 - 1 / facts.experts)) / max(facts.layers, 1)


def _streams(setting: Setting) -> bool:
    """Are gradients kept only while they are made (sharded away, used at once, or sent to main memory)?"""
    return setting.gpu_count > 1 or setting.in_backward or setting.cpu_offload
