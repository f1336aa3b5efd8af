"""What is wrong with a request by itself, before any offer is looked at."""

from decimal import Decimal

from placet.domain.problems import Problem
from placet.domain.spec import CapacityType, Repeat, Spec
from placet.domain.units import GB, SECOND_MS, format_bytes, format_instant
from placet.stages.memory.demanded import model_memory
from placet.stages.memory.splitting import smallest_split
from placet.stages.memory.values import MemoryEstimate, UnknownModel


def admit(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    """Every contradiction of the spec with itself or with the clock, each with the smallest change that helps."""
    found = (*_deadline(spec, now_ms), *_selections(spec), *_repeat(spec), *_times(spec, now_ms), *_model(spec))
    return tuple(found)


def _deadline(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    deadline_ms = spec.constraints.deadline_ms
    if deadline_ms is None:
        return ()
    if deadline_ms <= now_ms:
        return (
            Problem(
                code="deadline_passed",
                field="constraints.deadline",
                what=f"the deadline {format_instant(deadline_ms)} has passed",
                why="nothing can finish in the past",
                fix="give a later deadline, for example +2h",
            ),
        )
    return ()


def _selections(spec: Spec) -> tuple[Problem, ...]:
    found = []
    for name, chosen in (("providers", spec.constraints.providers), ("regions", spec.constraints.regions)):
        both = sorted(set(chosen.allowed) & set(chosen.denied))
        if both:
            found.append(
                Problem(
                    code="contradiction",
                    field=f"constraints.{name}",
                    what=f"{', '.join(both)} is both allowed and denied",
                    why="a name cannot be both",
                    fix=f"remove it from constraints.{name}.allowed or from constraints.{name}.denied",
                )
            )
    return tuple(found)


def _repeat(spec: Spec) -> tuple[Problem, ...]:
    found = []
    types = spec.constraints.capacity_types
    if spec.repeat is Repeat.AT_MOST_ONCE and types and set(types) <= {CapacityType.SPOT}:
        found.append(
            Problem(
                code="contradiction",
                field="constraints.capacity_types",
                what="at_most_once on capacity that may be taken back",
                why="a preempted program would have to be run again to finish",
                fix="allow on_demand or reserved capacity, or declare repeat: safe or resumable",
            )
        )
    if spec.repeat is Repeat.AT_MOST_ONCE and spec.retry.attempts > 1:
        found.append(
            Problem(
                code="contradiction",
                field="retry.attempts",
                what=f"{spec.retry.attempts} attempts of a program that may run at most once",
                why="a second attempt would run it twice",
                fix="set retry.attempts to 1, or declare repeat: safe or resumable",
            )
        )
    return tuple(found)


def _times(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    limit = spec.constraints.runtime_s
    deadline_ms = spec.constraints.deadline_ms
    if limit is not None and limit <= Decimal(0):
        return (
            Problem(
                code="out_of_range",
                field="constraints.maximum_runtime_seconds",
                what="a run time of zero",
                why="every program needs some time",
                fix="give a positive limit, or leave it out",
            ),
        )
    start_s = spec.constraints.start_within_s
    if deadline_ms is not None and start_s is not None and now_ms + int(start_s * SECOND_MS) > deadline_ms > now_ms:
        return (
            Problem(
                code="contradiction",
                field="constraints.start_within_seconds",
                what="it may start after its deadline",
                why="start_within_seconds ends later than the deadline",
                fix="lower constraints.start_within_seconds or give a later deadline",
            ),
        )
    return ()


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
