"""What is said to a provider and what it says back: launches, handles, observations. No provider's own words."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from placet.domain.failures import Cause
from placet.domain.offers import Demand, Offer
from placet.domain.spec import Spec


class Phase(StrEnum):
    """Where an allocation is, in our words; an unlisted provider state is ``UNKNOWN``."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    AWAITING_PERMIT = "awaiting_permit"
    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    COLLECTING = "collecting"
    ENDED = "ended"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Tag:
    """The exact mark of everything we create: only what matches all four is ours to touch."""

    deployment: str
    workload_id: str
    epoch: int
    nonce: str


@dataclass(frozen=True, kw_only=True)
class ResolvedInput:
    """An input whose source is settled: a local path, a URL, or text."""

    name: str
    kind: str
    source: str
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """All a provider needs to start one attempt; ``key`` is the deterministic name, unique to workload and epoch."""

    key: str
    tag: Tag
    offer: Offer
    spec: Spec
    demand: Demand
    inputs: tuple[ResolvedInput, ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    start_within_s: Decimal | None = None
    runtime_s: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Handle:
    """How to address an allocation at its provider; stored with the attempt.

    ``nonce`` is that of its tag, empty where the provider does not say; ``price_usd_per_hour`` is what the provider
    itself says that it costs.
    """

    provider: str
    key: str
    native_id: str
    created_ms: int
    place: str = ""
    nonce: str = ""
    price_usd_per_hour: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class FoundOutput:
    """One collected file: where its bytes are now, and their digest."""

    name: str
    path: str
    size_bytes: int
    sha256: str
    location: str


@dataclass(frozen=True, kw_only=True)
class LogSeal:
    """The final account of one log stream; ``bytes_total`` counts also what was dropped."""

    stream: str
    bytes_total: int
    bytes_kept: int
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What an attempt used, as far as it was measured."""

    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a provider or runner said about one allocation, and when.

    ``cause`` is set if and only if ``phase`` is ``ENDED``; an ended program with exit code 0 has no cause.
    ``computed`` is true only on positive proof of exit status 0. ``collected`` says that the outputs are final.
    ``problem`` is what stands in the way of the outputs; where ``collected`` is true as well, it did to the end.
    """

    key: str
    phase: Phase
    observed_ms: int
    source: str
    native_state: str = ""
    incarnation: str = ""
    cause: Cause | None = None
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    computed: bool = False
    collected: bool = False
    created_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    phases_ms: tuple[tuple[str, int], ...] = ()
    outputs: tuple[FoundOutput, ...] = ()
    missing: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    problem: str = ""
    logs: tuple[LogSeal, ...] = ()
    usage: Usage = field(default_factory=Usage)
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PermitRequest:
    """A runner asks to start user code for its epoch."""

    key: str
    tag: Tag


@dataclass(frozen=True, kw_only=True)
class LogChunk:
    """Bytes of one stream at an offset; ``dropped`` bytes were lost just before them."""

    stream: str
    offset: int
    data: bytes
    dropped: int = 0
    final: bool = False


@dataclass(frozen=True, kw_only=True)
class ContractCard:
    """What a provider promises and lacks; the engine reads this instead of asking for names.

    ``visibility_s`` (V): the longest time an existing thing may stay invisible. ``late_create_s`` (D): the latest time
    a sent create may still take effect; ``None`` means that nobody knows. ``bound_to_place``: an allocation can only be
    seen and touched through a provider that offers its region, so that absence elsewhere proves nothing.
    """

    identity: str
    visibility_s: float
    late_create_s: float | None
    bound_to_place: bool
    lists_completely: bool
    exit_code: bool
    restarts_by_itself: bool
    fence: bool
    forgets_after_s: int | None
    billing_quantum_s: int
    runtimes: tuple[str, ...]
    log_streams: tuple[str, ...]
    notes: tuple[str, ...] = ()
