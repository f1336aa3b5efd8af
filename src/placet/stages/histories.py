"""From earlier workloads of one kind to what the next one is expected to take. It knows nothing of offers."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from placet.domain.failures import Cause
from placet.domain.lessons import NO_HISTORY, Ended, History
from placet.domain.offers import Interval
from placet.domain.values import evolve

# So many of the latest run times of a kind are kept, and so many kinds: those that ended last.
RUN_TIMES_MAX = 50
KINDS_MAX = 4_096
# Fewer run times than this say little of how they spread: half the median and double of it are taken for the deciles.
RUN_TIMES_FEW = 5

Histories = Mapping[tuple[str, str], History]


def remember_kinds(histories: Histories, ended: Sequence[Ended]) -> Histories:
    """The histories with the run times and the memory of some more attempts.

    A run time counts only where the attempt is known to have done the whole work. Of a program that goes on from
    checkpoints that is the first attempt; later ones do not count at all, nor does a sum of attempts, as nobody knows
    how much of it was done twice.
    """
    news: dict[tuple[str, str], list[Ended]] = {}
    for one in ended:
        if one.kind and (_ran(one) or one.cause is Cause.OUT_OF_MEMORY or one.gpu_use is not None):
            news.setdefault((one.tenant, one.kind), []).append(one)
    if not news:
        return histories
    grown = dict(histories)
    for key, runs in news.items():
        grown[key] = _grown(grown.pop(key, NO_HISTORY), sorted(runs, key=lambda one: one.finished_ms))
    if len(grown) > KINDS_MAX:
        latest = sorted(grown.items(), key=lambda item: item[1].at_ms, reverse=True)
        grown = dict(latest[: KINDS_MAX * 3 // 4])
    return grown


def _grown(history: History, runs: Sequence[Ended]) -> History:
    history = evolve(history, at_ms=max(history.at_ms, runs[-1].finished_ms))
    for one in runs:
        history = _with_memory(history, one) if _ran(one) or one.cause is Cause.OUT_OF_MEMORY else history
    measured = tuple(one.gpu_use for one in runs if one.gpu_use is not None)
    if measured:
        history = evolve(history, gpu_uses=(*history.gpu_uses, *measured)[-RUN_TIMES_MAX:])
    well = [one for one in runs if _ran(one) and one.whole]
    if not well:
        return history
    seconds = [max((one.exited_ms or 0) - (one.started_ms or 0), 0) / 1000 for one in well]
    peaks = [one.peak_memory_bytes for one in well if one.peak_memory_bytes is not None]
    kept = (*history.run_times_s, *seconds)[-RUN_TIMES_MAX:]
    return evolve(
        history,
        run_times_s=kept,
        runtime_s=run_time(kept),
        peaks_bytes=(*history.peaks_bytes, *peaks)[-RUN_TIMES_MAX:],
    )


def _ran(ended: Ended) -> bool:
    return ended.computed and ended.started_ms is not None and ended.exited_ms is not None


def _with_memory(history: History, ended: Ended) -> History:
    """What did not do and what did; a success with what had been too little before takes that back."""
    short, enough = history.short_bytes, history.enough_bytes
    if ended.cause is Cause.OUT_OF_MEMORY:
        had = ended.memory_bytes or ended.peak_memory_bytes
        if had is None:
            return history
        short = max(short or 0, had)
        enough = enough if enough is not None and enough > short else None
    elif ended.memory_bytes is not None:
        short = None if short is not None and ended.memory_bytes <= short else short
        enough = ended.memory_bytes if enough is None else min(enough, ended.memory_bytes)
    return evolve(history, short_bytes=short, enough_bytes=enough)


def run_time(seconds: Sequence[float]) -> Interval:
    """First decile, median and ninth decile of some run times, at least one, in seconds."""
    ordered = sorted(seconds)
    low, likely, high = (_quantile(ordered, share) for share in (0.1, 0.5, 0.9))
    if len(ordered) < RUN_TIMES_FEW:
        low, high = min(low, likely / 2), max(high, likely * 2)
    count = len(ordered)
    return Interval(
        low=_decimal(low),
        likely=_decimal(likely),
        high=_decimal(high),
        reason=f"{count} equal workload{'s' if count > 1 else ''} took p10 {low:.4g} s, p50 {likely:.4g} s, "
        f"p90 {high:.4g} s",
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest ranks in proportion (Hyndman and Fan's definition 7)."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def _decimal(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.3f}").normalize() if seconds else Decimal(0)
