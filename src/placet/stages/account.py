"""The nine answers about a workload, from its record and events alone; what cannot be known is ``unknown``."""

from collections.abc import Sequence
from dataclasses import dataclass

from placet.domain.account import Account, Advice, Answer, Question, Truth
from placet.domain.failures import Cause, RetrySafety
from placet.domain.records import Attempt, Event, EventKind, Record
from placet.domain.spec import Repeat
from placet.domain.states import ATTEMPT_LIVE, AttemptState, DeliveryState, Desired, WorkloadState
from placet.domain.units import format_duration_ms, format_instant, format_money
from placet.stages import delivery, doubt, stopping

# After this long without a positive sign, what was last seen is no longer taken for what is.
FRESH_MS = 90_000
CHECK_AGAIN_MS = 10_000
# Longer than it takes to prove absence where a provider's card says how late a create may land.
LONG_DOUBT_MS = 15 * 60_000

_A = AttemptState
_STARTED = frozenset({_A.RUNNING, _A.EXITED, _A.COLLECTED})
_SECURED = frozenset({_A.STARTING, *_STARTED})


@dataclass(frozen=True, kw_only=True)
class _View:
    """The record with what every question asks of it."""

    record: Record
    events: Sequence[Event]
    now_ms: int

    @property
    def attempt(self) -> Attempt | None:
        return self.record.current

    @property
    def live(self) -> tuple[Attempt, ...]:
        """Attempts that may have something at a provider that runs or costs."""
        return tuple(attempt for attempt in self.record.attempts if attempt.state in ATTEMPT_LIVE)

    @property
    def given_up(self) -> tuple[Attempt, ...]:
        """Attempts that count as lost while nobody knew whether they ran, and that are not proven gone."""
        return tuple(attempt for attempt in self.record.attempts if attempt.given_up_by and attempt.released_ms is None)

    @property
    def collecting(self) -> bool:
        """Has the program of everything that is live ended, so that only its outputs are dealt with?"""
        return bool(self.live) and all(attempt.state is _A.EXITED for attempt in self.live)

    @property
    def vanished(self) -> tuple[Attempt, ...]:
        """Attempts that are gone and had their permit: nobody saw what their programs came to."""
        return tuple(
            attempt
            for attempt in self.record.attempts
            if _may_have_run(attempt) and attempt.exited_ms is None and attempt.state in (_A.LOST, _A.STOPPED)
        )

    def seqs(self, *kinds: EventKind, to_state: str | None = None) -> tuple[int, ...]:
        """The newest three events that bear on an answer."""
        found = [
            event.seq
            for event in self.events
            if event.kind in kinds and (to_state is None or event.to_state == to_state)
        ]
        return tuple(found[-3:])

    def answer(
        self, question: Question, truth: Truth, why: str, events: tuple[int, ...], source: str = "placet"
    ) -> Answer:
        at_ms = next((event.at_ms for event in reversed(self.events) if event.seq in events), None)
        age_ms = None if at_ms is None else max(self.now_ms - at_ms, 0)
        return Answer(question=question, answer=truth, why=why, events=events, age_ms=age_ms, source=source)


def account(record: Record, events: Sequence[Event], *, now_ms: int) -> Account:
    """All nine answers at this moment, and what to do."""
    view = _View(record=record, events=events, now_ms=now_ms)
    advice, why = _advice(view)
    answers = (
        _accepted(view),
        _secured(view),
        _started(view),
        _queued(view),
        _safe_to_retry(view),
        _duplicates(view),
        _computed_not_delivered(view),
        view.answer(Question.ADVICE, Truth.YES, f"{advice}: {why}", _newest(view)),
        _owner(view),
    )
    return Account(
        workload_id=record.workload.id,
        at_ms=now_ms,
        answers=answers,
        advice=advice,
        advice_why=why,
        check_again_ms=None if record.workload.final else now_ms + CHECK_AGAIN_MS,
    )


def _may_have_run(attempt: Attempt) -> bool:
    """Did it have its permit, or was it seen to run? A power cut may have taken back the one and not the other."""
    return attempt.permit_ms is not None or attempt.started_ms is not None


def _unresolved(attempt: Attempt) -> bool:
    """Is it over because nothing of it was found?"""
    return attempt.failure is not None and attempt.failure.cause is Cause.UNRESOLVED


def _newest(view: _View) -> tuple[int, ...]:
    return (view.events[-1].seq,) if view.events else ()


def _owner(view: _View) -> Answer:
    """Always Placet; ``source`` is whose evidence decided it."""
    question, workload, attempt = Question.OWNER, view.record.workload, view.attempt
    events = view.seqs(EventKind.RESULT, EventKind.MOVED)
    ours = "Placet decides the final state; the provider only supplies evidence"
    if not workload.final:
        return view.answer(question, Truth.YES, ours, events)
    cause = None if workload.failure is None else workload.failure.cause
    by_attempt = attempt is not None and (
        cause is None or (attempt.failure is not None and attempt.failure.cause is cause)
    )
    if not by_attempt or attempt is None:
        return view.answer(question, Truth.YES, f"{ours}; here Placet decided without one: {cause}", events)
    what = f"exit code {attempt.exit_code}" if attempt.exit_code is not None else str(cause or attempt.state)
    why = f"{ours}; here {attempt.provider} said of attempt {attempt.epoch}: {what}"
    return view.answer(question, Truth.YES, why, events, attempt.provider)


def _accepted(view: _View) -> Answer:
    return view.answer(
        Question.ACCEPTED, Truth.YES, "its row was committed before it was answered", view.seqs(EventKind.ACCEPTED)
    )


def _fresh(view: _View, attempt: Attempt) -> bool:
    looked_ms = attempt.observed_ms if attempt.unseen_since_ms is None else attempt.unseen_since_ms
    seen_ms = max(looked_ms or 0, attempt.permit_ms or 0)  # a runner that asks for its permit is there
    return view.now_ms - seen_ms <= FRESH_MS


def _secured(view: _View) -> Answer:
    question, attempt = Question.CAPACITY_SECURED, view.attempt
    events = view.seqs(EventKind.ATTEMPT_MOVED, EventKind.PERMIT_GRANTED, EventKind.INTENT_SENT)
    if attempt is None or attempt.state is _A.REFUSED:
        return view.answer(question, Truth.NO, "nothing is allocated", events)
    if attempt.final and view.record.workload.state in (WorkloadState.ACCEPTED, WorkloadState.WAITING):
        return view.answer(question, Truth.NO, f"attempt {attempt.epoch} is over and the next one has none yet", events)
    if not attempt.final and attempt.absent_reads:
        why = f"absent in {attempt.absent_reads} reads; that is not yet a proof"
        return view.answer(question, Truth.UNKNOWN, why, events, attempt.provider)
    secured = attempt.state in _SECURED or attempt.permit_ms is not None
    if secured and not attempt.final and not _fresh(view, attempt):
        return view.answer(question, Truth.UNKNOWN, f"no fresh sign; the attempt is {attempt.state}", events)
    if secured:
        return view.answer(
            question, Truth.YES, f"the allocation was seen; the attempt is {attempt.state}", events, attempt.provider
        )
    if attempt.state in (_A.INTENDED, _A.UNKNOWN, _A.SUBMITTED, _A.STOPPING):
        return view.answer(question, Truth.UNKNOWN, f"asked for, not yet seen able to start ({attempt.state})", events)
    return view.answer(question, Truth.NO, f"the attempt is {attempt.state}", events)


def _started(view: _View) -> Answer:
    question = Question.STARTED
    started = [attempt for attempt in view.record.attempts if attempt.started_ms is not None]
    events = view.seqs(EventKind.PERMIT_GRANTED, EventKind.ATTEMPT_MOVED)
    if started:
        return view.answer(
            question, Truth.YES, f"attempt {started[-1].epoch} reported its start", events, started[-1].provider
        )
    permitted = [attempt for attempt in view.live if attempt.permit_ms is not None]
    if permitted:
        return view.answer(question, Truth.UNKNOWN, "it has its permit and has not reported its start yet", events)
    unclear = [attempt for attempt in view.record.attempts if attempt.permit_ms is not None]
    if any(attempt.state is _A.LOST or attempt.exited_ms is None for attempt in unclear):
        return view.answer(question, Truth.UNKNOWN, "it had its permit and was lost before it reported", events)
    if any(attempt.state is _A.UNKNOWN or _unresolved(attempt) for attempt in view.record.attempts):
        return view.answer(question, Truth.UNKNOWN, "of one nothing was found, which may have been forgotten", events)
    return view.answer(question, Truth.NO, "no start permit was given", events)


def _queued(view: _View) -> Answer:
    """Yes: still waiting; no: past the queue or proven lost; unknown: no fresh sign of what was submitted."""
    question, workload, attempt = Question.STILL_QUEUED, view.record.workload, view.attempt
    events = view.seqs(EventKind.MOVED, EventKind.WAITING, EventKind.ATTEMPT_MOVED)
    if workload.state in (WorkloadState.ACCEPTED, WorkloadState.WAITING):
        return view.answer(question, Truth.YES, f"with us: {workload.reason or 'next in line'}", events)
    if view.given_up and not workload.final:
        why = f"attempt {view.given_up[-1].epoch} was given up and is not proven gone"
        return view.answer(question, Truth.UNKNOWN, why, view.seqs(EventKind.GIVEN_UP))
    if attempt is None or attempt.final or attempt.state in _SECURED:
        return view.answer(question, Truth.NO, f"the workload is {workload.state}", events)
    if attempt.absent_reads:
        why = f"absent in {attempt.absent_reads} reads; that is not yet a proof"
        return view.answer(question, Truth.UNKNOWN, why, events, attempt.provider)
    if attempt.state is _A.SUBMITTED and _fresh(view, attempt):
        age_ms = view.now_ms - (attempt.observed_ms or view.now_ms)
        why = f"the provider had it {format_duration_ms(age_ms)} ago"
        return view.answer(question, Truth.YES, why, events, attempt.provider)
    return view.answer(question, Truth.UNKNOWN, f"no fresh sign; the attempt is {attempt.state}", events)


def _safe_to_retry(view: _View) -> Answer:
    """Yes only when nothing of this workload can be running anywhere."""
    question = Question.SAFE_TO_RETRY
    events = view.seqs(EventKind.ATTEMPT_MOVED, EventKind.INTENT_SETTLED, EventKind.RESULT)
    if view.live:
        states = ", ".join(f"attempt {attempt.epoch} is {attempt.state}" for attempt in view.live)
        if view.collecting:
            why = f"{states}: its program has ended and its outputs are being collected; Placet itself goes on with it"
            return view.answer(question, Truth.NO, why, events)
        return view.answer(question, Truth.NO, f"{states}; a second copy could run", events)
    if not view.record.workload.final:
        return view.answer(question, Truth.NO, "Placet itself goes on with it", events)
    if view.given_up:
        why = f"attempt {view.given_up[-1].epoch} was given up and is not proven gone; it may still run"
        return view.answer(question, Truth.UNKNOWN, why, view.seqs(EventKind.GIVEN_UP))
    return view.answer(question, Truth.YES, "every attempt is over, and what was lost is proven absent", events)


def _duplicates(view: _View) -> Answer:
    question = Question.RETRY_DUPLICATES
    events = view.seqs(EventKind.ATTEMPT_MOVED, EventKind.RESULT)
    if view.collecting and not view.record.workload.compute_done:
        return view.answer(question, Truth.YES, "its program has ended; another run would be a second one", events)
    if view.live and not view.collecting:
        return view.answer(question, Truth.YES, "an attempt may be running and costing now", events)
    if view.given_up:
        why = f"attempt {view.given_up[-1].epoch} was given up and is not proven gone; it may still cost"
        return view.answer(question, Truth.UNKNOWN, why, view.seqs(EventKind.GIVEN_UP))
    if view.record.workload.compute_done:
        spent = sum(attempt.cost_usd for attempt in view.record.attempts)
        return view.answer(
            question, Truth.YES, f"the work is done; another run would cost about ${spent} again", events
        )
    workload = view.record.workload
    if not workload.final and workload.desired is Desired.RUN:
        return view.answer(question, Truth.YES, "Placet itself goes on with it; another would be a second one", events)
    if view.vanished:
        why = f"attempt {view.vanished[-1].epoch} is gone, and what its program did before is not known"
        return view.answer(question, Truth.UNKNOWN, why, events)
    return view.answer(question, Truth.NO, "nothing runs and nothing was computed", events)


def _computed_not_delivered(view: _View) -> Answer:
    question, workload = Question.COMPUTED_NOT_DELIVERED, view.record.workload
    events = view.seqs(EventKind.OUTPUTS, EventKind.MOVED)
    if not workload.compute_done:
        # A power cut may have taken back all that came after an intent, and a provider that forgets shows nothing of
        # what has ended.
        perhaps = view.live or view.vanished or any(_unresolved(one) for one in view.record.attempts)
        truth = Truth.UNKNOWN if perhaps else Truth.NO
        return view.answer(question, truth, "no proof of a finished computation yet", events)
    delivered = workload.delivery in (DeliveryState.COMPLETE, DeliveryState.NONE)
    if delivered and workload.final:
        return view.answer(question, Truth.NO, f"delivery is {workload.delivery}", events)
    if workload.state is WorkloadState.DELIVERING:
        why = f"delivery waits: {workload.reason}" if workload.reason else "the outputs are being delivered"
        return view.answer(question, Truth.YES, why, events)
    return view.answer(question, Truth.YES, f"delivery is {workload.delivery}", events)


def _advice(view: _View) -> tuple[Advice, str]:
    """The rows of the table in docs/account.md, from the top; the first that fits counts."""
    workload = view.record.workload
    if workload.state is WorkloadState.SUCCEEDED:
        return Advice.NOTHING, "it is done"
    if _kept(view):
        until = f" until {format_instant(workload.wake_ms)}" if workload.wake_ms is not None else ""
        return Advice.REDELIVER, f"it was computed, and what it wrote is kept where it is{until}: `placet redeliver`"
    if workload.final:
        return _advice_after_the_end(view)
    if workload.state is WorkloadState.WAITING:
        return Advice.WAIT, workload.reason or "it is next in line"
    stop = stopping.stop_of(view.record, view.now_ms)
    if stop is not None and stop.stage is not stopping.StopStage.CONFIRMED:
        still = f"; it may still cost {format_money(stop.usd_per_hour)} per hour" if stop.usd_per_hour else ""
        return Advice.WAIT, f"its stop is {stop.stage}{still}"
    if workload.reason.startswith(doubt.NOBODY):
        return Advice.RESOLVE, workload.reason
    if any(doubt.in_doubt(attempt, view.now_ms - LONG_DOUBT_MS) for attempt in view.live):
        return Advice.RESOLVE, "nobody can tell whether it runs, and waiting may not end that: `placet resolve`"
    return Advice.WAIT, _unclear(view) or f"it is {workload.state}"


def _kept(view: _View) -> bool:
    """Is what was not delivered kept for a while? An ended workload sleeps for as long, and then lets it go."""
    workload, attempt = view.record.workload, view.attempt
    sleeps = workload.wake_ms is not None and workload.wake_ms > view.now_ms
    return sleeps and delivery.kept(workload) and attempt is not None and attempt.released_ms is None


def _advice_after_the_end(view: _View) -> tuple[Advice, str]:
    workload, failure = view.record.workload, view.record.workload.failure
    if view.given_up:
        return Advice.WAIT, f"attempt {view.given_up[-1].epoch} was given up, may still run, and is being looked for"
    if failure is not None and failure.meaning.retry is RetrySafety.POINTLESS:
        return Advice.NOTHING, f"the same request would end the same way; {failure.meaning.fix}"
    if workload.spec.repeat is Repeat.AT_MOST_ONCE and any(_may_have_run(each) for each in view.record.attempts):
        return Advice.NOTHING, "it may be started once, and was; whether a second start does harm only you know"
    fix = failure.meaning.fix if failure is not None else "nothing speaks against it"
    return Advice.RESUBMIT, f"nothing of it runs any more; {fix}"


def _unclear(view: _View) -> str:
    """What nobody can tell about the attempts that may be live, if there is such a thing."""
    since_ms = [since for attempt in view.live if (since := doubt.since_ms(attempt)) is not None]
    if any(doubt.in_doubt(attempt, view.now_ms) for attempt in view.live):
        return "nobody can tell whether it runs; `placet resolve` shows what going on without it may cost"
    if any(attempt.state is _A.UNKNOWN for attempt in view.live):
        return "an answer is outstanding; submitting again could run it twice"
    if not since_ms:
        return ""
    ago = format_duration_ms(max(view.now_ms - min(since_ms), 0))
    return f"it was looked for in vain since {ago} ago; after {format_duration_ms(doubt.DOUBT_MS)} that is a doubt"
