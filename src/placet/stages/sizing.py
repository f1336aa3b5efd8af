"""From what was asked to what must be there: declared needs, and estimates where a caller has them. No choice yet."""

from dataclasses import dataclass

from placet.domain.offers import Demand, Interval
from placet.domain.spec import Accelerator, Spec
from placet.domain.units import format_bytes
from placet.stages.memory.demanded import model_memory, told
from placet.stages.memory.values import MemoryEstimate, UnknownModel


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What is known beyond the declaration, for instance from earlier workloads of the same kind."""

    runtime_s: Interval | None = None


def size(spec: Spec, estimates: Estimates | None = None) -> Demand:
    """The demand of a spec. Declared needs are taken as they are, and a model's GPU memory is derived where it is not
    declared; the runtime limit bounds the run time from above."""
    needs = spec.resources
    known = estimates or Estimates()
    reasons = [] if known.runtime_s is None else [f"run time: {known.runtime_s.reason}"]
    runtime_s = known.runtime_s
    if runtime_s is None and spec.constraints.runtime_s is not None:
        limit = spec.constraints.runtime_s
        runtime_s = Interval(low=limit * 0, likely=limit, high=limit, reason="the declared runtime limit")
        reasons.append("run time: at most the declared limit")
    gpus = _gpus(spec)
    return Demand(
        gpu_count=gpus.count,
        gpu_memory_bytes=gpus.memory_bytes,
        cpu_cores=needs.cpu_cores,
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes,
        nodes=needs.nodes,
        runtime_s=runtime_s,
        reasons=(*reasons, *gpus.reasons),
    )


@dataclass(frozen=True, kw_only=True)
class _Gpus:
    count: int = 0
    memory_bytes: int | None = None
    reasons: tuple[str, ...] = ()


def _gpus(spec: Spec) -> _Gpus:
    """GPUs and the memory of each: what is declared, else what the model needs."""
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
            return _Gpus(count=estimate.gpu_count, memory_bytes=estimate.recommended_bytes, reasons=told(estimate))
        case MemoryEstimate() as estimate:
            return _Gpus(count=asked.count, memory_bytes=asked.memory_bytes, reasons=_compared(spec, estimate))


def _compared(spec: Spec, estimate: MemoryEstimate) -> tuple[str, ...]:
    """What the model says to the declared memory, which counts."""
    stated = spec.resources.gpu_memory_bytes or 0
    if estimate.recommended_bytes <= stated:
        return ()
    needed, bound = format_bytes(estimate.recommended_bytes), format_bytes(stated)
    return (f"GPU memory: {bound} as declared, though the model likely needs {needed}", *told(estimate))
