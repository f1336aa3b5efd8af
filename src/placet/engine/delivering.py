"""From the end of a program to the verdict: outputs are collected, moved, and counted."""

from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt
from placet.domain.states import DeliveryState, WorkloadState
from placet.domain.units import SECOND_MS
from placet.engine.draft import Draft
from placet.engine.ending import release, stop_collecting, stop_failure, stopped_state
from placet.engine.facts import Deliver, Delivered, Effect, Find, Observe, Situation, World
from placet.engine.rhythm import observe_due
from placet.stages import tracking
from placet.stages.delivery import deliver, state_of

# What passes, such as a full disk, is tried again this often, for so long after the outputs were collected.
AGAIN_MS = 5 * SECOND_MS
WAIT_MS = 1800 * SECOND_MS


def outputs_absent(draft: Draft, attempt: Attempt, world: World, read_ms: int) -> None:
    """What was computed is not there to be delivered; that is believed after the same proof as any absence."""
    if draft.workload.state is not WorkloadState.DELIVERING or attempt.epoch != draft.workload.epoch:
        return
    if not attempt.final:
        return  # its tracking counts
    counted = tracking.absent_again(attempt, read_ms)
    draft.put_attempt(counted, ())
    if tracking.absence_proven(counted, world.cards[attempt.provider], read_ms):
        note_delivered(draft, Delivered(epoch=attempt.epoch, problem="the provider no longer has the outputs"))


def note_delivered(draft: Draft, delivered: Delivered) -> None:
    """What became of moving the outputs; what may pass, such as a full disk, is waited out."""
    attempt = draft.attempt
    if draft.workload.final or attempt is None:
        return
    collected_ms = attempt.finished_ms or draft.now_ms
    if delivered.may_pass and delivered.problem and draft.now_ms - collected_ms < WAIT_MS:
        draft.obstructed(delivered.problem, draft.now_ms + AGAIN_MS)
        return
    draft.delivered = delivered.artifacts
    draft.delivery_problem = delivered.problem
    draft.delivery_over = True


def _look_at_outputs(attempt: Attempt, situation: Situation) -> list[Effect]:
    """After a restart the list of found outputs is asked for again; it is not kept in the store until delivered."""
    if attempt.handle is None:
        return [] if "Find" in situation.under_way else [Find(attempt=attempt)]
    return [] if "Observe" in situation.under_way else [Observe(handle=attempt.handle)]


def deliver_outputs(draft: Draft, situation: Situation) -> list[Effect]:
    """The next step of a workload whose program has ended well."""
    workload, attempt = draft.workload, draft.attempt
    if attempt is None:
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.INTERNAL, message="nothing to deliver from"))
        return []
    if draft.delivery_over:
        return _verdict(draft, situation)
    if not attempt.final:
        return _collect(draft, attempt, situation)
    if "Deliver" in situation.under_way:
        return []
    seen, stop = draft.last_seen, stop_failure(draft)
    waits = workload.wake_ms is not None and workload.wake_ms > draft.now_ms
    if stop is not None and (waits or (seen is not None and seen.problem)):
        draft.finish(stopped_state(stop), stop, delivery=DeliveryState.MISSING)
        return release(draft, situation)
    if waits:
        return []
    if seen is None:
        return _look_at_outputs(attempt, situation)
    delivery = deliver(workload.spec, seen)
    draft.note_delivery(delivery)
    if not delivery.found:
        draft.delivery_problem = seen.problem or None
        draft.delivery_over = True
        return _verdict(draft, situation)
    return [Deliver(attempt=attempt, found=delivery.found)]


def _collect(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """The program has ended well, and its outputs are being collected: that is watched, and stopped if it must be."""
    if draft.obstacle:
        draft.obstructed(draft.obstacle)
    if attempt.handle is None:
        return _look_at_outputs(attempt, situation)
    effects = stop_collecting(draft, attempt, situation)
    due = situation.adopted or observe_due(attempt, situation.world)
    if due and "Observe" not in situation.under_way:
        effects.append(Observe(handle=attempt.handle))
    return effects


def _verdict(draft: Draft, situation: Situation) -> list[Effect]:
    """Success needs positive proof: exit status 0 of the current epoch and every required output delivered."""
    attempt, spec = draft.attempt, draft.workload.spec
    if draft.delivery_problem is not None:
        failure = Failure(cause=Cause.DELIVERY, message=draft.delivery_problem)
        draft.finish(WorkloadState.FAILED, failure, delivery=DeliveryState.MISSING)
        return release(draft, situation)
    names = {artifact.name for artifact in draft.delivered}
    state = state_of(spec.outputs, names)
    if draft.workload.delivery is DeliveryState.PARTIAL and state is DeliveryState.COMPLETE:
        state = DeliveryState.PARTIAL  # something that was meant could not be an output
    missing = [output.name for output in spec.outputs if output.required and output.name not in names]
    if attempt is None or not attempt.computed:
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.INTERNAL, message="no proof of success"))
    elif missing:
        message = f"required output not delivered: {', '.join(missing)}"
        if draft.last_seen is not None and draft.last_seen.skipped:
            message += f"; left out: {'; '.join(draft.last_seen.skipped)}"
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.OUTPUT_MISSING, message=message), delivery=state)
    else:
        draft.finish(WorkloadState.SUCCEEDED, None, delivery=state)
    return release(draft, situation)
