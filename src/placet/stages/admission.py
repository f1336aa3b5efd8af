"""What is wrong with a request by itself, before any offer is looked at."""

from placet.domain.contradictions import contradictions
from placet.domain.problems import Problem
from placet.domain.spec import Spec
from placet.domain.units import GB, format_bytes
from placet.stages.disk import disk_too_small
from placet.stages.memory.demanded import model_memory
from placet.stages.memory.splitting import smallest_split
from placet.stages.memory.values import MemoryEstimate, UnknownModel


def admit(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    """Every contradiction of the spec with itself or with the clock, each with the smallest change that helps."""
    return (*contradictions(spec, now_ms), *_model(spec), *disk_too_small(spec))


def _model(spec: Spec) -> tuple[Problem, ...]:
    """A model of unknown size with nothing else to go by, or one that surely needs more than was asked for."""
    stated = spec.resources.gpu_memory_bytes
    match model_memory(spec):
        case UnknownModel() as unknown if stated is None and not spec.resources.gpu_models:
            return (unknown_model(unknown),)
        case MemoryEstimate() as estimate if stated is not None and estimate.size.low > stated:
            return (_too_little(estimate, stated),)
    return ()


def unknown_model(unknown: UnknownModel) -> Problem:
    """The refusal of a model that nothing says the size of."""
    return Problem(
        code="unknown_model",
        field="model",
        what="the size of the model is not known",
        why=unknown.why,
        fix=unknown.fix,
    )


def _too_little(estimate: MemoryEstimate, stated: int) -> Problem:
    needed = -(-estimate.recommended_bytes // GB)
    fix = f"ask for {needed} or more"
    over = smallest_split(estimate, stated)
    if over is not None and over.gpu_count > estimate.gpu_count:
        fix += f", or set resources.gpu_count to {over.gpu_count} if the program splits the model"
    return Problem(
        code="contradiction",
        field="resources.minimum_gpu_memory_gb",
        what=f"{format_bytes(stated)} is asked for, and the model needs at least {format_bytes(estimate.size.low)}",
        why=f"{estimate.use} of {estimate.architecture.name} would run out of memory; likely it needs "
        f"{format_bytes(estimate.recommended_bytes)}",
        fix=f"{fix}; or change `model`, for example its precision, batch or task",
    )
