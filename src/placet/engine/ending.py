"""Why a workload must end, attempts that are asked to, and what ended ones have left behind."""

from placet.domain.allocations import Phase
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt
from placet.domain.states import Desired, IntentVerb, WorkloadState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.engine.draft import Draft
from placet.engine.facts import Cancel, Effect, Find, Release, Situation
from placet.engine.rhythm import OBSERVE_EVERY_MS
from placet.stages import limits


def stop_failure(draft: Draft) -> Failure | None:
    """Why this workload must not go on running, if it must not."""
    workload = draft.workload
    if workload.desired is Desired.STOP:
        return Failure(cause=Cause.CANCELLED, message="cancelled on request")
    deadline_ms = workload.spec.constraints.deadline_ms
    if deadline_ms is not None and draft.now_ms >= deadline_ms and not draft.hands_off:
        priced_out = workload.quoted_usd is not None and workload.state is WorkloadState.WAITING
        waited = f" while it waited: {workload.reason}" if priced_out and workload.reason else ""
        return Failure(cause=Cause.DEADLINE, message=f"the deadline has passed{waited}")
    return None


def stopped_state(stop: Failure) -> WorkloadState:
    """How a workload ends that was stopped."""
    return WorkloadState.CANCELLED if stop.cause is Cause.CANCELLED else WorkloadState.EXPIRED


def ask_again(draft: Draft, attempt: Attempt, situation: Situation) -> bool:
    """The request may have been lost with its sender; it is idempotent, so it is repeated until the end is seen."""
    asked_ms = attempt.stop_requested_ms or draft.now_ms
    overdue = draft.now_ms - asked_ms > int(draft.workload.spec.stop_grace_s * SECOND_MS) + OBSERVE_EVERY_MS
    if "Cancel" in situation.under_way or not (overdue or situation.adopted):
        return False
    draft.put_attempt(evolve(attempt, stop_requested_ms=draft.now_ms), ())
    return True


def stop_collecting(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """The program has ended by itself, and stays what it was; only the collection of its outputs can be stopped."""
    if stop_failure(draft) is None or attempt.handle is None:
        return []
    cancel = Cancel(handle=attempt.handle, grace_s=0.0)
    if attempt.desired is not Desired.STOP:
        draft.intend(IntentVerb.CANCEL, attempt.epoch)
        draft.put_attempt(evolve(attempt, desired=Desired.STOP, stop_requested_ms=draft.now_ms), ())
        return [cancel]
    return [cancel] if ask_again(draft, attempt, situation) else []


def overrun(draft: Draft, attempt: Attempt) -> Failure | None:
    """Has it had all that it may have?"""
    if draft.hands_off:
        return None
    spent_usd = draft.spent_usd() - attempt.cost_usd
    return limits.exceeded(
        attempt, draft.workload.spec, spent_usd, draft.now_ms, provisioning=draft.phase is Phase.PROVISIONING
    )


def release(draft: Draft, situation: Situation) -> list[Effect]:
    """Everything that an ended attempt may have left behind is deleted, until that is proven.

    One whose end was heard of before the answer to its submit has to be found first.
    """
    if draft.kept_until_ms > draft.now_ms:
        return []
    busy = situation.under_way
    unreleased = draft.unreleased()
    finds: list[Effect] = [
        Find(attempt=attempt) for attempt in unreleased if attempt.handle is None and "Find" not in busy
    ]
    releases = [Release(attempt=attempt) for attempt in unreleased if attempt.handle is not None]
    if not releases or "Release" in busy:
        return finds
    # Once it is deleted nobody can say any more how it ended: a conclusion that a crash of the database undid would
    # then read as a loss, and the work would be done again.
    draft.flush()
    return [*finds, *releases]
