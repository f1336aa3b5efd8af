"""The setting an estimate is made for: the hint with every gap filled, and a sentence for each gap. No bytes yet."""

from dataclasses import dataclass

from placet.domain.models import Architecture, ModelHint, ModelUse, Optimizer, Precision
from placet.stages.memory.families import written_precision
from placet.stages.memory.shapes import NARROW

TRAINING = frozenset({ModelUse.LORA, ModelUse.QLORA, ModelUse.FULL_FINE_TUNE})

TRAINING_BATCH = 2
TRAINING_TOKENS = 2048
SERVING_TOKENS = 8192
EMBEDDING_BATCH = 32
EMBEDDING_TOKENS = 512
LORA_RANK = 16
IMAGE_SIDE = 1024


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the formulas read. ``checkpointing_stated`` and ``optimizer_stated`` widen the interval when false."""

    use: ModelUse
    facts: Architecture
    precision: Precision
    kv_precision: Precision
    batch: int
    tokens: int
    sequences: int
    gpu_count: int
    optimizer: Optimizer
    optimizer_stated: bool
    in_backward: bool
    checkpointing: bool
    checkpointing_stated: bool
    rank: int
    cpu_offload: bool
    pixels: int
    assumptions: tuple[str, ...]


class _Gaps:
    """Collects what was assumed, in words."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def fill(self, stated: int | None, assumed: int, words: str) -> int:
        if stated is not None:
            return stated
        self.told.append(f"{words} is not stated: {assumed} assumed")
        return assumed


def fill(hint: ModelHint, facts: Architecture, gpu_count: int) -> Setting:
    """The setting of a hint; every assumption is told."""
    use = hint.task or ModelUse.INFERENCE
    gaps = _Gaps()
    if hint.task is None:
        gaps.told.append("the task is not stated: inference assumed")
    precision = _precision(hint, use, gaps)
    batch, tokens, sequences = _amounts(hint, use, facts, gaps)
    training = use in TRAINING
    if training and hint.gradient_checkpointing is None:
        gaps.told.append("gradient checkpointing is not stated: assumed on; the upper bound is without it")
    if use is ModelUse.FULL_FINE_TUNE and hint.optimizer is None:
        gaps.told.append("the optimizer is not stated: AdamW in 16 bits assumed; the upper bound is in 32 bits")
    tuned = use in (ModelUse.LORA, ModelUse.QLORA)
    side = facts.image_side or IMAGE_SIDE
    diffuses = use is ModelUse.DIFFUSION or bool(facts.image_side)
    width = gaps.fill(hint.image_width, side, "the image width") if diffuses else 0
    height = gaps.fill(hint.image_height, width, "the image height") if diffuses else 0
    return Setting(
        use=use,
        facts=facts,
        precision=precision,
        kv_precision=hint.kv_precision or Precision.BF16,
        batch=batch,
        tokens=tokens,
        sequences=sequences,
        gpu_count=gpu_count,
        optimizer=hint.optimizer or Optimizer.ADAMW,
        optimizer_stated=hint.optimizer is not None,
        in_backward=hint.optimizer_in_backward,
        checkpointing=hint.gradient_checkpointing is not False,
        checkpointing_stated=hint.gradient_checkpointing is not None,
        rank=gaps.fill(hint.lora_rank, LORA_RANK, "the LoRA rank") if tuned else 0,
        cpu_offload=hint.cpu_offload,
        pixels=width * height,
        assumptions=tuple(gaps.told),
    )


def _precision(hint: ModelHint, use: ModelUse, gaps: _Gaps) -> Precision:
    stored = written_precision(hint.id or "")
    if use is ModelUse.QLORA:
        if hint.precision is not None and hint.precision not in NARROW:
            gaps.told.append(f"{hint.precision} is taken as what QLoRA computes in: its base is stored in nf4")
            return Precision.NF4
        return hint.precision or stored or Precision.NF4
    if hint.precision is not None:
        return hint.precision
    if stored is not None and use is not ModelUse.FULL_FINE_TUNE:
        gaps.told.append(f"the precision is not stated: {stored} by the model's name")
        return stored
    gaps.told.append("the precision is not stated: bf16 assumed")
    return Precision.BF16


def _amounts(hint: ModelHint, use: ModelUse, facts: Architecture, gaps: _Gaps) -> tuple[int, int, int]:
    """Batch, tokens of one sequence, sequences in flight at once."""
    longest = facts.context_tokens
    match use:
        case ModelUse.LORA | ModelUse.QLORA | ModelUse.FULL_FINE_TUNE:
            batch = gaps.fill(hint.batch_size, TRAINING_BATCH, "the batch per GPU")
            stated = hint.sequence_tokens or hint.context_tokens
            tokens = gaps.fill(stated, min(TRAINING_TOKENS, longest or TRAINING_TOKENS), "the sequence length")
            return batch, tokens, batch
        case ModelUse.INFERENCE:
            sequences = hint.concurrent_sequences or hint.batch_size
            sequences = gaps.fill(sequences, 1, "how many sequences are served at once")
            stated = hint.context_tokens or hint.sequence_tokens
            tokens = gaps.fill(stated, min(SERVING_TOKENS, longest or SERVING_TOKENS), "the context")
            return sequences, tokens, sequences
        case ModelUse.EMBEDDING:
            batch = gaps.fill(hint.batch_size, EMBEDDING_BATCH, "the batch")
            stated = hint.sequence_tokens or hint.context_tokens
            tokens = gaps.fill(stated, min(EMBEDDING_TOKENS, longest or EMBEDDING_TOKENS), "the sequence length")
            return batch, tokens, batch
        case ModelUse.DIFFUSION:
            batch = gaps.fill(hint.batch_size, 1, "how many images at once")
            return batch, 0, batch
