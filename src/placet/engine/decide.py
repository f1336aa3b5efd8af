"""One workload, the facts about it, and the time: what changes and what is to be done. Pure; ``reconcile`` acts."""

from placet.domain.allocations import Observation, PermitRequest, Phase, Tag
from placet.domain.errors import ProviderError
from placet.domain.failures import Cause, Failure
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate, Plan
from placet.domain.records import Attempt, EventKind
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, DeliveryState, Desired, IntentState, IntentVerb, WorkloadState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.engine.draft import Draft
from placet.engine.facts import (
    AnswerPermit,
    Cancel,
    Deliver,
    Delivered,
    Effect,
    Fact,
    Find,
    Found,
    Observe,
    Release,
    Released,
    Situation,
    Step,
    Submit,
    SubmitAnswer,
    World,
)
from placet.engine.looks import LOOK_AGAIN_MS, again_ms
from placet.stages import blocking, course, dispatch, limits, placement, quotes, recovery, sizing, tracking
from placet.stages.delivery import deliver
from placet.stages.enlarging import enlarged
from placet.stages.explaining import decision
from placet.stages.filters import Asked
from placet.stages.spot import Action

WAIT_CAPACITY = "capacity"
WAIT_BACKOFF = "backoff"
WAIT_SPOT = "spot"

# How long a workload that found nothing free sleeps at most before it looks again; freed capacity wakes it earlier.
CAPACITY_RECHECK_MS = 60 * SECOND_MS
# How often something that should be moving is looked at when nobody tells of it.
OBSERVE_EVERY_MS = 10 * SECOND_MS
# A workload that only another server can see is offered to it this often.
ELSEWHERE_RECHECK_MS = 3 * SECOND_MS
RELEASE_AGAIN_MS, RELEASE_MOST_MS = 2 * SECOND_MS, 60 * SECOND_MS
# On a full disk delivery is tried again this often, for so long after the outputs were collected.
SPACE_AGAIN_MS = 5 * SECOND_MS
SPACE_WAIT_MS = 1800 * SECOND_MS


def decide(situation: Situation) -> Step:
    """Fold the facts into the record, then take the next step that the record calls for."""
    draft = Draft(situation.record, worker=situation.world.worker, now_ms=situation.world.now_ms)
    draft.course = situation.course
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
        look_ms=_look_ms(draft, situation.world),
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
        case Found() if attempt is not None and attempt.epoch == fact.epoch:
            _found(draft, attempt, fact, world)
        case Delivered() if attempt is not None and attempt.epoch == fact.epoch:
            _delivered(draft, fact)
        case Released():
            draft.released(fact.epoch, fact.gone)
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
    stop = _stop_failure(draft)
    return None if stop is None else stop.message


def _observation(draft: Draft, seen: Observation, world: World, *, adopted: bool) -> tuple[Effect, ...]:
    attempt = next((known for known in draft.attempts if known.key == seen.key), None)
    if attempt is None:
        return ()
    tracked = tracking.track(attempt, seen, world.cards[attempt.provider], actor=draft.worker, now_ms=draft.now_ms)
    if tracked.events and seen.phase is not Phase.GONE:
        draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, f"observed {seen.phase}")
    if tracked.attempt.final:
        draft.settle(IntentVerb.CANCEL, attempt.epoch, IntentState.CONFIRMED, f"observed {seen.phase}")
    draft.put_attempt(tracked.attempt, tracked.events)
    if seen.phase is Phase.GONE:
        _outputs_absent(draft, tracked.attempt, world)
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
    if found.handles:
        oldest = min(found.handles, key=lambda handle: (handle.created_ms, handle.native_id))
        if attempt.state is AttemptState.UNKNOWN:
            draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.CONFIRMED, f"found {oldest.native_id}")
            known = evolve(attempt, handle=oldest, absent_reads=0, absent_since_ms=None)
            draft.move_attempt(known, AttemptState.SUBMITTED, "adopted")
        elif attempt.handle is None:  # the runner was heard before the answer to the submit, which never came
            draft.put_attempt(evolve(attempt, handle=oldest), ())
        return
    if attempt.final and attempt.handle is None:
        draft.released(attempt.epoch, True)
        _outputs_absent(draft, attempt, world)
    if attempt.state is not AttemptState.UNKNOWN:
        return
    counted = tracking.absent_again(attempt, draft.now_ms)
    card = world.cards[attempt.provider]
    if not tracking.absence_proven(counted, card, draft.now_ms):
        draft.put_attempt(counted, ())
        return
    draft.settle(IntentVerb.SUBMIT, attempt.epoch, IntentState.REFUTED, "verified absent")
    failure = Failure(cause=Cause.UNRESOLVED, message="the submit had no effect: verified absent at the provider")
    draft.move_attempt(evolve(counted, failure=failure), AttemptState.REFUSED)


def _outputs_absent(draft: Draft, attempt: Attempt, world: World) -> None:
    """What was computed is not there to be delivered; that is believed after the same proof as any absence."""
    if draft.workload.state is not WorkloadState.DELIVERING or attempt.epoch != draft.workload.epoch:
        return
    if not attempt.final:
        return  # its tracking counts
    counted = tracking.absent_again(attempt, draft.now_ms)
    draft.put_attempt(counted, ())
    if tracking.absence_proven(counted, world.cards[attempt.provider], draft.now_ms):
        _delivered(draft, Delivered(epoch=attempt.epoch, problem="the provider no longer has the outputs"))


def _delivered(draft: Draft, delivered: Delivered) -> None:
    attempt = draft.attempt
    if draft.workload.final or attempt is None:
        return
    collected_ms = attempt.finished_ms or draft.now_ms
    if delivered.no_space and delivered.problem and draft.now_ms - collected_ms < SPACE_WAIT_MS:
        draft.obstructed(delivered.problem, draft.now_ms + SPACE_AGAIN_MS)
        return
    draft.delivered = delivered.artifacts
    draft.delivery_problem = delivered.problem
    draft.delivery_over = True


def _stop_failure(draft: Draft) -> Failure | None:
    """Why this workload must not go on running, if it must not."""
    workload = draft.workload
    if workload.desired is Desired.STOP:
        return Failure(cause=Cause.CANCELLED, message="cancelled on request")
    deadline_ms = workload.spec.constraints.deadline_ms
    if deadline_ms is not None and draft.now_ms >= deadline_ms:
        return Failure(cause=Cause.DEADLINE, message="the deadline has passed")
    return None


def _next(draft: Draft, situation: Situation) -> list[Effect]:
    workload = draft.workload
    if workload.final:
        return _release(draft, situation)
    attempt = draft.attempt
    if attempt is not None and attempt.released_ms is None and _out_of_reach(attempt, situation.world):
        draft.hand_back("its place is served by another server", draft.now_ms + ELSEWHERE_RECHECK_MS)
        return []
    if workload.state is WorkloadState.DELIVERING:
        return _deliver(draft, situation)
    if attempt is not None and not attempt.final:
        return _live(draft, attempt, situation)
    if attempt is not None and not draft.concluded:
        return _attempt_over(draft, attempt, situation)
    stop = _stop_failure(draft)
    if stop is not None:
        draft.finish(_stopped_state(stop), stop)
        return _release(draft, situation)
    return [*_release(draft, situation), *_place(draft, situation)]


def _out_of_reach(attempt: Attempt, world: World) -> bool:
    """Only a server at the place of the allocation can see it; not seeing it from here says nothing."""
    if not world.cards[attempt.provider].bound_to_place:
        return False
    return (attempt.provider, attempt.placement.region) not in world.places


def _stopped_state(stop: Failure) -> WorkloadState:
    return WorkloadState.CANCELLED if stop.cause is Cause.CANCELLED else WorkloadState.EXPIRED


def _place(draft: Draft, situation: Situation) -> list[Effect]:
    workload, world = draft.workload, situation.world
    waits = workload.wait_for in (WAIT_BACKOFF, WAIT_SPOT)
    if waits and workload.wake_ms is not None and workload.wake_ms > draft.now_ms:
        return []
    offers = world.offers().open_to(workload.spec.constraints.providers.allowed)
    asked = _asked(draft, world)
    asked = enlarged(asked, offers, draft.attempts, world.lessons.history(workload.tenant, asked.demand.kind))
    if course.follows(workload.spec):
        draft.course = course.look(asked, offers, workload, draft.attempts, draft.course)
    if draft.course is not None and draft.course.decision.action is Action.WAIT:
        draft.wait_for_spot(WAIT_SPOT, draft.course.decision.reason, draft.course.look_ms)
        return []
    asked, plan = _plan(draft, asked, offers)
    if plan.fate is Fate.FITS:
        sender = dispatch.Sender(deployment=world.deployment, worker=world.worker, nonce=situation.nonce)
        sent = dispatch.dispatch(workload, asked.demand, plan, situation.inputs, sender, draft.now_ms)
        draft.begin_attempt(sent.attempt, sent.intent, sent.events, decision(workload, asked, offers, plan))
        return [Submit(launch=sent.launch, intended_ms=draft.now_ms)]
    if plan.fate is Fate.NOT_NOW or not len(offers):
        ends = (block.until_ms for block in asked.blocks)
        draft.wait(WAIT_CAPACITY, plan.reason, min((draft.now_ms + CAPACITY_RECHECK_MS, *ends)))
        return []
    raised = f"; {asked.demand.raised}" if asked.demand.raised else ""
    draft.finish(WorkloadState.FAILED, Failure(cause=Cause.NO_OFFER, message=plan.reason + raised))
    return []


def _asked(draft: Draft, world: World) -> Asked:
    workload = draft.workload
    return Asked(
        spec=workload.spec,
        demand=sizing.size(workload.spec, tenant=workload.tenant, lessons=world.lessons),
        now_ms=draft.now_ms,
        excluded=workload.excluded_offers,
        spent_usd=draft.spent_usd(),
        quoted=quotes.left(workload, draft.attempts, draft.now_ms),
        experience=world.lessons.experience,
        blocks=blocking.blocks(world.lessons, workload.tenant, draft.now_ms),
        exploration=world.exploration,
    )


def _plan(draft: Draft, asked: Asked, offers: OfferTable) -> tuple[Asked, Plan]:
    """What was asked in the end, and what came out: wishes that cannot be had are better dropped than waited for.

    First the lesser one, to stay away from the offer that has just failed; then what was decided about spot.
    """
    wishes = [asked] if draft.course is None else [course.narrowed(asked, draft.course), asked]
    if asked.excluded:
        wishes = [each for wish in wishes for each in (wish, evolve(wish, excluded=()))]
    for wish in wishes[:-1]:
        plan = placement.place(wish, offers, seed=draft.workload.id)
        if plan.fate is Fate.FITS:
            return wish, plan
    return wishes[-1], placement.place(wishes[-1], offers, seed=draft.workload.id)


def _moved(draft: Draft, attempt: Attempt, situation: Situation) -> Failure | None:
    """Is this attempt to be left, so that the work goes on somewhere else?"""
    workload = draft.workload
    if not course.follows(workload.spec) or attempt.state in (AttemptState.STOPPING, AttemptState.EXITED):
        return None
    if draft.course is not None and draft.course.look_ms > draft.now_ms:
        return None
    asked = _asked(draft, situation.world)
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
    if attempt.state is AttemptState.UNKNOWN:
        return [] if "Find" in busy else [Find(attempt=attempt)]
    if attempt.handle is None:
        return [] if "Find" in busy or "Submit" in busy else [Find(attempt=attempt)]
    if attempt.state is AttemptState.EXITED and attempt.computed:
        draft.computed()
        return _deliver(draft, situation)
    if attempt.state in (AttemptState.RUNNING, AttemptState.EXITED) and draft.workload.state is WorkloadState.PLACING:
        draft.move(WorkloadState.RUNNING)
    effects = _stop_if_needed(draft, attempt, situation)
    if "Observe" not in busy and (situation.adopted or _observe_due(attempt, situation.world)):
        effects.append(Observe(handle=attempt.handle))
    return effects


def _observe_due(attempt: Attempt, world: World) -> bool:
    seen_ms = attempt.created_ms if attempt.observed_ms is None else attempt.observed_ms
    return world.now_ms - seen_ms >= again_ms(attempt, seen_ms, world.observe_every_ms)


def _stop_if_needed(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    if attempt.state is AttemptState.EXITED:
        return _stop_collecting(draft, attempt, situation)
    stop = _stop_failure(draft) or _overrun(draft, attempt) or _moved(draft, attempt, situation)
    if stop is None or attempt.handle is None or attempt.computed:
        return []
    cancel = Cancel(handle=attempt.handle, grace_s=float(draft.workload.spec.stop_grace_s))
    if attempt.state is not AttemptState.STOPPING:
        marked = evolve(attempt, desired=Desired.STOP, stop_requested_ms=draft.now_ms, failure=stop)
        draft.intend(IntentVerb.CANCEL, attempt.epoch)
        draft.move_attempt(marked, AttemptState.STOPPING, stop.message)
        return [cancel]
    return [cancel] if _ask_again(draft, attempt, situation) else []


def _ask_again(draft: Draft, attempt: Attempt, situation: Situation) -> bool:
    """The request may have been lost with its sender; it is idempotent, so it is repeated until the end is seen."""
    asked_ms = attempt.stop_requested_ms or draft.now_ms
    overdue = draft.now_ms - asked_ms > int(draft.workload.spec.stop_grace_s * SECOND_MS) + OBSERVE_EVERY_MS
    if "Cancel" in situation.under_way or not (overdue or situation.adopted):
        return False
    draft.put_attempt(evolve(attempt, stop_requested_ms=draft.now_ms), ())
    return True


def _stop_collecting(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """The program has ended by itself, and stays what it was; only the collection of its outputs can be stopped."""
    if _stop_failure(draft) is None or attempt.handle is None:
        return []
    cancel = Cancel(handle=attempt.handle, grace_s=0.0)
    if attempt.desired is not Desired.STOP:
        draft.intend(IntentVerb.CANCEL, attempt.epoch)
        draft.put_attempt(evolve(attempt, desired=Desired.STOP, stop_requested_ms=draft.now_ms), ())
        return [cancel]
    return [cancel] if _ask_again(draft, attempt, situation) else []


def _overrun(draft: Draft, attempt: Attempt) -> Failure | None:
    spent_usd = draft.spent_usd() - attempt.cost_usd
    return limits.exceeded(
        attempt, draft.workload.spec, spent_usd, draft.now_ms, provisioning=draft.phase is Phase.PROVISIONING
    )


def _attempt_over(draft: Draft, attempt: Attempt, situation: Situation) -> list[Effect]:
    """A final attempt that the workload has not yet drawn its conclusion from."""
    if attempt.computed and attempt.state is AttemptState.COLLECTED:
        draft.computed()
        return _deliver(draft, situation)
    stop = _stop_failure(draft)
    if stop is not None:
        draft.finish(_stopped_state(stop), stop)
        return _release(draft, situation)
    failure = attempt.failure or Failure(cause=Cause.LOST, message="it ended and nothing proves how")
    step = recovery.recover(draft.workload, attempt, failure, now_ms=draft.now_ms)
    match step:
        case recovery.Again():
            draft.wait_to_retry(WAIT_BACKOFF, step)
        case recovery.GiveUp():
            draft.count_failures(step.user_failures, step.infrastructure_failures)
            draft.finish(WorkloadState.FAILED, failure)
    return _release(draft, situation)


def _look_at_outputs(attempt: Attempt, situation: Situation) -> list[Effect]:
    """After a restart the list of found outputs is asked for again; it is not kept in the store until delivered."""
    if attempt.handle is None:
        return [] if "Find" in situation.under_way else [Find(attempt=attempt)]
    return [] if "Observe" in situation.under_way else [Observe(handle=attempt.handle)]


def _deliver(draft: Draft, situation: Situation) -> list[Effect]:
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
    seen, stop = draft.last_seen, _stop_failure(draft)
    waits = workload.wake_ms is not None and workload.wake_ms > draft.now_ms
    if stop is not None and (waits or (seen is not None and seen.problem)):
        draft.finish(_stopped_state(stop), stop, delivery=DeliveryState.MISSING)
        return _release(draft, situation)
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
    effects = _stop_collecting(draft, attempt, situation)
    due = situation.adopted or _observe_due(attempt, situation.world)
    if due and "Observe" not in situation.under_way:
        effects.append(Observe(handle=attempt.handle))
    return effects


def _verdict(draft: Draft, situation: Situation) -> list[Effect]:
    """Success needs positive proof: exit status 0 of the current epoch and every required output delivered."""
    attempt, spec = draft.attempt, draft.workload.spec
    if draft.delivery_problem is not None:
        failure = Failure(cause=Cause.DELIVERY, message=draft.delivery_problem)
        draft.finish(WorkloadState.FAILED, failure, delivery=DeliveryState.MISSING)
        return _release(draft, situation)
    names = {artifact.name for artifact in draft.delivered}
    missing = [output.name for output in spec.outputs if output.required and output.name not in names]
    if attempt is None or not attempt.computed:
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.INTERNAL, message="no proof of success"))
    elif missing:
        message = f"required output not delivered: {', '.join(missing)}"
        if draft.last_seen is not None and draft.last_seen.skipped:
            message += f"; left out: {'; '.join(draft.last_seen.skipped)}"
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.OUTPUT_MISSING, message=message))
    else:
        draft.finish(WorkloadState.SUCCEEDED, None)
    return _release(draft, situation)


def _release(draft: Draft, situation: Situation) -> list[Effect]:
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


def _look_ms(draft: Draft, world: World) -> int | None:
    """When this workload is to be looked at again if nothing is heard of it."""
    workload, attempt, now_ms = draft.workload, draft.attempt, draft.now_ms
    if workload.final:
        pause_ms = again_ms(attempt, now_ms, RELEASE_MOST_MS)
        return now_ms + max(pause_ms, RELEASE_AGAIN_MS) if draft.unreleased() else None
    times = []
    if workload.spec.constraints.deadline_ms is not None:
        times.append(max(workload.spec.constraints.deadline_ms, now_ms + LOOK_AGAIN_MS))
    if attempt is None or attempt.final:
        # A wake time that has passed has just been dealt with; looking at once again would be a busy loop.
        wake_ms = workload.wake_ms or 0
        times.append(wake_ms if wake_ms > now_ms else now_ms + LOOK_AGAIN_MS)
        return min(times)
    times.append(now_ms + again_ms(attempt, now_ms, world.observe_every_ms))
    if draft.course is not None:
        times.append(max(draft.course.look_ms, now_ms + LOOK_AGAIN_MS))
    for at_ms in limits.look_ms(attempt, workload.spec, draft.spent_usd() - attempt.cost_usd):
        times.append(max(at_ms, now_ms + LOOK_AGAIN_MS))
    return min(times)
