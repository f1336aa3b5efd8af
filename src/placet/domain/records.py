"""The durable account: workloads, attempts, intents, events, artifacts. Every write to them is a ``Transition``."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from placet.domain.allocations import Handle, LogSeal, Usage
from placet.domain.budgets import Charge
from placet.domain.decisions import Decision
from placet.domain.failures import Failure
from placet.domain.forecasts import Forecast
from placet.domain.spec import Spec
from placet.domain.states import (
    ATTEMPT_FINAL,
    WORKLOAD_FINAL,
    AttemptState,
    DeliveryState,
    Desired,
    IntentState,
    IntentVerb,
    WorkloadState,
)

# What ``Workload.wait_for`` says when it waits for free capacity; ``Claim.capacity_waiters`` counts those.
WAITS_FOR_CAPACITY = "capacity"


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Who may write the engine's side of a workload; a higher epoch has taken over."""

    owner: str | None = None
    epoch: int = 0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What was asked and where it stands. ``revision`` grows by one with every write of the row.

    ``quoted_usd`` is the bound of the quote that it was submitted with, ``token_id`` the token, empty where that is not
    known.
    """

    id: str
    tenant: str
    spec: Spec
    spec_digest: str
    created_ms: int
    state: WorkloadState
    desired: Desired = Desired.RUN
    revision: int = 0
    lease: Lease = field(default_factory=Lease)
    wake_ms: int | None = None
    state_since_ms: int = 0
    updated_ms: int = 0
    epoch: int = 0
    reason: str = ""
    wait_for: str = ""
    user_failures: int = 0
    infrastructure_failures: int = 0
    excluded_offers: tuple[str, ...] = ()
    compute_done: bool = False
    delivery: DeliveryState = DeliveryState.NONE
    failure: Failure | None = None
    retry_of: str | None = None
    quoted_usd: Decimal | None = None
    token_id: str = ""
    finished_ms: int | None = None

    @property
    def final(self) -> bool:
        return self.state in WORKLOAD_FINAL


@dataclass(frozen=True, kw_only=True)
class PlacementNote:
    """Why an attempt runs where it runs, kept for ever.

    ``kind`` is what equal workloads share. It, ``gpu_model`` and ``capacity_type`` are empty where nobody noted them;
    ``memory_bytes`` is how much was asked for, ``resumes`` that a later attempt may go on from a checkpoint.
    ``gpu_count`` is the number of GPUs, ``gpu_asked_bytes`` what was asked of each, ``gpu_device_bytes`` what each has.
    ``billing_quantum_s`` and ``minimum_charge_usd`` are what its cost is counted by beside the price.
    ``reserved_usd`` is the most that the attempt was taken to cost.
    ``forecast`` is what was expected of the workload, noted for its first attempt. ``simulated``: it was not real.
    """

    offer_id: str
    provider: str
    region: str
    price_usd_per_hour: Decimal
    expected_cost_usd: Decimal
    parts: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()
    reasons: tuple[str, ...] = ()
    gpu_model: str = ""
    capacity_type: str = ""
    kind: str = ""
    memory_bytes: int | None = None
    gpu_count: int = 0
    gpu_asked_bytes: int | None = None
    gpu_device_bytes: int | None = None
    resumes: bool = False
    billing_quantum_s: int = 1
    minimum_charge_usd: Decimal = Decimal(0)
    reserved_usd: Decimal = Decimal(0)
    forecast: Forecast | None = None
    simulated: bool = False


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try. ``key`` is its deterministic name at the provider; ``nonce`` makes the name ours alone.

    ``cost_usd`` is known when it is over; ``wasted_usd`` is that of one that did not compute. ``unseen_since_ms`` is
    the first look in vain since it was last seen; ``given_up_by`` says who went on without knowing what became of it.
    """

    workload_id: str
    epoch: int
    state: AttemptState
    key: str
    nonce: str
    provider: str
    placement: PlacementNote
    desired: Desired = Desired.RUN
    handle: Handle | None = None
    created_ms: int = 0
    submitted_ms: int | None = None
    permit_ms: int | None = None
    started_ms: int | None = None
    exited_ms: int | None = None
    finished_ms: int | None = None
    stop_requested_ms: int | None = None
    released_ms: int | None = None
    observed_ms: int | None = None
    absent_reads: int = 0
    absent_since_ms: int | None = None
    unseen_since_ms: int | None = None
    given_up_by: str = ""
    exit_code: int | None = None
    signal: int | None = None
    computed: bool = False
    failure: Failure | None = None
    cost_usd: Decimal = Decimal(0)
    wasted_usd: Decimal = Decimal(0)
    phases_ms: tuple[tuple[str, int], ...] = ()
    logs: tuple[LogSeal, ...] = ()
    usage: Usage = field(default_factory=Usage)
    evidence: tuple[tuple[str, str], ...] = ()

    @property
    def final(self) -> bool:
        return self.state in ATTEMPT_FINAL

    @property
    def cost_at_most(self) -> bool:
        """Is the cost the most it may have been, because nobody knows when it ended?"""
        return self.final and self.exited_ms is None and self.cost_usd > 0


@dataclass(frozen=True, kw_only=True)
class Intent:
    """One provider mutation, committed before its first byte is sent."""

    workload_id: str
    epoch: int
    verb: IntentVerb
    state: IntentState
    sent_ms: int
    sender: str
    settled_ms: int | None = None
    evidence: str = ""


class EventKind(StrEnum):
    """What an event row tells."""

    ACCEPTED = "workload.accepted"
    MOVED = "workload.moved"
    WAITING = "workload.waiting_on"
    DESIRED = "workload.desired"
    ATTEMPT_MOVED = "attempt.moved"
    PERMIT_GRANTED = "attempt.permit_granted"
    PERMIT_REFUSED = "attempt.permit_refused"
    INTENT_SENT = "intent.sent"
    INTENT_SETTLED = "intent.settled"
    OBSERVED = "attempt.observed"
    STOP_TAKEN = "attempt.stop_taken"
    LATE_FACT = "attempt.late_fact"
    UNREACHABLE = "attempt.unreachable"
    RETURNED = "attempt.returned"
    GIVEN_UP = "attempt.given_up"
    BUDGET = "workload.budget"
    OUTPUTS = "delivery.outputs"
    RESULT = "workload.result"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the append-only account; ``seq`` is given by the store and orders all events of a deployment."""

    workload_id: str
    kind: EventKind
    at_ms: int
    actor: str
    epoch: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    cause: str | None = None
    message: str = ""
    data: tuple[tuple[str, str], ...] = ()
    seq: int = 0


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One delivered output; ``location`` is the artifact store's own address and never leaves the server."""

    workload_id: str
    epoch: int
    name: str
    path: str
    size_bytes: int
    sha256: str
    location: str
    media_type: str = "application/octet-stream"
    created_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """A workload with everything a decision about it needs: all its attempts by epoch, and its unsettled intents."""

    workload: Workload
    attempts: tuple[Attempt, ...] = ()
    intents: tuple[Intent, ...] = ()

    @property
    def current(self) -> Attempt | None:
        """The attempt of the workload's epoch, if any was ever intended."""
        if self.attempts and self.attempts[-1].epoch == self.workload.epoch:
            return self.attempts[-1]
        return None


@dataclass(frozen=True, kw_only=True)
class Expect:
    """What a write expects to find; anything else leaves the store unchanged.

    ``lease`` is ``None`` for writes that come from the front door, which do not hold the lease.
    """

    revision: int
    state: WorkloadState
    lease: Lease | None


@dataclass(frozen=True, kw_only=True)
class Transition:
    """One atomic change of one workload: rows, and the events that tell of it, together or not at all.

    ``workload`` is the row as it shall be (its ``revision`` is ``expect.revision + 1``). ``attempts`` and ``intents``
    are upserts by (workload, epoch) and (workload, epoch, verb). ``decisions`` say why its new attempts run where they
    do. ``charges`` are what its attempts change of what counts against budgets: one that is guarded and beyond its
    budget keeps everything from being written. ``result`` is the final document, written once.
    ``flush`` asks that the change survive a power cut before the caller hears of it.
    """

    expect: Expect
    workload: Workload
    attempts: tuple[Attempt, ...] = ()
    intents: tuple[Intent, ...] = ()
    events: tuple[Event, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    decisions: tuple[Decision, ...] = ()
    charges: tuple[Charge, ...] = ()
    result: str | None = None
    flush: bool = False


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """A workload to be accepted, with the key under which the same request is the same workload."""

    workload: Workload
    event: Event
    key: str | None
    body_digest: str


class AcceptOutcome(StrEnum):
    """What became of a request to accept."""

    CREATED = "created"
    EXISTED = "existed"
    CONFLICT = "conflict"


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """``workload_id`` is the new or the earlier workload; on ``CONFLICT`` nothing was done."""

    outcome: AcceptOutcome
    workload_id: str


@dataclass(frozen=True, kw_only=True)
class Token:
    """A credential; only the digest of its secret is kept."""

    id: str
    digest: str
    name: str
    tenant: str
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None
    last_used_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class WorkloadFilter:
    """Which workloads a list shows, newest first; ``before`` is the id after which the page starts."""

    tenant: str
    states: tuple[WorkloadState, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name: str | None = None
    before: str | None = None
    limit: int = 50
