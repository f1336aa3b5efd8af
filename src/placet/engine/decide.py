"""One workload, the facts about it, and the time: what changes and what is to be done. Pure; ``reconcile`` acts."""

from placet.domain.allocations import Observation, PermitRequest, Phase, Tag
from placet.domain.errors import ProviderError
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, EventKind
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, Desired, IntentState, IntentVerb, WorkloadState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.engine.delivering import deliver_outputs, note_delivered, outputs_absent
from placet.engine.draft import Draft
from placet.engine.ending import ask_again, overrun, release, stop_collecting, stop_failure, stopped_state
from placet.engine.facts import (
    AnswerPermit,
    Cancel,
    Delivered,
    Effect,
    Fact,
    Find,
    Found,
    Observe,
    Released,
    Situation,
    Step,
    StopTaken,
    SubmitAnswer,
    World,
)
from placet.engine.placing import WAIT_BACKOFF, asked_of, place_next
from placet.engine.rhythm import LOOK_AGAIN_MS, look_ms, observe_due
from placet.stages import course, doubt, recovery, tracking

# A workload that only another server can see is offered to it this often.
ELSEWHERE_RECHECK_MS = 3 * SECOND_MS


def decide(situation: Situation) -> Step:
    """Fold the facts into the record, then take the next step that the record calls for."""
    draft = Draft(situation.record, worker=situation.world.worker, now_ms=situation.world.now_ms)
    if draft.attempt is not None and draft.attempt.provider in situation.world.cards:
        draft.remembered_s = situation.world.cards[draft.attempt.provider].forgets_after_s
    draft.course, draft.hands_off = situation.course, situation.world.hands_off
    if situation.adopted:
        draft.forget_absence()
    effects: list[Effect] = []
    for fact in situation.facts:
        effects.extend(_fold(draft, fact, situation.world, adopted=situation.adopted))
    effects.extend(_next(draft, situation))
    transition = draft.transition()
    return Step(
        transition=transition,
        record=draft.record(transition),
        effects=tuple(effects),
        look_ms=look_ms(draft, situation.world),
        course=draft.course,
    )


def _fold(draft: Draft, fact: Fact, world: World, *, adopted: bool) -> tuple[Effect, ...]:
    attempt = draft.attempt
    match fact:
        case PermitRequest():
            return _permit(draft, fact)
        case Observation():
            return _observation(draft, fact, world, adopted=adopted)
        case SubmitAnswer() if attempt is not None and attempt.epoch == fact.epoch:
            _submit_answer(draft, attempt, fact)
        case Found():
            for known in draft.attempts:
                if known.epoch == fact.epoch:
                    _found(draft, known, fact, world)
        case Delivered() if attempt is not None and attempt.epoch == fact.epoch:
            note_delivered(draft, fact)
        case StopTaken():
            draft.stop_taken(fact.key)
        case Released() if fact.gone:
            draft.released(fact.epoch, world.cards)
        case _:
            pass
    return ()


def _permit(draft: Draft, request: PermitRequest) -> tuple[Effect, ...]:
    """Grant only to the current epoch, with its nonce, of a workload that is still wanted."""
    attempt = next((known for known in draft.attempts if known.key == request.key), None)
    if attempt is None:
        return ()
    refusal = _permit_refusal(draft, attempt, request)
    if refusal is not None:
        draft.tell(EventKind.PERMIT_REFUSED, epoch=request.tag.epoch, message=refusal)
        return (AnswerPermit(provider=attempt.provider, request=request, granted=False, reason=refusal),)
    if attempt.permit_ms is None:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, "the runner asked for its permit")
        granted = evolve(attempt, permit_ms=draft.now_ms, submitted_ms=attempt.submitted_ms or draft.now_ms)
        draft.move_attempt(granted, AttemptState.STARTING)
        draft.tell(EventKind.PERMIT_GRANTED, epoch=attempt.epoch)
        if draft.workload.spec.repeat is Repeat.AT_MOST_ONCE:
            draft.flush()  # a power cut must not make us forget that it may have started
    return (AnswerPermit(provider=attempt.provider, request=request, granted=True, reason=""),)


def _permit_refusal(draft: Draft, attempt: Attempt, request: PermitRequest) -> str | None:
    if attempt.epoch != draft.workload.epoch:
        return f"epoch {attempt.epoch} was superseded by {draft.workload.epoch}"
    if attempt.nonce != request.tag.nonce:
        return "the nonce is not that of the attempt"
    if attempt.final or attempt.state is AttemptState.STOPPING:
        return f"the attempt is {attempt.state}"
    if draft.workload.final:
        return f"the workload is {draft.workload.state}"
    stop = stop_failure(draft)
    return None if stop is None else stop.message


def _observation(draft: Draft, seen: Observation, world: World, *, adopted: bool) -> tuple[Effect, ...]:
    attempt = next((known for known in draft.attempts if known.key == seen.key), None)
    if attempt is None or (world.hands_off and seen.phase is Phase.GONE):
        return ()
    tracked = tracking.track(
        attempt,
        seen,
        world.cards[attempt.provider],
        actor=draft.worker,
        now_ms=draft.now_ms,
        span_s=world.absence_span_s(attempt.provider) if seen.phase is Phase.GONE else 0.0,
    )
    if tracked.events and seen.phase is not Phase.GONE:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, f"observed {seen.phase}")
    if tracked.attempt.final:
        draft.settle(IntentVerb.CANCEL, attempt.epoch, IntentState.CONFIRMED, f"observed {seen.phase}")
    draft.put_attempt(tracked.attempt, tracked.events)
    if seen.phase is Phase.GONE:
        outputs_absent(draft, tracked.attempt, world, min(seen.observed_ms, draft.now_ms))
    if attempt.epoch == draft.workload.epoch:
        draft.phase = seen.phase
    if seen.phase is Phase.COLLECTING and attempt.epoch == draft.workload.epoch:
        draft.obstacle = seen.problem
    if seen.phase is Phase.ENDED and seen.collected and attempt.epoch == draft.workload.epoch:
        draft.last_seen = seen
    # The runner still waits: nobody heard it ask, or the answer died with a server after the grant was on disk.
    unheard = attempt.permit_ms is None or adopted or draft.now_ms - attempt.permit_ms >= LOOK_AGAIN_MS
    if seen.phase is Phase.AWAITING_PERMIT and unheard:
        tag = Tag(
            deployment=world.deployment, workload_id=attempt.workload_id, epoch=attempt.epoch, nonce=attempt.nonce
        )
        return _permit(draft, PermitRequest(key=attempt.key, tag=tag))
    return _stop_now(draft, seen, world)


def _stop_now(draft: Draft, seen: Observation, world: World) -> tuple[Effect, ...]:
    """Where a stop is refused in some phases, the request for it may have been: once out of them it is made again."""
    attempt = draft.attempt
    if attempt is None or seen.key != attempt.key or attempt.state is not AttemptState.STOPPING:
        return ()
    refused_in = world.cards[attempt.provider].stopping.refused_in
    can_stop = seen.phase not in (*refused_in, Phase.STOPPING, Phase.COLLECTING, Phase.UNKNOWN, Phase.GONE)
    asked_ms = attempt.stop_requested_ms or 0
    if not refused_in or not can_stop or attempt.handle is None or draft.now_ms - asked_ms < LOOK_AGAIN_MS:
        return ()
    draft.put_attempt(evolve(attempt, stop_requested_ms=draft.now_ms), ())
    return (Cancel(handle=attempt.handle, grace_s=float(draft.workload.spec.stop_grace_s)),)


def _submit_answer(draft: Draft, attempt: Attempt, answer: SubmitAnswer) -> None:
    if answer.handle is not None:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, answer.handle.native_id)
        known = evolve(attempt, handle=answer.handle, submitted_ms=attempt.submitted_ms or draft.now_ms)
        if attempt.state in (AttemptState.INTENDED, AttemptState.UNKNOWN):
            draft.move_attempt(known, AttemptState.SUBMITTED)
        else:
            draft.put_attempt(known, ())
        return
    if answer.error is None or attempt.state is not AttemptState.INTENDED:
        return
    if answer.unclear:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.AMBIGUOUS, str(answer.error))
        draft.move_attempt(attempt, AttemptState.UNKNOWN, str(answer.error))
        return
    draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.REFUTED, str(answer.error))
    cause = Cause.UNRESOLVED if answer.kept else _refusal_cause(answer.error)
    failure = Failure(cause=cause, message=str(answer.error))
    draft.move_attempt(evolve(attempt, failure=failure), AttemptState.REFUSED)


def _refusal_cause(error: ProviderError) -> Cause:
    from_kind = {
        "NoCapacity": Cause.NO_CAPACITY,
        "QuotaExceeded": Cause.QUOTA,
        "AuthFailed": Cause.AUTH,
        "InvalidRequest": Cause.INVALID_REQUEST,
    }
    return from_kind.get(type(error).__name__, Cause.PROVIDER_ERROR)


def _found(draft: Draft, attempt: Attempt, found: Found, world: World) -> None:
    # What bears our name and another's nonce is not ours: neither taken for it, nor stopped, nor deleted.
    handles = [handle for handle in found.handles if handle.nonce in ("", attempt.nonce)]
    if handles:
        oldest = min(handles, key=lambda handle: (handle.created_ms, handle.native_id))
        if attempt.state is AttemptState.UNKNOWN:
            draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, f"found {oldest.native_id}")
            known = evolve(attempt, handle=oldest, absent_reads=0, absent_since_ms=None)
            draft.move_attempt(known, AttemptState.SUBMITTED, "adopted")
        elif attempt.handle is None:  # the runner was heard before the answer to the submit, which never came
            draft.put_attempt(evolve(attempt, handle=oldest), ())
        return
    if world.hands_off:
        return
    read_ms = draft.now_ms if found.asked_ms is None else min(found.asked_ms, draft.now_ms)
    if attempt.final and attempt.handle is None:
        counted = tracking.absent_again(attempt, read_ms)
        draft.put_attempt(counted, ())
        if tracking.leftovers_absent(counted, world.cards[attempt.provider], read_ms):
            draft.released(attempt.epoch, world.cards)
        outputs_absent(draft, attempt, world, read_ms)
    if attempt.state is not AttemptState.UNKNOWN:
        if attempt.handle is None and not attempt.final:  # its runner was heard, and it may be gone since
            gone = Observation(key=attempt.key, phase=Phase.GONE, observed_ms=read_ms, source=attempt.provider)
            _observation(draft, gone, world, adopted=False)
        return
    counted = tracking.absent_again(attempt, read_ms)
    card = world.cards[attempt.provider]
    span_s = world.absence_span_s(attempt.provider)
    if not tracking.absence_proven(counted, card, read_ms, span_s):
        draft.put_attempt(counted, ())
        return
    draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.REFUTED, "verified absent")
    failure = Failure(cause=Cause.UNRESOLVED, message="the submit had no effect: verified absent at the provider")
    draft.move_attempt(evolve(counted, failure=failure), AttemptState.REFUSED)


def _next(draft: Draft, situation: Situation) -> list[Effect]:
    workload = draft.workload
    if workload.final:
        return release(draft, situation)
    attempt = draft.attempt
    if attempt is not None and attempt.released_ms is None and _out_of_reach(attempt, situation.world):
        draft.hand_back("its place is served by another server", draft.now_ms + ELSEWHERE_RECHECK_MS)
        return []
    if workload.state is WorkloadState.DELIVERING:
        return deliver_outputs(draft, situation)
    if attempt is not None and not attempt.final:
        return [*release(draft, situation), *_live(draft, attempt, situation)]
    if attempt is not None and not draft.concluded:
        return _attempt_over(draft, attempt, situation)
    stop = stop_failure(draft)
    if stop is not None:
        draft.finish(stopped_state(stop), stop)
        return release(draft, situation)
    return [*release(draft, situation), *place_next(draft, situation)]


def _out_of_reach(attempt: Attempt, world: World) -> bool:
    """Only a server at the place of the allocation can see it; not seeing it from here says nothing."""
    if not world.cards[attempt.provider].bound_to_place:
        return False
    return (attempt.provider, attempt.placement.region) not in world.places


def _moved(draft: Draft, attempt: Attempt, situation: Situation) -> Failure | None:
    """Is this attempt to be left, so that the work goes on somewhere else?"""
    workload = draft.workload
    if not course.follows(workload.spec) or attempt.state in (AttemptState.STOPPING, AttemptState.EXITED):
        return None
    if draft.course is not None and draft.course.look_ms > draft.now_ms:
        return None
    asked = asked_of(draft, situation.world)
    offers = situation.world.offers().open_to(workload.spec.constraints.providers.allowed)
    draft.course = course.look(asked, offers, workload, draft.attempts, draft.course)
    if draft.course is None or not course.moves(draft.course, asked, offers):
        return None
    return Failure(cause=Cause.MOVED, message=draft.course.decision.reason)


def _live(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """An attempt that may be running: resolve what is unclear, stop what must stop, look at what nobody told of."""
    busy = situation.under_way
    if attempt.state is AttemptState.INTENDED and "Submit" not in busy:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.AMBIGUOUS, "the sender is gone")
        draft.move_attempt(attempt, AttemptState.UNKNOWN, "the sender is gone before the answer was recorded")
        return [Find(attempt=attempt)]
    given_up = _settle_doubt(draft, attempt, situation)
    if given_up is not None:
        return given_up
    if attempt.state is AttemptState.UNKNOWN:
        return [] if "Find" in busy else [Find(attempt=attempt)]
    if attempt.handle is None:
        return [] if "Find" in busy or "Submit" in busy else [Find(attempt=attempt)]
    if attempt.state is AttemptState.EXITED and attempt.computed:
        draft.computed()
        return deliver_outputs(draft, situation)
    if attempt.state in (AttemptState.RUNNING, AttemptState.EXITED) and draft.workload.state is WorkloadState.PLACING:
        draft.move(WorkloadState.RUNNING)
    effects = _stop_if_needed(draft, attempt, situation)
    if "Observe" not in busy and (situation.adopted or observe_due(attempt, situation.world)):
        effects.append(Observe(handle=attempt.handle))
    return effects


def _settle_doubt(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect] | None:
    """What follows when an attempt is given up of which nobody can tell whether it runs; ``None`` when it is not."""
    if situation.world.hands_off:
        return None
    match doubt.settle(draft.workload, attempt, draft.now_ms):
        case doubt.GivesUp() as given_up:
            return _attempt_over(draft, draft.give_up(attempt, given_up), situation)
        case doubt.Asks() as asks:
            draft.obstructed(asks.question)
        case doubt.Waits():
            if draft.workload.reason.startswith(doubt.NOBODY):
                draft.obstructed("")
    return None


def _stop_if_needed(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    if attempt.state is AttemptState.EXITED:
        return stop_collecting(draft, attempt, situation)
    stop = stop_failure(draft) or overrun(draft, attempt) or _moved(draft, attempt, situation)
    if stop is None or attempt.handle is None or attempt.computed:
        return []
    cancel = Cancel(handle=attempt.handle, grace_s=float(draft.workload.spec.stop_grace_s))
    if attempt.state is not AttemptState.STOPPING:
        marked = evolve(attempt, desired=Desired.STOP, stop_requested_ms=draft.now_ms, failure=stop)
        draft.intend(IntentVerb.CANCEL, attempt.epoch)
        draft.move_attempt(marked, AttemptState.STOPPING, stop.message)
        return [cancel]
    return [cancel] if ask_again(draft, attempt, situation) else []


def _attempt_over(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """A final attempt that the workload has not yet drawn its conclusion from."""
    if attempt.computed and attempt.state is AttemptState.COLLECTED:
        draft.computed()
        return deliver_outputs(draft, situation)
    stop = stop_failure(draft)
    if stop is not None:
        draft.finish(stopped_state(stop), stop)
        return release(draft, situation)
    failure = attempt.failure or Failure(cause=Cause.LOST, message="it ended and nothing proves how")
    step = recovery.recover(draft.workload, attempt, failure, now_ms=draft.now_ms)
    match step:
        case recovery.Again():
            draft.wait_to_retry(WAIT_BACKOFF, step)
        case recovery.GiveUp():
            draft.count_failures(step.user_failures, step.infrastructure_failures)
            draft.finish(WorkloadState.FAILED, failure)
    return release(draft, situation)
