"""Small true values for the store's suite: workloads that wait, attempts that ran, and the writes between them."""

from dataclasses import replace
from decimal import Decimal

from placet.domain.allocations import Handle, LogSeal, Usage
from placet.domain.blocks import Block, Scope, Streak
from placet.domain.decisions import Choice, Decision, Known
from placet.domain.experience import Level, Tally
from placet.domain.failures import Cause, Failure
from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.offers import Demand, Gpu, Interval, Offer
from placet.domain.quotes import Quoted
from placet.domain.records import (
    Acceptance,
    Artifact,
    Attempt,
    Event,
    EventKind,
    Expect,
    Intent,
    Lease,
    PlacementNote,
    Record,
    Transition,
    Workload,
)
from placet.domain.spec import (
    Constraints,
    Input,
    InputKind,
    Output,
    Resources,
    RetryPolicy,
    Runtime,
    RuntimeKind,
    Selection,
    Spec,
)
from placet.domain.states import (
    AttemptState,
    DeliveryState,
    Desired,
    IntentState,
    IntentVerb,
    WorkloadState,
)
from placet.ports.store import Claim, Store

NOW_MS = 1_800_000_000_000
TENANT = "acme"
WORKER = "worker-1"
TIMEOUT_MS = 30_000

PLACEMENT = PlacementNote(
    offer_id="here:cpu",
    provider="here",
    region="",
    price_usd_per_hour=Decimal("0.10"),
    expected_cost_usd=Decimal("0.000123456789"),
    parts=(("cost", "0.1"),),
    dropped=(("memory", 2),),
    reasons=("cheapest that fits",),
    gpu_count=2,
    gpu_asked_bytes=2**33,
    gpu_device_bytes=2**35,
    forecast=Forecast(
        cost_usd=Quantiles(p10=Decimal("0.000001"), p50=Decimal("0.10"), p90=Decimal(7)),
        start_s=Quantiles(p10=Decimal(0), p50=Decimal("0.125"), p90=Decimal(60)),
        run_s=Quantiles(p10=Decimal(1), p50=Decimal(2), p90=Decimal(3)),
        finish_s=Quantiles(p10=Decimal(4), p50=Decimal(5), p90=Decimal("6.5")),
        run_assumed=True,
        machine="spot 8xH100",
    ),
)

RICH_SPEC = Spec(
    name="näme ✓",
    runtime=Runtime(kind=RuntimeKind.PROCESS, command=("python", "-c", 'print("\\n\u2028")'), entrypoint=()),
    resources=Resources(cpu_cores=Decimal("0.50"), memory_bytes=2**40, gpu_models=("a", "b")),
    constraints=Constraints(cost_usd=Decimal("10.00"), providers=Selection(denied=("x",)), deadline_ms=NOW_MS),
    inputs=(Input(name="data", kind=InputKind.TEXT, source="a\tb\x00c"),),
    outputs=(Output(name="out", path="out.jsonl", required=False),),
    environment=(("A", "1"), ("B", "")),
    retry=RetryPolicy(by_class=(("capacity", 9),), backoff_s=Decimal("0.1")),
    labels=(("team", "red"), ("weird", "'; --")),
)


def plain_spec(name: str | None = None, labels: tuple[tuple[str, str], ...] = ()) -> Spec:
    return Spec(name=name, labels=labels, runtime=Runtime(kind=RuntimeKind.PROCESS, command=("true",)))


def new_workload(
    number: int, *, tenant: str = TENANT, spec: Spec | None = None, wake_ms: int | None = NOW_MS
) -> Workload:
    """The ``number``-th workload: ids sort by number."""
    return Workload(
        id=f"wl_{number:029d}",
        tenant=tenant,
        spec=spec or plain_spec(),
        spec_digest=f"digest-{number}",
        created_ms=NOW_MS + number,
        state=WorkloadState.ACCEPTED,
        wake_ms=wake_ms,
        state_since_ms=NOW_MS,
        updated_ms=NOW_MS,
    )


def event_of(workload: Workload, kind: EventKind = EventKind.MOVED, message: str = "") -> Event:
    return Event(workload_id=workload.id, kind=kind, at_ms=NOW_MS, actor=WORKER, message=message)


def acceptance_of(workload: Workload, key: str | None = None, digest: str = "body") -> Acceptance:
    return Acceptance(workload=workload, event=event_of(workload, EventKind.ACCEPTED), key=key, body_digest=digest)


def transition_to(
    workload: Workload,
    state: WorkloadState,
    *,
    front_door: bool = False,
    message: str = "",
    wake_ms: int | None = None,
) -> Transition:
    """The plain move of what was read; a final state finishes it and gives up the lease."""
    final = replace(workload, state=state).final
    moved = replace(
        workload,
        state=state,
        revision=workload.revision + 1,
        wake_ms=wake_ms,
        finished_ms=NOW_MS + 9 if final else None,
        lease=replace(workload.lease, owner=None) if final else workload.lease,
    )
    return Transition(
        expect=Expect(revision=workload.revision, state=workload.state, lease=None if front_door else workload.lease),
        workload=moved,
        events=(event_of(workload, message=message),),
    )


def new_attempt(workload: Workload, epoch: int = 1, state: AttemptState = AttemptState.INTENDED) -> Attempt:
    return Attempt(
        workload_id=workload.id,
        epoch=epoch,
        state=state,
        key=f"placet-{workload.id}-{epoch}",
        nonce=f"nonce-{epoch}",
        provider="here",
        placement=PLACEMENT,
        created_ms=NOW_MS,
    )


def rich_attempt(workload: Workload) -> Attempt:
    """Every field differs from its default."""
    attempt = new_attempt(workload)
    return replace(
        attempt,
        state=AttemptState.COLLECTED,
        desired=Desired.STOP,
        handle=Handle(provider="here", key=attempt.key, native_id="42", created_ms=1, place="cell"),
        submitted_ms=1,
        permit_ms=2,
        started_ms=3,
        exited_ms=4,
        finished_ms=5,
        stop_requested_ms=6,
        released_ms=7,
        observed_ms=8,
        absent_reads=9,
        absent_since_ms=10,
        unseen_since_ms=11,
        given_up_by="token:1",
        exit_code=137,
        signal=9,
        computed=True,
        failure=Failure(cause=Cause.KILLED, message="…", exit_code=137, evidence=(("a", "b"),)),
        cost_usd=Decimal("0.100000000000000000001"),
        wasted_usd=Decimal("1E-9"),
        phases_ms=(("install", 12), ("run", 2**53)),
        logs=(LogSeal(stream="stdout", bytes_total=10, bytes_kept=8, gaps=((1, 2),)),),
        usage=Usage(cpu_s=0.25, peak_memory_bytes=2**40, disk_bytes=0, gpu_peak_bytes=2**34),
        evidence=(("source", "runner"),),
    )


def rich_decision(workload: Workload) -> Decision:
    """Every field differs from its default."""
    cost = Interval(low=Decimal(0), likely=Decimal("0.1"), high=Decimal("1E+2"), reason="…")
    gpu = Gpu(model="L4", count=1, memory_bytes=24 * 10**9, features=("fp8",), driver_version="550.54")
    offer = Offer(id="a", provider="here", gpu=gpu, startup_p90_s=Decimal("1.5"), reliability=0.1 + 0.2)
    tally = Tally(at_ms=NOW_MS, starts=0.1 + 0.2, failed_starts=1e-9, log_startup=-3.5, hours=2.0, losses=1.0)
    streak = Streak(
        scope=Scope.OFFER, provider="here", region="r", offer_id="a", cause=Cause.LOST, events=3, last_ms=NOW_MS,
        workload_id=workload.id, epoch=1,
    )  # fmt: skip
    return Decision(
        workload_id=workload.id,
        epoch=1,
        at_ms=NOW_MS,
        seed=workload.id,
        demand=Demand(cpu_cores=Decimal("0.5"), runtime_s=cost, reasons=("a", "b"), kind="k"),
        excluded=("b",),
        spent_usd=Decimal("0.25"),
        quoted=Quoted(bound_usd=Decimal("4.33"), left_usd=Decimal("4.08"), done_s=60.0),
        budget_usd=Decimal("-0.5"),
        known=(Known(level=Level.PLACE, group="here\n\nL4\non_demand", tally=tally),),
        blocks=(Block(streak=streak, until_ms=NOW_MS + 1),),
        exploration=0.05,
        snapshot="aa",
        considered=7,
        whole=False,
        offers=(offer,),
        ranked=(Choice(offer_id="a", cost_usd=cost, score=Decimal("0.1"), parts=(("cost", "0.1"),)),),
        drop_counts=(("cpu", 6),),
    )


def new_intent(
    workload: Workload, epoch: int = 1, verb: IntentVerb = IntentVerb.SUBMIT, state: IntentState = IntentState.SENT
) -> Intent:
    return Intent(workload_id=workload.id, epoch=epoch, verb=verb, state=state, sent_ms=NOW_MS, sender=WORKER)


def new_artifact(workload: Workload, path: str = "out.jsonl", epoch: int = 1, sha256: str = "aa") -> Artifact:
    return Artifact(
        workload_id=workload.id, epoch=epoch, name="out", path=path, size_bytes=3, sha256=sha256, location=f"at/{path}"
    )


def rich_workload(number: int) -> Workload:
    """Every field of what is written back differs from its default."""
    return replace(
        new_workload(number, spec=RICH_SPEC),
        desired=Desired.STOP,
        lease=Lease(owner=None, epoch=3),
        epoch=2,
        reason="waits for „capacity“",
        wait_for="capacity",
        user_failures=1,
        infrastructure_failures=2,
        excluded_offers=("a", "b"),
        compute_done=True,
        delivery=DeliveryState.PARTIAL,
        failure=Failure(cause=Cause.EXIT_CODE, message="exit 3", exit_code=3, signal=None),
        retry_of="wl_before",
        quoted_usd=Decimal("4.330001"),
        token_id="t1",  # noqa: S106 - a public id
    )


async def accepted(store: Store, *numbers: int) -> list[Workload]:
    workloads = [new_workload(number) for number in numbers]
    for workload in workloads:
        await store.accept(acceptance_of(workload))
    return workloads


async def claimed(
    store: Store,
    *,
    owner: str = WORKER,
    now_ms: int = NOW_MS,
    limit: int = 100,
    capacity_waiters: int = 0,
    waiters_after: str = "",
) -> list[Record]:
    wanted = Claim(
        owner=owner,
        now_ms=now_ms,
        limit=limit,
        owner_timeout_ms=TIMEOUT_MS,
        capacity_waiters=capacity_waiters,
        waiters_after=waiters_after,
    )
    return list(await store.claim(wanted))


async def owned(store: Store, number: int) -> Workload:
    """Accepted and claimed."""
    await accepted(store, number)
    (record,) = await claimed(store)
    return record.workload


async def loaded(store: Store, workload_id: str) -> Record:
    (record,) = await store.load([workload_id])
    return record


async def applied(store: Store, transition: Transition) -> bool:
    (outcome,) = await store.apply([transition])
    return outcome
