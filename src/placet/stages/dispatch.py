"""From a plan to one intended attempt: its name, its mark, its intent, and what the provider will be told."""

from dataclasses import dataclass
from decimal import ROUND_UP

from placet.domain.allocations import Launch, ResolvedInput, Tag
from placet.domain.offers import Demand, Plan
from placet.domain.records import Attempt, Event, EventKind, Intent, PlacementNote, Workload
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, IntentState, IntentVerb
from placet.stages.billing import MICRO
from placet.stages.costs import worst_usd
from placet.stages.forecast import forecast, grounds


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """The rows to commit before anything is sent, and the launch to send after."""

    attempt: Attempt
    intent: Intent
    launch: Launch
    events: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Who dispatches: the deployment whose mark the allocation will bear, and the worker that sends."""

    deployment: str
    worker: str
    nonce: str


def attempt_key(deployment: str, workload_id: str, epoch: int) -> str:
    """The deterministic name of an attempt at its provider: at most 63 characters of ``a-z0-9-``."""
    return f"placet-{deployment[:8]}-{workload_id.removeprefix('wl_')}-{epoch}"


def workload_of(key: str) -> str | None:
    """The workload that an attempt's name was made for; ``None`` when it is no such name."""
    parts = key.split("-")
    return f"wl_{parts[2]}" if len(parts) == 4 and parts[0] == "placet" else None


def dispatch(
    workload: Workload, demand: Demand, plan: Plan, inputs: tuple[ResolvedInput, ...], sender: Sender, now_ms: int
) -> Dispatch:
    """The next attempt on the plan's best offer."""
    epoch = workload.epoch + 1
    best = plan.ranked[0]
    key = attempt_key(sender.deployment, workload.id, epoch)
    note = PlacementNote(
        offer_id=best.offer.id,
        provider=best.offer.provider,
        region=best.offer.region,
        price_usd_per_hour=best.offer.price_usd_per_hour,
        expected_cost_usd=best.cost_usd.likely,
        parts=best.parts,
        dropped=plan.drop_counts,
        reasons=grounds(best, demand),
        gpu_model=best.offer.gpu.model if best.offer.gpu else "",
        capacity_type=str(best.offer.capacity_type),
        kind=demand.kind,
        memory_bytes=demand.memory_bytes,
        gpu_count=demand.gpu_count,
        gpu_asked_bytes=demand.gpu_memory_bytes,
        gpu_device_bytes=best.offer.gpu.memory_bytes if best.offer.gpu else None,
        billing_quantum_s=best.offer.billing_quantum_s,
        minimum_charge_usd=best.offer.minimum_charge_usd,
        reserved_usd=worst_usd(demand, best.offer).quantize(MICRO, rounding=ROUND_UP),
        simulated=best.offer.simulated,
        resumes=workload.spec.repeat is Repeat.RESUMABLE or workload.spec.checkpoints is not None,
        forecast=forecast(best, demand, workload.spec.repeat) if epoch == 1 else None,
    )
    attempt = Attempt(
        workload_id=workload.id,
        epoch=epoch,
        state=AttemptState.INTENDED,
        key=key,
        nonce=sender.nonce,
        provider=best.offer.provider,
        placement=note,
        created_ms=now_ms,
    )
    intent = Intent(
        workload_id=workload.id,
        epoch=epoch,
        verb=IntentVerb.SUBMIT,
        state=IntentState.SENT,
        sent_ms=now_ms,
        sender=sender.worker,
    )
    event = Event(
        workload_id=workload.id,
        kind=EventKind.INTENT_SENT,
        at_ms=now_ms,
        actor=sender.worker,
        epoch=epoch,
        to_state=str(attempt.state),
        message=f"{IntentVerb.SUBMIT} to {note.offer_id}" + (f"; {demand.raised}" if demand.raised else ""),
        data=(("key", key), ("offer", note.offer_id), ("price_usd_per_hour", str(note.price_usd_per_hour))),
    )
    launch = Launch(
        key=key,
        tag=Tag(deployment=sender.deployment, workload_id=workload.id, epoch=epoch, nonce=sender.nonce),
        offer=best.offer,
        spec=workload.spec,
        demand=demand,
        inputs=inputs,
        start_within_s=workload.spec.constraints.start_within_s,
        runtime_s=workload.spec.constraints.runtime_s,
    )
    return Dispatch(attempt=attempt, intent=intent, launch=launch, events=(event,))
