"""Rows to domain values and back. Documents are JSON with fields in their declared order: equal values, equal bytes."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from threading import Lock
from typing import Final, TypeAlias, TypeVar

import msgspec

from placet.domain.allocations import Handle, LogSeal, Usage
from placet.domain.budgets import MICRO, Budget, Budgeted, Charge, Holder, Spending, micro
from placet.domain.decisions import Decision
from placet.domain.failures import Failure
from placet.domain.lessons import Ended, GpuUse
from placet.domain.orphans import Orphan, OrphanReason
from placet.domain.records import (
    Artifact,
    Attempt,
    Event,
    EventKind,
    Intent,
    Lease,
    PlacementNote,
    Token,
    Workload,
)
from placet.domain.spec import Spec
from placet.domain.states import (
    AttemptState,
    DeliveryState,
    Desired,
    IntentState,
    IntentVerb,
    OrphanState,
    WorkloadState,
)

Value: TypeAlias = str | int | None
Row: TypeAlias = tuple[Value, ...]
Params: TypeAlias = dict[str, Value]

T = TypeVar("T")
Pairs: TypeAlias = tuple[tuple[str, str], ...]

SPECS_KEPT = 512
NO_USAGE: Final = Usage()

_encoder = msgspec.json.Encoder()
_spec = msgspec.json.Decoder(Spec)
_words = msgspec.json.Decoder(tuple[str, ...])
_decision = msgspec.json.Decoder(Decision)
_failure = msgspec.json.Decoder(Failure)
_placement = msgspec.json.Decoder(PlacementNote)
_handle = msgspec.json.Decoder(Handle)
_phases = msgspec.json.Decoder(tuple[tuple[str, int], ...])
_logs = msgspec.json.Decoder(tuple[LogSeal, ...])
_usage = msgspec.json.Decoder(Usage)
_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...])


class SpecCache:
    """Decoded specs by the digest of their document, the latest used kept; any thread may ask."""

    def __init__(self, size: int = SPECS_KEPT) -> None:
        self._size = size
        self._kept: OrderedDict[str, Spec] = OrderedDict()
        self._lock = Lock()

    def get(self, spec_id: str) -> Spec | None:
        with self._lock:
            spec = self._kept.get(spec_id)
            if spec is not None:
                self._kept.move_to_end(spec_id)
            return spec

    def put(self, spec_id: str, spec: Spec) -> None:
        with self._lock:
            self._kept[spec_id] = spec
            self._kept.move_to_end(spec_id)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def decode(self, spec_id: str, body: str) -> Spec:
        spec = self.get(spec_id)
        if spec is None:
            spec = _spec.decode(body)
            self.put(spec_id, spec)
        return spec


def encode(value: object) -> str:
    return _encoder.encode(value).decode()


def optional(value: object) -> str | None:
    """The document of a value that is empty more often than not; nothing for nothing."""
    return encode(value) if value else None


def spec_document(spec: Spec) -> tuple[str, str]:
    """A spec's content address and its document."""
    body = _encoder.encode(spec)
    return hashlib.sha256(body).hexdigest(), body.decode()


def workload_birth(workload: Workload, spec_id: str) -> Params:
    """All columns of a new row."""
    return workload_columns(workload) | {
        "tenant": workload.tenant,
        "spec_id": spec_id,
        "spec_digest": workload.spec_digest,
        "name": workload.spec.name,
        "created_ms": workload.created_ms,
        "retry_of": workload.retry_of,
        "quoted_usd": None if workload.quoted_usd is None else str(workload.quoted_usd),
        "token_id": workload.token_id or None,
    }


def workload_columns(workload: Workload) -> Params:
    """The id and the columns that may change."""
    return {
        "id": workload.id,
        "state": workload.state.value,
        "desired": workload.desired.value,
        "revision": workload.revision,
        "lease_owner": workload.lease.owner,
        "lease_epoch": workload.lease.epoch,
        "wake_ms": workload.wake_ms,
        "state_since_ms": workload.state_since_ms,
        "updated_ms": workload.updated_ms,
        "epoch": workload.epoch,
        "reason": workload.reason,
        "wait_for": workload.wait_for,
        "user_failures": workload.user_failures,
        "infrastructure_failures": workload.infrastructure_failures,
        "excluded_offers": optional(workload.excluded_offers),
        "compute_done": workload.compute_done,
        "delivery": workload.delivery.value,
        "failure": optional(workload.failure),
        "finished_ms": workload.finished_ms,
    }


def workload_from(row: Row, spec: Spec) -> Workload:
    """A workload from the columns of its table in their order."""
    (
        id_, tenant, _, spec_digest, _, created_ms, retry_of, state, desired, revision, lease_owner, lease_epoch,
        wake_ms, state_since_ms, updated_ms, epoch, reason, wait_for, user_failures, infrastructure_failures,
        excluded_offers, compute_done, delivery, failure, finished_ms, quoted_usd, token_id,
    ) = row  # fmt: skip
    return Workload(
        id=text(id_),
        tenant=text(tenant),
        spec=spec,
        spec_digest=text(spec_digest),
        created_ms=number(created_ms),
        state=WorkloadState(text(state)),
        desired=Desired(text(desired)),
        revision=number(revision),
        lease=Lease(owner=perhaps_text(lease_owner), epoch=number(lease_epoch)),
        wake_ms=perhaps_number(wake_ms),
        state_since_ms=number(state_since_ms),
        updated_ms=number(updated_ms),
        epoch=number(epoch),
        reason=text(reason),
        wait_for=text(wait_for),
        user_failures=number(user_failures),
        infrastructure_failures=number(infrastructure_failures),
        excluded_offers=_words.decode(text(excluded_offers)) if excluded_offers else (),
        compute_done=bool(compute_done),
        delivery=DeliveryState(text(delivery)),
        failure=_failure.decode(text(failure)) if failure else None,
        retry_of=perhaps_text(retry_of),
        quoted_usd=None if quoted_usd is None else Decimal(text(quoted_usd)),
        token_id=perhaps_text(token_id) or "",
        finished_ms=perhaps_number(finished_ms),
    )


def attempt_columns(attempt: Attempt) -> Params:
    return {
        "workload_id": attempt.workload_id,
        "epoch": attempt.epoch,
        "state": attempt.state.value,
        "key": attempt.key,
        "nonce": attempt.nonce,
        "provider": attempt.provider,
        "placement": encode(attempt.placement),
        "desired": attempt.desired.value,
        "handle": optional(attempt.handle),
        "created_ms": attempt.created_ms,
        "submitted_ms": attempt.submitted_ms,
        "permit_ms": attempt.permit_ms,
        "started_ms": attempt.started_ms,
        "exited_ms": attempt.exited_ms,
        "finished_ms": attempt.finished_ms,
        "stop_requested_ms": attempt.stop_requested_ms,
        "released_ms": attempt.released_ms,
        "observed_ms": attempt.observed_ms,
        "absent_reads": attempt.absent_reads,
        "absent_since_ms": attempt.absent_since_ms,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "computed": attempt.computed,
        "failure": optional(attempt.failure),
        "cost_usd": str(attempt.cost_usd),
        "wasted_usd": str(attempt.wasted_usd),
        "phases_ms": optional(attempt.phases_ms),
        "logs": optional(attempt.logs),
        "usage": None if attempt.usage == NO_USAGE else encode(attempt.usage),
        "evidence": optional(attempt.evidence),
        "unseen_since_ms": attempt.unseen_since_ms,
        "given_up_by": attempt.given_up_by or None,
    }


def attempt_from(row: Row) -> Attempt:
    (
        workload_id, epoch, state, key, nonce, provider, placement, desired, handle, created_ms, submitted_ms,
        permit_ms, started_ms, exited_ms, finished_ms, stop_requested_ms, released_ms, observed_ms, absent_reads,
        absent_since_ms, exit_code, signal, computed, failure, cost_usd, wasted_usd, phases_ms, logs, usage, evidence,
        unseen_since_ms, given_up_by,
    ) = row  # fmt: skip
    return Attempt(
        workload_id=text(workload_id),
        epoch=number(epoch),
        state=AttemptState(text(state)),
        key=text(key),
        nonce=text(nonce),
        provider=text(provider),
        placement=_placement.decode(text(placement)),
        desired=Desired(text(desired)),
        handle=_handle.decode(text(handle)) if handle else None,
        created_ms=number(created_ms),
        submitted_ms=perhaps_number(submitted_ms),
        permit_ms=perhaps_number(permit_ms),
        started_ms=perhaps_number(started_ms),
        exited_ms=perhaps_number(exited_ms),
        finished_ms=perhaps_number(finished_ms),
        stop_requested_ms=perhaps_number(stop_requested_ms),
        released_ms=perhaps_number(released_ms),
        observed_ms=perhaps_number(observed_ms),
        absent_reads=number(absent_reads),
        absent_since_ms=perhaps_number(absent_since_ms),
        unseen_since_ms=perhaps_number(unseen_since_ms),
        given_up_by=perhaps_text(given_up_by) or "",
        exit_code=perhaps_number(exit_code),
        signal=perhaps_number(signal),
        computed=bool(computed),
        failure=_failure.decode(text(failure)) if failure else None,
        cost_usd=Decimal(text(cost_usd)),
        wasted_usd=Decimal(text(wasted_usd)),
        phases_ms=_phases.decode(text(phases_ms)) if phases_ms else (),
        logs=_logs.decode(text(logs)) if logs else (),
        usage=_usage.decode(text(usage)) if usage else NO_USAGE,
        evidence=_pairs.decode(text(evidence)) if evidence else (),
    )


def ended_from(row: Row) -> Ended:
    """What an attempt taught, from the columns that ``Statements.ended`` reads."""
    (
        tenant, workload_id, epoch, placement, created_ms, finished_ms, permit_ms, started_ms, exited_ms, computed,
        failure, usage,
    ) = row  # fmt: skip
    where = _placement.decode(text(placement))
    used = _usage.decode(text(usage)) if usage else NO_USAGE
    return Ended(
        tenant=text(tenant),
        workload_id=text(workload_id),
        epoch=number(epoch),
        kind=where.kind,
        offer_id=where.offer_id,
        provider=where.provider,
        region=where.region,
        gpu_model=where.gpu_model,
        capacity_type=where.capacity_type,
        created_ms=number(created_ms),
        finished_ms=number(finished_ms),
        permit_ms=perhaps_number(permit_ms),
        started_ms=perhaps_number(started_ms),
        exited_ms=perhaps_number(exited_ms),
        computed=bool(computed),
        cause=_failure.decode(text(failure)).cause if failure else None,
        peak_memory_bytes=used.peak_memory_bytes,
        memory_bytes=where.memory_bytes,
        gpu_use=GpuUse.of(used, where, computed=bool(computed)),
        whole=number(epoch) == 1 or not where.resumes,
        simulated=where.simulated,
    )


def decision_columns(decision: Decision) -> Params:
    return {"workload_id": decision.workload_id, "epoch": decision.epoch, "document": encode(decision)}


def decision_from(row: Row) -> Decision:
    return _decision.decode(text(row[0]))


def intent_columns(intent: Intent) -> Params:
    return {
        "workload_id": intent.workload_id,
        "epoch": intent.epoch,
        "verb": intent.verb.value,
        "state": intent.state.value,
        "sent_ms": intent.sent_ms,
        "sender": intent.sender,
        "settled_ms": intent.settled_ms,
        "evidence": intent.evidence,
    }


def intent_from(row: Row) -> Intent:
    workload_id, epoch, verb, state, sent_ms, sender, settled_ms, evidence = row
    return Intent(
        workload_id=text(workload_id),
        epoch=number(epoch),
        verb=IntentVerb(text(verb)),
        state=IntentState(text(state)),
        sent_ms=number(sent_ms),
        sender=text(sender),
        settled_ms=perhaps_number(settled_ms),
        evidence=text(evidence),
    )


def event_columns(event: Event) -> Params:
    return {
        "workload_id": event.workload_id,
        "kind": event.kind.value,
        "at_ms": event.at_ms,
        "actor": event.actor,
        "epoch": event.epoch,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "cause": event.cause,
        "message": event.message,
        "data": optional(event.data),
    }


def event_from(row: Row) -> Event:
    seq, workload_id, kind, at_ms, actor, epoch, from_state, to_state, cause, message, data = row
    return Event(
        workload_id=text(workload_id),
        kind=EventKind(text(kind)),
        at_ms=number(at_ms),
        actor=text(actor),
        epoch=perhaps_number(epoch),
        from_state=perhaps_text(from_state),
        to_state=perhaps_text(to_state),
        cause=perhaps_text(cause),
        message=text(message),
        data=_pairs.decode(text(data)) if data else (),
        seq=number(seq),
    )


def artifact_columns(artifact: Artifact) -> Params:
    return {
        "workload_id": artifact.workload_id,
        "epoch": artifact.epoch,
        "path": artifact.path,
        "name": artifact.name,
        "size_bytes": artifact.size_bytes,
        "sha256": artifact.sha256,
        "location": artifact.location,
        "media_type": artifact.media_type,
        "created_ms": artifact.created_ms,
    }


def artifact_from(row: Row) -> Artifact:
    workload_id, epoch, path, name, size_bytes, sha256, location, media_type, created_ms = row
    return Artifact(
        workload_id=text(workload_id),
        epoch=number(epoch),
        name=text(name),
        path=text(path),
        size_bytes=number(size_bytes),
        sha256=text(sha256),
        location=text(location),
        media_type=text(media_type),
        created_ms=number(created_ms),
    )


def token_columns(token: Token) -> Params:
    return {
        "id": token.id,
        "digest": token.digest,
        "name": token.name,
        "tenant": token.tenant,
        "scopes": encode(token.scopes),
        "created_ms": token.created_ms,
        "expires_ms": token.expires_ms,
        "revoked_ms": token.revoked_ms,
        "last_used_ms": token.last_used_ms,
    }


def token_from(row: Row) -> Token:
    id_, digest, name, tenant, scopes, created_ms, expires_ms, revoked_ms, last_used_ms = row
    return Token(
        id=text(id_),
        digest=text(digest),
        name=text(name),
        tenant=text(tenant),
        scopes=_words.decode(text(scopes)),
        created_ms=number(created_ms),
        expires_ms=perhaps_number(expires_ms),
        revoked_ms=perhaps_number(revoked_ms),
        last_used_ms=perhaps_number(last_used_ms),
    )


def orphan_columns(orphan: Orphan) -> Params:
    return {
        "id": orphan.id,
        "provider": orphan.handle.provider,
        "handle": encode(orphan.handle),
        "reason": orphan.reason,
        "state": orphan.state,
        "first_seen_ms": orphan.first_seen_ms,
        "last_seen_ms": orphan.last_seen_ms,
        "sightings": orphan.sightings,
        "price_usd_per_hour": None if orphan.price_usd_per_hour is None else str(orphan.price_usd_per_hour),
        "requested_ms": orphan.requested_ms,
        "requested_by": orphan.requested_by,
        "closed_ms": orphan.closed_ms,
        "proof": orphan.proof,
    }


def orphan_from(row: Row) -> Orphan:
    (_, _, handle, reason, state, first_seen_ms, last_seen_ms, sightings, price, requested_ms, requested_by,
     closed_ms, proof) = row  # fmt: skip
    return Orphan(
        handle=_handle.decode(text(handle)),
        reason=OrphanReason(text(reason)),
        state=OrphanState(text(state)),
        first_seen_ms=number(first_seen_ms),
        last_seen_ms=number(last_seen_ms),
        sightings=number(sightings),
        price_usd_per_hour=None if price is None else Decimal(text(price)),
        requested_ms=perhaps_number(requested_ms),
        requested_by=text(requested_by),
        closed_ms=perhaps_number(closed_ms),
        proof=text(proof),
    )


def label_columns(workload: Workload) -> Sequence[Params]:
    return [{"workload_id": workload.id, "key": key, "value": value} for key, value in workload.spec.labels]


def text(value: Value) -> str:
    assert isinstance(value, str)
    return value


def number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def perhaps_text(value: Value) -> str | None:
    assert value is None or isinstance(value, str)
    return value


def perhaps_number(value: Value) -> int | None:
    assert value is None or isinstance(value, int)
    return value


def charge_columns(charge: Charge) -> Params:
    """What is added to one row of what is spent."""
    return {
        "of_kind": charge.kind.value,
        "of_holder": charge.holder,
        "of_period": charge.period,
        "reserved_more": micro(charge.reserved_usd),
        "spent_more": micro(charge.spent_usd),
        "free": not charge.guarded,
    }


def budget_columns(budget: Budget) -> Params:
    return {
        "kind": budget.kind.value,
        "holder": budget.holder,
        "total_micro": None if budget.total_usd is None else micro(budget.total_usd),
        "month_micro": None if budget.month_usd is None else micro(budget.month_usd),
        "set_ms": budget.set_ms,
        "set_by": budget.set_by,
    }


def budgeted_from(row: Row, month: str) -> Budgeted:
    """A budget from its columns, followed by what is reserved and spent in all, then in the month."""
    kind, holder, total_micro, month_micro, set_ms, set_by, *sums = row
    reserved, spent, reserved_month, spent_month = (number(each or 0) * MICRO for each in sums)
    return Budgeted(
        budget=Budget(
            kind=Holder(text(kind)),
            holder=text(holder),
            total_usd=None if total_micro is None else number(total_micro) * MICRO,
            month_usd=None if month_micro is None else number(month_micro) * MICRO,
            set_ms=number(set_ms),
            set_by=text(set_by),
        ),
        month=month,
        total=Spending(reserved_usd=reserved, spent_usd=spent),
        this_month=Spending(reserved_usd=reserved_month, spent_usd=spent_month),
    )
