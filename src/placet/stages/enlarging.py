"""After a program ran out of memory, or used more than was asked for: the next one asks for more, if that can be had.

It applies to attempts of the same workload, and to workloads of the same kind before they make the same mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placet.domain.failures import Cause
from placet.domain.lessons import NO_HISTORY, History
from placet.domain.offer_table import OfferTable
from placet.domain.records import Attempt
from placet.domain.units import format_bytes
from placet.domain.values import evolve
from placet.stages.filters import Asked
from placet.stages.memory.measured import measured_memory
from placet.stages.placement import feasible, open_offers

# Half as much again: three steps are more than three times the first.
GROWS_NUMERATOR, GROWS_DENOMINATOR = 3, 2
STEP_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class _Short:
    """``short_bytes`` did not do, and ``wanted_bytes`` may; ``own`` when an attempt of this workload proved it."""

    short_bytes: int
    wanted_bytes: int
    why: str
    own: bool


def enlarged(asked: Asked, table: OfferTable, attempts: Sequence[Attempt] = (), history: History = NO_HISTORY) -> Asked:
    """What is asked of offers after what ran out of memory, or used more of its GPUs than would be asked for."""
    return _more_gpu_memory(_more_memory(asked, table, attempts, history), table, history)


def _more_memory(asked: Asked, table: OfferTable, attempts: Sequence[Attempt], history: History) -> Asked:
    """What is asked of offers after what ran out of memory. Nothing else is relaxed for it.

    Without an offer that has more, a workload whose own attempt ran out asks for it all the same, so that it ends with
    the reason; one that only resembles others is left as it was declared.
    """
    short = _own(asked, attempts) or _of_kind(asked, history)
    if short is None:
        return asked
    demand = asked.demand
    just_more = evolve(asked, demand=evolve(demand, memory_bytes=short.short_bytes + 1))
    possible, _ = open_offers(just_more, table)
    if possible.any():
        most = int(np.max(table.memory_bytes[possible]))
        memory_bytes = min(short.wanted_bytes, most)
    elif short.own:
        memory_bytes = short.wanted_bytes
    else:
        return asked
    declared = asked.spec.resources.memory_bytes
    instead = "" if declared is None else f" instead of the declared {format_bytes(declared)}"
    raised = f"memory: {format_bytes(memory_bytes)}{instead}, {short.why}"
    return _raised(evolve(asked, demand=evolve(demand, memory_bytes=memory_bytes)), raised)


def _more_gpu_memory(asked: Asked, table: OfferTable, history: History) -> Asked:
    """As much of each GPU as equal workloads were measured to use, where an offer has it."""
    demand = asked.demand
    measured = measured_memory(history, demand.gpu_count) if demand.gpu_count and history.gpu_uses else None
    had = demand.gpu_memory_bytes
    if measured is None or measured.memory_bytes <= (had or 0):
        return asked
    more = evolve(asked, demand=evolve(demand, gpu_memory_bytes=measured.memory_bytes))
    if not feasible(more, table):
        return asked
    whence = "declared" if asked.spec.resources.gpu_memory_bytes is not None else "estimated"
    instead = "" if had is None else f" instead of the {whence} {format_bytes(had)}"
    return _raised(more, f"GPU memory: {format_bytes(measured.memory_bytes)}{instead}: {measured.why}")


def _raised(asked: Asked, raised: str) -> Asked:
    demand = asked.demand
    told = f"{demand.raised}; {raised}" if demand.raised else raised
    return evolve(asked, demand=evolve(demand, reasons=(*demand.reasons, raised), raised=told))


def _own(asked: Asked, attempts: Sequence[Attempt]) -> _Short | None:
    """What this workload's own attempts showed to be too little, if it is as much as would be asked for now."""
    short_bytes, epoch = 0, 0
    for attempt in attempts:
        if attempt.failure is not None and attempt.failure.cause is Cause.OUT_OF_MEMORY:
            had_bytes = attempt.placement.memory_bytes or attempt.usage.peak_memory_bytes or 0
            if had_bytes >= short_bytes:
                short_bytes, epoch = had_bytes, attempt.epoch
    if not short_bytes or short_bytes < (asked.demand.memory_bytes or 0):
        return None
    why = f"attempt {epoch} ran out of memory with {format_bytes(short_bytes)}"
    return _Short(short_bytes=short_bytes, wanted_bytes=_grown(short_bytes), why=why, own=True)


def _of_kind(asked: Asked, history: History) -> _Short | None:
    """What equal workloads showed, where no more was declared here; what was enough for one is taken, where known."""
    short_bytes, declared = history.short_bytes, asked.demand.memory_bytes
    if short_bytes is None or declared is None or declared > short_bytes:
        return None
    why = f"an equal workload ran out of memory with {format_bytes(short_bytes)}"
    if history.enough_bytes is None:
        return _Short(short_bytes=short_bytes, wanted_bytes=_grown(short_bytes), why=why, own=False)
    why += f", and {format_bytes(history.enough_bytes)} was enough"
    return _Short(short_bytes=short_bytes, wanted_bytes=history.enough_bytes, why=why, own=False)


def _grown(memory_bytes: int) -> int:
    grown = memory_bytes * GROWS_NUMERATOR // GROWS_DENOMINATOR
    return -(-grown // STEP_BYTES) * STEP_BYTES
