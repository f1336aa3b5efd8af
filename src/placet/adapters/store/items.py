"""Domain values as the rows of one item; what can be seen to be wrong here never reaches the database."""

from placet.adapters.store import codec
from placet.adapters.store.batch import Admission, Move
from placet.adapters.store.codec import Params
from placet.adapters.store.sql import SUBMIT
from placet.domain.errors import StoreError
from placet.domain.records import Acceptance, Transition


def admission(acceptance: Acceptance) -> Admission:
    """Raises ``StoreError`` when the event or a text cannot be kept."""
    workload = acceptance.workload
    if acceptance.event.workload_id != workload.id:
        raise StoreError(f"an event of {acceptance.event.workload_id} cannot tell of {workload.id}")
    key: Params | None = None
    if acceptance.key is not None:
        key = {
            "tenant": workload.tenant,
            "operation": SUBMIT,
            "key": acceptance.key,
            "workload_id": workload.id,
            "body_digest": acceptance.body_digest,
        }
    try:
        spec_id, body = codec.spec_document(workload.spec)
        return Admission(
            flush=True,
            workload_id=workload.id,
            key=key,
            spec={"id": spec_id, "body": body},
            workload=codec.workload_birth(workload, spec_id),
            labels=codec.label_columns(workload),
            event=codec.event_columns(acceptance.event),
        )
    except ValueError as error:  # half a surrogate pair has no encoding
        raise StoreError(f"{workload.id} has a text that cannot be kept: {error}") from error


def move(transition: Transition) -> Move:
    """Raises ``StoreError`` for a transition that contradicts itself."""
    workload = transition.workload
    _check(transition)
    try:
        return Move(
            flush=transition.flush,
            workload_id=workload.id,
            workload=codec.workload_columns(workload) | _guard(transition),
            attempts=[codec.attempt_columns(attempt) for attempt in transition.attempts],
            intents=[codec.intent_columns(intent) for intent in transition.intents],
            events=[codec.event_columns(event) for event in transition.events],
            decisions=[codec.decision_columns(decision) for decision in transition.decisions],
            artifacts=[codec.artifact_columns(artifact) for artifact in transition.artifacts],
            results=_result(transition),
            charges=[codec.charge_columns(charge) for charge in transition.charges],
        )
    except ValueError as error:
        raise StoreError(f"{workload.id} has a text that cannot be kept: {error}") from error


def _guard(transition: Transition) -> Params:
    expect, workload = transition.expect, transition.workload
    return {
        "workload_id": workload.id,
        "was_revision": expect.revision,
        "was_state": expect.state.value,
        "any_lease": expect.lease is None,
        "was_lease_owner": expect.lease.owner if expect.lease else None,
        "was_lease_epoch": expect.lease.epoch if expect.lease else 0,
        "to_state": workload.state.value,
        "to_finished_ms": workload.finished_ms,
    }


def _result(transition: Transition) -> list[Params]:
    if transition.result is None:
        return []
    workload = transition.workload
    return [{"workload_id": workload.id, "finished_ms": workload.finished_ms, "document": transition.result}]


def _check(transition: Transition) -> None:
    workload = transition.workload
    if workload.revision != transition.expect.revision + 1:
        raise StoreError(f"{workload.id}: revision {workload.revision} does not follow {transition.expect.revision}")
    strangers = {
        *(attempt.workload_id for attempt in transition.attempts),
        *(intent.workload_id for intent in transition.intents),
        *(event.workload_id for event in transition.events),
        *(artifact.workload_id for artifact in transition.artifacts),
        *(decision.workload_id for decision in transition.decisions),
    } - {workload.id}
    if strangers:
        raise StoreError(f"{workload.id}: rows of another workload in its transition: {sorted(strangers)}")
    if transition.result is not None and not workload.final:
        raise StoreError(f"{workload.id}: a result before the end")
