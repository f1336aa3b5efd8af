"""From what was asked to what must be there: declared needs, and what is known of equal workloads. No choice yet."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal

from placet.domain.lessons import NO_LESSONS, History, Lessons
from placet.domain.offers import Demand, Interval
from placet.domain.spec import Accelerator, Spec
from placet.domain.units import format_bytes
from placet.stages.disk import disk_of
from placet.stages.memory.demanded import model_memory, told
from placet.stages.memory.measured import MeasuredMemory, measured_memory
from placet.stages.memory.values import MemoryEstimate, UnknownModel

KIND_LENGTH = 32


def kind_of(spec: Spec) -> str:
    """What equal workloads share: the program, what it reads and what it computes on. Names, labels, bounds of the
    choice and how much memory was asked for do not count."""
    run, needs = spec.runtime, spec.resources
    program = (
        run.kind.value, run.image, run.entrypoint, run.command, run.working_directory, run.script, run.script_text,
        run.arguments, run.requirements, run.python_version, spec.environment,
    )  # fmt: skip
    read = [(one.name, one.source, one.sha256) for one in spec.inputs]
    device = (needs.accelerator.value, needs.gpu_count, needs.gpu_models, needs.gpu_families, needs.nodes)
    told = repr((program, read, device, needs.cpu_cores, spec.model))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:KIND_LENGTH]


def size(spec: Spec, *, tenant: str = "", lessons: Lessons = NO_LESSONS) -> Demand:
    """The demand of a spec. Declared needs are taken as they are, and a model's GPU memory is derived where it is not
    declared; the run time is that of the tenant's equal workloads, and the declared limit bounds it from above."""
    needs, kind = spec.resources, kind_of(spec)
    history = lessons.history(tenant, kind)
    runtime_s = _runtime(spec, history)
    reasons = [] if runtime_s is None else [f"run time: {runtime_s.reason}"]
    if history.peak_bytes is not None:
        reasons.append(f"memory: equal workloads used at most {format_bytes(history.peak_bytes)}")
    gpus, disk = _gpus(spec, history), _disk(spec)
    return Demand(
        gpu_count=gpus.count,
        gpu_memory_bytes=gpus.memory_bytes,
        cpu_cores=needs.cpu_cores,
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes if needs.disk_bytes is not None or disk is None else int(disk.likely),
        disk=disk,
        nodes=needs.nodes,
        runtime_s=runtime_s,
        reasons=(*reasons, *gpus.reasons, *_disk_told(needs.disk_bytes, disk)),
        kind=kind,
        usual_s=_usual(spec, history),
    )


def _disk(spec: Spec) -> Interval | None:
    estimate = disk_of(spec)
    if estimate is None:
        return None
    size = estimate.size
    return Interval(low=Decimal(size.low), likely=Decimal(size.likely), high=Decimal(size.high), reason=estimate.reason)


def _disk_told(stated: int | None, disk: Interval | None) -> tuple[str, ...]:
    if disk is None:
        return ()
    low, likely, high = (format_bytes(int(part)) for part in (disk.low, disk.likely, disk.high))
    if stated is None:
        return (f"disk: {likely}, between {low} and {high}: {disk.reason}",)
    return (f"disk: {format_bytes(stated)} as stated, though likely {likely}: {disk.reason}",) * (stated < disk.likely)


def _usual(spec: Spec, history: History) -> Interval | None:
    """What equal workloads took, each decile cut at the declared limit."""
    limit, known = spec.constraints.runtime_s, history.runtime_s
    if known is None or limit is None:
        return known
    low, likely, high = (min(part, limit) for part in (known.low, known.likely, known.high))
    return Interval(low=low, likely=likely, high=high, reason=known.reason)


def _runtime(spec: Spec, history: History) -> Interval | None:
    limit, known = spec.constraints.runtime_s, history.runtime_s
    if limit is None:
        return known
    if known is None:
        return Interval(low=limit * 0, likely=limit, high=limit, reason="at most the declared limit")
    low, likely = min(known.low, limit), min(known.likely, limit)
    return Interval(low=low, likely=likely, high=limit, reason=f"{known.reason}; at most the declared limit")


@dataclass(frozen=True, kw_only=True)
class _Gpus:
    count: int = 0
    memory_bytes: int | None = None
    reasons: tuple[str, ...] = ()


def _gpus(spec: Spec, history: History) -> _Gpus:
    """GPUs and the memory of each: what is declared, else what the model needs, and what equal workloads used of it."""
    needs = spec.resources
    if needs.accelerator is not Accelerator.GPU:
        return _Gpus()
    asked = _Gpus(count=max(needs.gpu_count, 1), memory_bytes=needs.gpu_memory_bytes)
    match model_memory(spec):
        case None:
            return asked
        case UnknownModel(why=why):
            return _Gpus(count=asked.count, memory_bytes=asked.memory_bytes, reasons=(f"GPU memory: {why}",))
        case MemoryEstimate() as estimate if asked.memory_bytes is None:
            return _derived(estimate, history)
        case MemoryEstimate() as estimate:
            return _Gpus(count=asked.count, memory_bytes=asked.memory_bytes, reasons=_compared(spec, estimate))


def _derived(estimate: MemoryEstimate, history: History) -> _Gpus:
    """A measurement takes the place of an estimate that was too high, down to what the model surely needs. One that was
    too low is raised later, as far as there are offers with more."""
    count, memory_bytes, reasons = estimate.gpu_count, estimate.recommended_bytes, told(estimate)
    measured = measured_memory(history, count)
    if measured is None or measured.memory_bytes >= memory_bytes:
        return _Gpus(count=count, memory_bytes=memory_bytes, reasons=reasons)
    wanted_bytes = recommended_bytes(estimate, measured)
    instead = f"GPU memory: {format_bytes(wanted_bytes)} instead of the estimated {format_bytes(memory_bytes)}"
    return _Gpus(count=count, memory_bytes=wanted_bytes, reasons=(f"{instead}: {measured.why}", *reasons))


def recommended_bytes(estimate: MemoryEstimate, measured: MeasuredMemory | None) -> int:
    """What to ask of each GPU: what was measured, but never less than the model surely needs; else the estimate."""
    return estimate.recommended_bytes if measured is None else max(measured.memory_bytes, estimate.size.low)


def _compared(spec: Spec, estimate: MemoryEstimate) -> tuple[str, ...]:
    """What the model says to the declared memory, which counts."""
    stated = spec.resources.gpu_memory_bytes or 0
    if estimate.recommended_bytes <= stated:
        return ()
    needed, bound = format_bytes(estimate.recommended_bytes), format_bytes(stated)
    return (f"GPU memory: {bound} as declared, though the model likely needs {needed}", *told(estimate))
