"""From the domain to the contract, and nothing else. What is not mapped here does not leave the server."""

from collections.abc import Callable, Sequence
from urllib.parse import quote

from placet.contract import api
from placet.contract.canonical import spec_digest as spec_digest
from placet.contract.render import render as render
from placet.contract.tokens import TokenView
from placet.domain.account import Account
from placet.domain.failures import MEANINGS, Failure
from placet.domain.offers import Demand, Drop, Offer, Plan, Ranked
from placet.domain.problems import Problem
from placet.domain.records import Artifact, Attempt, Event, PlacementNote, Record, Token, Workload
from placet.domain.units import format_instant as format_instant
from placet.engine.intake import Estimate, Sized, StopOutcome
from placet.server import forecasts
from placet.server.forecasts import money as money
from placet.stages.billing import price_usd_per_hour
from placet.stages.disk import DiskEstimate
from placet.stages.ledger import spent_so_far_usd
from placet.stages.memory.splitting import USUAL_MEMORIES_BYTES, smallest_split
from placet.stages.memory.values import MemoryEstimate, Part, Span, total
from placet.stages.stopping import Stop, stop_of


def stop(held: Stop | None) -> api.StopView | None:
    """How far a stop has come."""
    if held is None:
        return None
    return api.StopView(
        stage=held.stage.value,
        requested_at=format_instant(held.requested_ms),
        still_usd_per_hour=money(held.usd_per_hour),
    )


def workload(
    record: Record, *, warnings: Sequence[Problem] = (), existed: bool = False, now_ms: int | None = None
) -> api.WorkloadView:
    """A workload with everything about it."""
    held = record.workload
    return api.WorkloadView.model_validate(
        {
            **_summary(held, simulated=any(one.placement.simulated for one in record.attempts)),
            "spec": render(held.spec),
            "spec_digest": held.spec_digest,
            "failure": failure(held.failure),
            "attempt_list": [attempt(one, now_ms=now_ms) for one in record.attempts],
            "stop": None if now_ms is None else stop(stop_of(record, now_ms)),
            "warnings": [problem(warning) for warning in warnings],
            "existed": existed,
        }
    )


def summary(held: Workload, *, simulated: bool = False) -> api.WorkloadSummary:
    """One line of a list."""
    return api.WorkloadSummary.model_validate(_summary(held, simulated=simulated))


def _summary(held: Workload, *, simulated: bool) -> dict[str, object]:
    return {
        "id": held.id,
        "name": held.spec.name,
        "state": held.state.value,
        "desired": held.desired.value,
        "final": held.final,
        "reason": held.reason,
        "created_at": format_instant(held.created_ms),
        "state_since": format_instant(held.state_since_ms),
        "finished_at": instant(held.finished_ms),
        "attempts": held.epoch,
        "compute_done": held.compute_done,
        "delivery": held.delivery.value,
        "cause": None if held.failure is None else held.failure.cause.value,
        "labels": dict(held.spec.labels),
        "retry_of": held.retry_of,
        "simulated": simulated,
        "quoted_usd": None if held.quoted_usd is None else money(held.quoted_usd),
    }


def attempt(held: Attempt, *, now_ms: int | None = None) -> api.AttemptView:
    """One try; with ``now_ms``, what it has cost and how long it has lasted until then if it is not over."""
    live_ms = None if held.final else now_ms
    return api.AttemptView(
        epoch=held.epoch,
        state=held.state.value,
        desired=held.desired.value,
        provider=held.provider,
        placement=placement(held.placement),
        created_at=format_instant(held.created_ms),
        submitted_at=instant(held.submitted_ms),
        permitted_at=instant(held.permit_ms),
        started_at=instant(held.started_ms),
        exited_at=instant(held.exited_ms),
        finished_at=instant(held.finished_ms),
        observed_at=instant(held.observed_ms),
        exit_code=held.exit_code,
        signal=held.signal,
        computed=held.computed,
        failure=failure(held.failure),
        cost_usd=money(held.cost_usd if live_ms is None else spent_so_far_usd(held, live_ms)),
        price_usd_per_hour=money(price_usd_per_hour(held)),
        live_ms=None if live_ms is None else max(live_ms - (held.submitted_ms or held.created_ms), 0),
        cost_at_most=held.cost_at_most,
        wasted_usd=money(held.wasted_usd),
        phases_ms=dict(held.phases_ms),
        usage=api.UsageView(
            cpu_s=held.usage.cpu_s,
            peak_memory_bytes=held.usage.peak_memory_bytes,
            disk_bytes=held.usage.disk_bytes,
            gpu_peak_bytes=held.usage.gpu_peak_bytes,
        ),
        logs=[
            api.LogSealView(
                epoch=held.epoch,
                stream=seal.stream,
                bytes_total=seal.bytes_total,
                bytes_kept=seal.bytes_kept,
                gaps=[list(gap) for gap in seal.gaps],
            )
            for seal in held.logs
        ],
    )


def placement(note: PlacementNote) -> api.PlacementView:
    """Why an attempt runs where it runs."""
    return api.PlacementView(
        provider=note.provider,
        offer=note.offer_id,
        region=note.region,
        price_usd_per_hour=money(note.price_usd_per_hour),
        expected_cost_usd=money(note.expected_cost_usd),
        score=dict(note.parts),
        dropped=dict(note.dropped),
        why=list(note.reasons),
        forecast=None if note.forecast is None else forecasts.forecast(note.forecast),
        simulated=note.simulated,
    )


def failure(held: Failure | None) -> api.FailureView | None:
    """A failure with what it means for the next step."""
    if held is None:
        return None
    meaning = MEANINGS[held.cause]
    return api.FailureView(
        cause=api.CauseView(
            code=held.cause.value,
            failure_class=meaning.failure_class.value,
            fault=meaning.fault.value,
            retry=meaning.retry.value,
            money_spent=meaning.money.value,
            where=meaning.where.value,
            exit_code=held.exit_code,
            signal=held.signal,
            evidence=dict(held.evidence),
        ),
        message=held.message,
        fix=meaning.fix,
    )


def problem(held: Problem) -> api.ProblemView:
    """One mistake."""
    return api.ProblemView(code=held.code, field=held.field, what=held.what, why=held.why, fix=held.fix, line=held.line)


def event(held: Event) -> api.EventView:
    """One line of the account."""
    return api.EventView(
        seq=held.seq,
        at=format_instant(held.at_ms),
        kind=held.kind.value,
        actor=held.actor,
        epoch=held.epoch,
        from_state=held.from_state,
        to_state=held.to_state,
        cause=held.cause,
        message=held.message,
        data=dict(held.data),
    )


def artifact(held: Artifact) -> api.ArtifactView:
    """One output, with the address of its bytes."""
    return api.ArtifactView(
        name=held.name,
        path=held.path,
        epoch=held.epoch,
        size_bytes=held.size_bytes,
        sha256=held.sha256,
        media_type=held.media_type,
        created_at=format_instant(held.created_ms),
        href=f"/v1/workloads/{held.workload_id}/artifacts/{quote(held.path)}?epoch={held.epoch}",
    )


def offer(held: Offer, *, stale: bool = False) -> api.OfferView:
    """One way to run."""
    gpu = held.gpu
    availability_ms = held.availability_ms or (held.observed_ms if held.connected else 0)
    return api.OfferView(
        id=held.id,
        provider=held.provider,
        region=held.region,
        jurisdiction=held.jurisdiction,
        compliance=list(held.compliance),
        runtimes=list(held.runtimes),
        capacity_type=held.capacity_type.value,
        cpu_cores=str(held.cpu_cores),
        memory_bytes=held.memory_bytes,
        disk_bytes=held.disk_bytes,
        gpu=None
        if gpu is None
        else api.GpuView(
            model=gpu.model,
            count=gpu.count,
            memory_bytes=gpu.memory_bytes,
            architecture=gpu.architecture,
            interconnect=gpu.interconnect,
            compute_capability=gpu.compute_capability,
            features=list(gpu.features),
            driver_version=gpu.driver_version,
            cuda_version=gpu.cuda_version,
        ),
        nodes_max=held.nodes_max,
        price_usd_per_hour=money(held.price_usd_per_hour),
        minimum_charge_usd=money(held.minimum_charge_usd),
        billing_quantum_s=held.billing_quantum_s,
        startup_s=str(held.startup_s),
        startup_p90_s=None if held.startup_p90_s is None else str(held.startup_p90_s),
        availability=held.availability.value,
        availability_at=instant(availability_ms or None),
        observed_at=instant(held.observed_ms or None),
        preemptible=held.preemptible,
        connected=held.connected,
        trust=held.trust.value,
        price_source=held.price_source,
        priced_at=instant(held.priced_ms or held.observed_ms or None),
        stale=stale,
        simulated=held.simulated,
    )


def estimate(
    held: Estimate, warnings: Sequence[Problem], spec_digest: str, stale: Callable[[Offer], bool]
) -> api.EstimateView:
    """What would happen."""
    expected, from_ms = held.forecast, held.at_ms if held.now else None
    return api.EstimateView(
        accepted=not held.problems,
        demand=demand(held.demand),
        plan=plan(held.plan),
        listed=[ranked(one, stale=stale(one.offer)) for one in held.listed],
        cost_usd=forecasts.interval(held.cost_usd),
        forecast=None if expected is None else forecasts.forecast(expected),
        now=held.now,
        starts_at=None if expected is None else forecasts.moments(from_ms, expected.start_s),
        finishes_at=None if expected is None else forecasts.moments(from_ms, expected.finish_s),
        quote=None if held.quote is None else forecasts.quote(held.quote),
        assumptions=list(held.assumptions),
        problems=[problem(one) for one in held.problems],
        relaxations=[forecasts.relaxation(one) for one in held.relaxations],
        warnings=[problem(one) for one in (*warnings, *held.doubts)],
        spec_digest=spec_digest,
    )


def size(sized: Sized) -> api.SizeView:
    """The memory that a model needs, how many GPUs of the usual sizes would hold it, and the disk of the spec."""
    held, measured = sized.estimate, sized.measured
    disk = None if sized.disk is None else _disk(sized.disk)
    if held is None:
        return api.SizeView(
            model="", model_source="", task="", gpu_count=0, bytes=_span(total(())), recommended_bytes=0, disk=disk
        )
    return api.SizeView(
        model=held.architecture.name,
        model_source=held.architecture.source,
        task=held.use.value,
        gpu_count=held.gpu_count,
        bytes=_span(held.size),
        recommended_bytes=sized.recommended_bytes,
        measured=None
        if measured is None
        else api.MeasuredView(peak_bytes=measured.peak_bytes, attempts=measured.attempts, why=measured.why),
        parts=_parts(held.parts),
        assumptions=list(held.assumptions),
        splits=[_split(held, memory_bytes) for memory_bytes in USUAL_MEMORIES_BYTES],
        disk=disk,
    )


def _disk(held: DiskEstimate) -> api.DiskView:
    return api.DiskView(bytes=_span(held.size), recommended_bytes=held.recommended_bytes, parts=_parts(held.parts))


def _parts(parts: Sequence[Part]) -> list[api.MemoryPartView]:
    return [api.MemoryPartView(name=part.name, bytes=_span(part.size), why=part.why) for part in parts]


def _split(held: MemoryEstimate, memory_bytes: int) -> api.SplitView:
    found = smallest_split(held, memory_bytes)
    return api.SplitView(
        gpu_memory_bytes=memory_bytes,
        gpu_count=None if found is None else found.gpu_count,
        bytes=None if found is None else _span(found.estimate.size),
    )


def _span(held: Span) -> api.SpanView:
    return api.SpanView(low=held.low, likely=held.likely, high=held.high)


def demand(held: Demand) -> api.DemandView:
    """What was derived from a spec."""
    return api.DemandView(
        gpu_count=held.gpu_count,
        gpu_memory_bytes=held.gpu_memory_bytes,
        cpu_cores=None if held.cpu_cores is None else str(held.cpu_cores),
        memory_bytes=held.memory_bytes,
        disk_bytes=held.disk_bytes,
        nodes=held.nodes,
        runtime_s=forecasts.interval(held.runtime_s),
        disk=None
        if held.disk is None
        else api.SpanView(low=int(held.disk.low), likely=int(held.disk.likely), high=int(held.disk.high)),
        reasons=list(held.reasons),
    )


def plan(held: Plan) -> api.PlanView:
    """Ranked offers and why others were dropped."""
    return api.PlanView(
        fate=held.fate.value,
        reason=held.reason,
        ranked=[ranked(one) for one in held.ranked],
        drops=[drop(one) for one in held.drops],
        drop_counts=dict(held.drop_counts),
        relaxed=list(held.relaxed),
    )


def ranked(held: Ranked, *, stale: bool = False) -> api.RankedView:
    """An offer that fits."""
    return api.RankedView(
        offer=offer(held.offer, stale=stale),
        cost_usd=forecasts.bracket(held.cost_usd),
        score=str(held.score),
        parts=dict(held.parts),
    )


def drop(held: Drop) -> api.DropView:
    """An offer that does not fit."""
    return api.DropView(
        offer_id=held.offer_id,
        filter=held.verdict.filter,
        fate=held.verdict.fate.value,
        reason=held.verdict.reason,
    )


def account(held: Account) -> api.AccountView:
    """The nine answers."""
    return api.AccountView(
        workload_id=held.workload_id,
        at=format_instant(held.at_ms),
        answers=[
            api.AnswerView(
                question=answer.question.value,
                answer=answer.answer.value,
                why=answer.why,
                events=list(answer.events),
                age_ms=answer.age_ms,
                source=answer.source,
            )
            for answer in held.answers
        ],
        advice=held.advice.value,
        advice_why=held.advice_why,
        check_again_at=instant(held.check_again_ms),
    )


def cancelled(held: StopOutcome) -> api.CancelView:
    """What a cancel did."""
    return api.CancelView(workload=summary(held.workload), changed=held.changed, already_final=held.already_final)


def token(held: Token) -> TokenView:
    """A credential without its secret."""
    return TokenView(
        id=held.id,
        name=held.name,
        tenant=held.tenant,
        scopes=list(held.scopes),
        created_at=format_instant(held.created_ms),
        expires_at=instant(held.expires_ms),
        revoked_at=instant(held.revoked_ms),
        last_used_at=instant(held.last_used_ms),
    )


def instant(at_ms: int | None) -> str | None:
    """A time, if there is one."""
    return None if at_ms is None else format_instant(at_ms)
