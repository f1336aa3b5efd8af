"""From a hint to an estimate: which architecture is meant, which formulas apply. The formulas stand elsewhere."""

from typing import assert_never

from placet.domain.models import Architecture, ModelHint, ModelKind, ModelUse
from placet.stages.memory import diffusion, inference, training
from placet.stages.memory.families import known_architecture, written_parameters
from placet.stages.memory.setting import Setting, fill
from placet.stages.memory.shapes import guessed_architecture
from placet.stages.memory.values import MemoryEstimate, Part, UnknownModel

# A stated size that far from the known one is another model of that name.
_SAME_SIZE = 0.15


def estimate_memory(
    hint: ModelHint, architecture: Architecture | None = None, *, gpu_count: int = 1
) -> MemoryEstimate | UnknownModel:
    """Memory per GPU when ``gpu_count`` of them share the model; ``architecture`` overrides what the hint leads to.

    Inference splits every layer over the GPUs; training shards weights, gradients and state, each GPU with a batch of
    its own; embedding and diffusion keep one copy on each GPU.
    """
    found = architecture or architecture_of(hint)
    if isinstance(found, UnknownModel):
        return found
    setting = fill(hint, found, gpu_count)
    assumptions = setting.assumptions
    if found.guessed:
        known = f"{found.parameters / 10**9:.3g} B parameters, {found.source}"
        assumptions = (f"the shape is guessed from the size ({known}); the bounds are wide", *assumptions)
    return MemoryEstimate(
        use=setting.use,
        hint=hint,
        architecture=found,
        gpu_count=gpu_count,
        parts=_parts(setting),
        assumptions=assumptions,
    )


def architecture_of(hint: ModelHint) -> Architecture | UnknownModel:
    """What was read, else what the id names, else a guess from the stated size or the one in the id."""
    known = hint.architecture or (known_architecture(hint.id) if hint.id else None)
    if known is not None and (hint.parameters is None or _same_size(known, hint.parameters)):
        return known
    name = hint.id or "model"
    if hint.parameters is not None:
        return guessed_architecture(hint.parameters, name, "as stated")
    written = written_parameters(hint.id) if hint.id else None
    if written:
        return guessed_architecture(written, name, "by its name")
    return UnknownModel(
        why=f"{hint.id} is not in the table of known models and its name has no size"
        if hint.id
        else "neither `id`, `parameters` nor `folder` says how large the model is",
        fix="add `model.parameters`, for example 7B, or state `resources.minimum_gpu_memory_gb`",
    )


def _same_size(known: Architecture, parameters: int) -> bool:
    whole = known.parameters + known.companions
    return any(abs(parameters - size) <= _SAME_SIZE * size for size in (known.parameters, whole))


def _parts(setting: Setting) -> tuple[Part, ...]:
    if setting.facts.kind is ModelKind.DIFFUSION:
        return diffusion.parts(setting)
    match setting.use:
        case ModelUse.LORA | ModelUse.QLORA | ModelUse.FULL_FINE_TUNE:
            return training.parts(setting)
        case ModelUse.EMBEDDING:
            return inference.embedding_parts(setting)
        case ModelUse.INFERENCE:
            return inference.parts(setting)
        case ModelUse.DIFFUSION:
            return diffusion.parts(setting)
    assert_never(setting.use)
