"""From an attempt and an observation to the attempt as it is now known to be. It never goes back, and never guesses."""

from dataclasses import dataclass
from typing import assert_never

from placet.domain.allocations import ContractCard, Observation, Phase
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, Event, EventKind
from placet.domain.states import ATTEMPT_MOVES, AttemptState, advance
from placet.domain.units import format_duration_ms
from placet.domain.values import evolve
from placet.stages import billing

# Absence is a conclusion: this many negative reads, at least this long apart from first to last.
ABSENT_READS = 3
ABSENT_SPAN_S = 1.0
LATE_UNKNOWN_S = 600.0
# When so many, and more than half, of what is live at one provider is absent at once, its list is doubted first: then
# absence has to last for longer.
MASS_LEAST = 3
MASS_SPAN_S = 120.0
# Looks that told nothing for so long are worth an event.
SUSPECT_MS = 60_000

_FORWARD = (
    AttemptState.INTENDED,
    AttemptState.SUBMITTED,
    AttemptState.STARTING,
    AttemptState.RUNNING,
    AttemptState.EXITED,
    AttemptState.COLLECTED,
)


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """The attempt after the observation and the events that tell what changed; no events means nothing new."""

    attempt: Attempt
    events: tuple[Event, ...] = ()


def track(
    attempt: Attempt,
    seen: Observation,
    card: ContractCard,
    *,
    actor: str,
    now_ms: int,
    span_s: float = ABSENT_SPAN_S,
) -> Tracked:
    """Apply one observation; ``span_s`` is for how long absence has to last.

    Any order and any number of repeats of the same observations end in the same state: an attempt that is final stays
    as it is, and a phase that is behind the known one changes nothing.
    """
    if seen.key != attempt.key:
        return Tracked(attempt=attempt)
    if attempt.final:
        return Tracked(attempt=attempt, events=_late(attempt, seen, actor, now_ms))
    match seen.phase:
        case Phase.UNKNOWN:
            return _unseen(attempt, seen, actor, now_ms)
        case Phase.GONE:
            return _absent(attempt, seen, card, actor, now_ms, span_s)
    known = _present(attempt, seen, now_ms)
    back = _returned(attempt, seen, actor, now_ms)
    then = _seen(known, seen, actor, now_ms)
    return then if back is None else Tracked(attempt=then.attempt, events=(back, *then.events))


def _seen(known: Attempt, seen: Observation, actor: str, now_ms: int) -> Tracked:
    match seen.phase:
        case Phase.ENDED:
            return _ended(known, seen, actor, now_ms)
        case Phase.QUEUED | Phase.PROVISIONING | Phase.AWAITING_PERMIT:
            return _forward(known, AttemptState.SUBMITTED, actor, now_ms)
        case Phase.PREPARING:
            return _forward(known, AttemptState.STARTING, actor, now_ms)
        case Phase.RUNNING | Phase.STOPPING:
            return _forward(known, AttemptState.RUNNING, actor, now_ms)
        case Phase.COLLECTING:
            return _forward(_exit_facts(known, seen), AttemptState.EXITED, actor, now_ms)
        case Phase.UNKNOWN | Phase.GONE:
            return Tracked(attempt=known)
        case _:
            assert_never(seen.phase)


def moved(before: Attempt, target: AttemptState, *, actor: str, now_ms: int, message: str = "") -> Tracked:
    """One move of the attempt through the table, with its event."""
    after = evolve(before, state=advance(ATTEMPT_MOVES, before.state, target))
    if after.final:
        after = billing.settled(evolve(after, finished_ms=now_ms), now_ms)
    event = Event(
        workload_id=before.workload_id,
        kind=EventKind.ATTEMPT_MOVED,
        at_ms=now_ms,
        actor=actor,
        epoch=before.epoch,
        from_state=str(before.state),
        to_state=str(target),
        cause=str(after.failure.cause) if after.failure is not None else None,
        message=message or (after.failure.message if after.failure is not None else ""),
    )
    return Tracked(attempt=after, events=(event,))


def _present(attempt: Attempt, seen: Observation, now_ms: int) -> Attempt:
    """A positive sign clears every suspicion of absence."""
    return evolve(
        attempt,
        observed_ms=now_ms,
        absent_reads=0,
        absent_since_ms=None,
        unseen_since_ms=None,
        submitted_ms=attempt.submitted_ms or seen.created_ms or now_ms,
        started_ms=attempt.started_ms or seen.started_ms,
        phases_ms=seen.phases_ms or attempt.phases_ms,
    )


def _unseen(attempt: Attempt, seen: Observation, actor: str, now_ms: int) -> Tracked:
    """A look that told nothing: no sign of life and none of death. It is said once that this has lasted."""
    since_ms = attempt.unseen_since_ms if attempt.unseen_since_ms is not None else now_ms
    told_before = attempt.observed_ms is not None and attempt.observed_ms - since_ms >= SUSPECT_MS
    after = evolve(attempt, observed_ms=now_ms, unseen_since_ms=since_ms)
    if told_before or now_ms - since_ms < SUSPECT_MS:
        return Tracked(attempt=after)
    message = f"no look has told anything of it for {format_duration_ms(now_ms - since_ms)}: {seen.message}"
    event = _event(attempt, EventKind.UNREACHABLE, actor, now_ms, message)
    return Tracked(attempt=after, events=(event,))


def _returned(attempt: Attempt, seen: Observation, actor: str, now_ms: int) -> Event | None:
    """It was unreachable or suspected gone, and is there."""
    if attempt.absent_since_ms is not None:
        message = f"{seen.source} says {seen.phase} after {attempt.absent_reads} reads that did not find it"
        return _event(attempt, EventKind.RETURNED, actor, now_ms, message)
    since_ms, last_ms = attempt.unseen_since_ms, attempt.observed_ms
    if since_ms is None or last_ms is None or last_ms - since_ms < SUSPECT_MS:
        return None
    message = f"{seen.source} says {seen.phase} after {format_duration_ms(now_ms - since_ms)} without a sign"
    return _event(attempt, EventKind.RETURNED, actor, now_ms, message)


def _event(attempt: Attempt, kind: EventKind, actor: str, now_ms: int, message: str) -> Event:
    return Event(
        workload_id=attempt.workload_id, kind=kind, at_ms=now_ms, actor=actor, epoch=attempt.epoch, message=message
    )


def _forward(attempt: Attempt, target: AttemptState, actor: str, now_ms: int) -> Tracked:
    if attempt.state is AttemptState.STOPPING and target is not AttemptState.EXITED:
        return Tracked(attempt=attempt)
    if attempt.state in _FORWARD and _FORWARD.index(target) <= _FORWARD.index(attempt.state):
        return Tracked(attempt=attempt)
    events: tuple[Event, ...] = ()
    if attempt.state is AttemptState.INTENDED and target not in ATTEMPT_MOVES[AttemptState.INTENDED]:
        first = moved(attempt, AttemptState.SUBMITTED, actor=actor, now_ms=now_ms)
        attempt, events = first.attempt, first.events
    then = moved(attempt, target, actor=actor, now_ms=now_ms)
    return Tracked(attempt=then.attempt, events=(*events, *then.events))


def _exit_facts(attempt: Attempt, seen: Observation) -> Attempt:
    """What the exit record proves. ``failure`` stays empty only for a program that ended well."""
    failure = attempt.failure
    if failure is None and seen.cause is not None:
        failure = Failure(
            cause=seen.cause,
            message=seen.message,
            exit_code=seen.exit_code,
            signal=seen.signal,
            evidence=seen.evidence,
        )
    elif failure is None and seen.phase is Phase.ENDED and not seen.computed:
        # Ended without a cause and without proof of success: not a success, and no cause is invented.
        failure = Failure(cause=Cause.LOST, message="it ended and nothing proves how", evidence=seen.evidence)
    begun_ms = billing.begun_ms(attempt) if seen.created_ms is None else seen.created_ms
    return evolve(
        attempt,
        exited_ms=attempt.exited_ms or seen.ended_ms,
        exit_code=seen.exit_code if seen.exit_code is not None else attempt.exit_code,
        signal=seen.signal if seen.signal is not None else attempt.signal,
        computed=attempt.computed or seen.computed,
        failure=None if attempt.computed or seen.computed else failure,
        logs=seen.logs or attempt.logs,
        usage=seen.usage,
        evidence=seen.evidence or attempt.evidence,
        cost_usd=attempt.cost_usd if seen.ended_ms is None else billing.charge_usd(attempt, seen.ended_ms - begun_ms),
    )


def _ended(attempt: Attempt, seen: Observation, actor: str, now_ms: int) -> Tracked:
    known = _exit_facts(attempt, seen)
    if known.state is AttemptState.STOPPING and not known.computed:
        return moved(known, AttemptState.STOPPED, actor=actor, now_ms=now_ms)
    if seen.cause is Cause.LOST:
        return _lost(known, actor, now_ms)
    first = _forward(known, AttemptState.EXITED, actor, now_ms)
    if not seen.collected:
        return first
    then = moved(first.attempt, AttemptState.COLLECTED, actor=actor, now_ms=now_ms)
    return Tracked(attempt=then.attempt, events=(*first.events, *then.events))


def _lost(attempt: Attempt, actor: str, now_ms: int) -> Tracked:
    events: tuple[Event, ...] = ()
    if attempt.state is AttemptState.INTENDED:
        first = moved(attempt, AttemptState.SUBMITTED, actor=actor, now_ms=now_ms)
        attempt, events = first.attempt, first.events
    then = moved(attempt, AttemptState.LOST, actor=actor, now_ms=now_ms)
    return Tracked(attempt=then.attempt, events=(*events, *then.events))


def absence_span_s(live: int, absent: int) -> float:
    """For how long absence has to last, by how many of a provider's live attempts are absent now."""
    return MASS_SPAN_S if absent >= MASS_LEAST and absent * 2 > live else ABSENT_SPAN_S


def absence_proven(attempt: Attempt, card: ContractCard, now_ms: int, span_s: float = ABSENT_SPAN_S) -> bool:
    """The absence rule: enough negative reads, over as long as something could have been hidden from all of them.

    What certainly came to be may be invisible at any time for as long as the card says; a create whose outcome is not
    known may besides take effect late. Where nobody knows how late, absence is never proven. Only the time between
    reads of one worker counts, so that no two clocks are compared.
    """
    if attempt.absent_since_ms is None or attempt.absent_reads < ABSENT_READS:
        return False
    came_to_be = attempt.handle is not None or attempt.permit_ms is not None
    if card.late_create_s is None and not came_to_be:
        return False
    hidden_s = card.visibility_s + (0.0 if came_to_be else card.late_create_s or 0.0)
    return now_ms - attempt.absent_since_ms >= int(max(hidden_s, span_s) * 1000)


def leftovers_absent(attempt: Attempt, card: ContractCard, now_ms: int) -> bool:
    """Is nothing left of an attempt that is over and was never seen?

    Where nobody knows how late its create may land, that is believed after ``LATE_UNKNOWN_S``; what lands later still
    is refused its permit, and found in the provider's own list.
    """
    late_s = card.late_create_s if card.late_create_s is not None else LATE_UNKNOWN_S
    return absence_proven(attempt, evolve(card, late_create_s=late_s), now_ms)


def absent_again(attempt: Attempt, now_ms: int) -> Attempt:
    """The attempt after one more read that did not find it."""
    return evolve(
        attempt,
        absent_reads=attempt.absent_reads + 1,
        absent_since_ms=attempt.absent_since_ms if attempt.absent_since_ms is not None else now_ms,
    )


def _absent(attempt: Attempt, seen: Observation, card: ContractCard, actor: str, now_ms: int, span_s: float) -> Tracked:
    # What was read before this process stood still says nothing of the time since.
    read_ms = min(seen.observed_ms, now_ms)
    counted = absent_again(attempt, read_ms)
    if not absence_proven(counted, card, read_ms, span_s):
        return Tracked(attempt=counted)
    if counted.state is AttemptState.STOPPING:
        return moved(counted, AttemptState.STOPPED, actor=actor, now_ms=now_ms, message="verified absent")
    gone = evolve(
        counted,
        failure=counted.failure
        or Failure(cause=Cause.LOST, message="the provider no longer knows it", evidence=seen.evidence),
    )
    return _lost(gone, actor, now_ms)


def _late(attempt: Attempt, seen: Observation, actor: str, now_ms: int) -> tuple[Event, ...]:
    """A fact that came after the end is kept as an event and changes nothing; a repeat of what is known is not news.

    Nor is what was seen before the end and is heard only now.
    """
    since = attempt.finished_ms is None or seen.observed_ms > attempt.finished_ms
    contradicts = (seen.phase is Phase.RUNNING and since) or (seen.computed and not attempt.computed)
    if not contradicts:
        return ()
    message = f"{seen.source} says {seen.phase} after the attempt had ended as {attempt.state}"
    return (_event(attempt, EventKind.LATE_FACT, actor, now_ms, message),)
