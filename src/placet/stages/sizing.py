"""From what was asked to what must be there: declared needs, and estimates where a caller has them. No choice yet."""

from dataclasses import dataclass

from placet.domain.offers import Demand, Interval
from placet.domain.spec import Accelerator, Spec


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What is known beyond the declaration, for instance from earlier workloads of the same kind."""

    runtime_s: Interval | None = None


def size(spec: Spec, estimates: Estimates | None = None) -> Demand:
    """The demand of a spec. Declared needs are taken as they are; the runtime limit bounds the run time from above."""
    needs = spec.resources
    known = estimates or Estimates()
    reasons = [] if known.runtime_s is None else [f"run time: {known.runtime_s.reason}"]
    runtime_s = known.runtime_s
    if runtime_s is None and spec.constraints.runtime_s is not None:
        limit = spec.constraints.runtime_s
        runtime_s = Interval(low=limit * 0, likely=limit, high=limit, reason="the declared runtime limit")
        reasons.append("run time: at most the declared limit")
    with_gpu = needs.accelerator is Accelerator.GPU
    return Demand(
        gpu_count=max(needs.gpu_count, 1) if with_gpu else 0,
        gpu_memory_bytes=needs.gpu_memory_bytes if with_gpu else None,
        cpu_cores=needs.cpu_cores,
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes,
        nodes=needs.nodes,
        runtime_s=runtime_s,
        reasons=tuple(reasons),
    )
