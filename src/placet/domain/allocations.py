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
    """One collected file: where its bytes are now, and their digest.

    ``location`` is a path on the server's machine where the provider's card says so, else its provider's own word.
    """

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
    """What an attempt used, as far as it was measured; ``gpu_peak_bytes`` is that of the GPU of which it used most."""

    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    disk_bytes: int | None = None
    gpu_peak_bytes: int | None = None


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


class Verb(StrEnum):
    """What can be asked of a provider."""

    SUBMIT = "submit"
    FIND = "find"
    OBSERVE = "observe"
    PERMIT = "permit"
    CANCEL = "cancel"
    RELEASE = "release"
    OWNED = "owned"
    LOGS = "logs"
    OUTPUT = "output"


class ErrorKind(StrEnum):
    """What a failed call of a provider means; one for each error of a provider in ``domain.errors``."""

    INVALID_REQUEST = "invalid_request"
    AUTH = "credentials_refused"
    QUOTA = "quota_exceeded"
    NO_CAPACITY = "no_capacity"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    OUTCOME_UNKNOWN = "outcome_unknown"


class PriceEcho(StrEnum):
    """Where a provider says what a thing costs that it made for us."""

    NOWHERE = "nowhere"
    CREATE_REPLY = "create_reply"
    READ_BACK = "read_back"


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How what we create carries our name. ``key_kept_s``: how long a key of ours makes a repeated create the same
    one, ``None`` for as long as the thing is known; ``checks_parameters``: another request under the same key is
    refused. ``length_max`` is the most characters of a name or tag. Read by the conformance kit and by people.
    """

    unique: bool = False
    key_kept_s: int | None = None
    checks_parameters: bool = False
    length_max: int = 63
    searchable: bool = False


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a list of ours says besides being complete or not. Read by the conformance kit and by people."""

    paged: bool = False
    across_regions: bool = True


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """What asking for a stop does. ``refused_in`` are the phases in which it is refused: the engine asks again when
    it sees another. The rest is read by the conformance kit.
    """

    idempotent: bool = True
    asynchronous: bool = True
    refused_in: tuple[Phase, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RateLimit:
    """No more than so many calls of one verb in so many seconds; the engine keeps to it."""

    verb: Verb
    calls: int
    per_s: float


@dataclass(frozen=True, kw_only=True)
class ErrorRule:
    """A status and a text within the body mean this; a status of ``None`` is any, an empty marker stands in all."""

    status: int | None
    kind: ErrorKind
    marker: str = ""


@dataclass(frozen=True, kw_only=True)
class LogKeeping:
    """How logs are kept: can they be read from an offset, and for how long after the end; ``None`` is until released.
    Read by the conformance kit and by people.
    """

    offsets: bool = True
    kept_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContractCard:
    """What a provider promises and lacks; the engine reads this instead of asking for names.

    ``visibility_s`` (V): the longest time an existing thing may stay invisible. ``late_create_s`` (D): the latest time
    a sent create may still take effect; ``None`` means that nobody knows. ``bound_to_place``: an allocation can only be
    seen and touched through a provider that offers its region, so that absence elsewhere proves nothing.
    ``forgets_after_s``: how long what has ended is remembered, ``None`` until it is released. ``restarts_by_itself``:
    a program may be begun again without being asked.

    The engine reads these, the stop and the rate limits. Read by the conformance kit, ``placet provider show`` and
    people: ``exit_code_reliable``, ``states`` (the provider's word and our phase; what is not listed is unknown),
    ``preempt_notice_s`` (``None``: none is promised), ``time_to_live`` (it can be told to delete a thing by itself),
    ``price_echo``, ``error_table`` (the first rule that fits counts, see ``error_kind``), ``two_phase_create``
    (something can be made without being begun), ``logs``, and ``simulated`` (nothing of it is real).
    ``bills_until_release``: what has ended goes on costing until it is deleted. ``outputs_are_files``: what was
    collected lies in files on the server's machine, and the engine may take them over instead of reading them.
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
    naming: Naming = field(default_factory=Naming)
    listed: Listed = field(default_factory=Listed)
    states: tuple[tuple[str, Phase], ...] = ()
    exit_code_reliable: bool = False
    stopping: Stopping = field(default_factory=Stopping)
    preempt_notice_s: float | None = None
    time_to_live: bool = False
    price_echo: PriceEcho = PriceEcho.NOWHERE
    rate_limits: tuple[RateLimit, ...] = ()
    error_table: tuple[ErrorRule, ...] = ()
    two_phase_create: bool = False
    logs: LogKeeping = field(default_factory=LogKeeping)
    simulated: bool = False
    bills_until_release: bool = False
    outputs_are_files: bool = False

    def phase(self, native: str) -> Phase:
        """Our phase for the provider's word; a word that is not listed is ``UNKNOWN``."""
        return dict(self.states).get(native, Phase.UNKNOWN)

    def error_kind(self, status: int, text: str) -> ErrorKind:
        """What a failed call means; what no rule fits may have been carried out."""
        rule = self._rule(status, text)
        return ErrorKind.OUTCOME_UNKNOWN if rule is None else rule.kind

    def knows(self, status: int, text: str) -> bool:
        """Does any rule of the error table fit?"""
        return self._rule(status, text) is not None

    def _rule(self, status: int, text: str) -> ErrorRule | None:
        for rule in self.error_table:
            if rule.status in (None, status) and rule.marker in text:
                return rule
        return None
