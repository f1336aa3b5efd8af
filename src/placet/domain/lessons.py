"""What finished attempts teach, as the engine holds it between decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from placet.domain.allocations import Usage
from placet.domain.blocks import Streak
from placet.domain.experience import Experience
from placet.domain.failures import Cause
from placet.domain.offers import Interval
from placet.domain.records import Attempt, PlacementNote


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """The most that an attempt was measured to use of one of its GPUs, beside what it had asked of each (``None``:
    nothing) and what each has."""

    peak_bytes: int
    device_bytes: int
    gpu_count: int
    asked_bytes: int | None = None
    computed: bool = False

    @classmethod
    def of(cls, usage: Usage, where: PlacementNote, *, computed: bool) -> "GpuUse | None":
        """The same of an attempt, where it was measured."""
        if usage.gpu_peak_bytes is None or where.gpu_device_bytes is None or not where.gpu_count:
            return None
        return cls(
            peak_bytes=usage.gpu_peak_bytes,
            device_bytes=where.gpu_device_bytes,
            gpu_count=where.gpu_count,
            asked_bytes=where.gpu_asked_bytes,
            computed=computed,
        )


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What is kept in mind of one finished attempt; ``kind`` is what equal workloads share.

    ``offer_id`` to ``capacity_type`` say where it was to run; times are milliseconds, and ``permit_ms`` is when its
    runner asked to start the program. ``memory_bytes`` is how much it had asked for.
    ``whole`` says that it did the whole work, and not perhaps the rest of what an earlier one had left.
    """

    tenant: str
    workload_id: str
    epoch: int
    kind: str
    offer_id: str
    provider: str
    region: str
    gpu_model: str
    capacity_type: str
    created_ms: int
    finished_ms: int
    permit_ms: int | None = None
    started_ms: int | None = None
    exited_ms: int | None = None
    computed: bool = False
    cause: Cause | None = None
    peak_memory_bytes: int | None = None
    memory_bytes: int | None = None
    gpu_use: GpuUse | None = None
    whole: bool = True
    simulated: bool = False

    @classmethod
    def of(cls, tenant: str, attempt: Attempt) -> "Ended":
        """The same of an attempt that is over."""
        where, failure = attempt.placement, attempt.failure
        return cls(
            tenant=tenant,
            workload_id=attempt.workload_id,
            epoch=attempt.epoch,
            kind=where.kind,
            offer_id=where.offer_id,
            provider=where.provider,
            region=where.region,
            gpu_model=where.gpu_model,
            capacity_type=where.capacity_type,
            created_ms=attempt.created_ms,
            finished_ms=attempt.created_ms if attempt.finished_ms is None else attempt.finished_ms,
            permit_ms=attempt.permit_ms,
            started_ms=attempt.started_ms,
            exited_ms=attempt.exited_ms,
            computed=attempt.computed,
            cause=None if failure is None else failure.cause,
            peak_memory_bytes=attempt.usage.peak_memory_bytes,
            memory_bytes=where.memory_bytes,
            gpu_use=GpuUse.of(attempt.usage, where, computed=attempt.computed),
            whole=attempt.epoch == 1 or not where.resumes,
            simulated=where.simulated,
        )


@dataclass(frozen=True, kw_only=True)
class History:
    """What became of workloads of one kind: the latest run times of those that succeeded, oldest first, in seconds, and
    their quantiles; ``at_ms`` is the end of the last.

    ``short_bytes`` is the most memory with which one ran out, ``enough_bytes`` the least of more with which one
    succeeded, ``peak_bytes`` the most that any of the latest ones used; ``None`` where nothing is known.
    ``gpu_uses`` are the latest measurements of GPU memory, also of those that failed: what they used, they needed.
    """

    at_ms: int = 0
    run_times_s: tuple[float, ...] = ()
    runtime_s: Interval | None = None
    short_bytes: int | None = None
    enough_bytes: int | None = None
    peaks_bytes: tuple[int, ...] = ()
    gpu_uses: tuple[GpuUse, ...] = ()

    @property
    def peak_bytes(self) -> int | None:
        return max(self.peaks_bytes, default=None)


NO_HISTORY = History()


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """All that decisions of one moment are told of the past; histories by tenant and kind, streaks by tenant."""

    experience: Experience = field(default_factory=Experience)
    histories: Mapping[tuple[str, str], History] = field(default_factory=dict)
    streaks: Mapping[str, tuple[Streak, ...]] = field(default_factory=dict)

    def history(self, tenant: str, kind: str) -> History:
        """What became of a tenant's workloads of one kind."""
        return self.histories.get((tenant, kind), NO_HISTORY)


NO_LESSONS = Lessons()
