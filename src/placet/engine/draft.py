"""A record being changed: it collects rows and events until they become one transition. It decides nothing."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from placet.domain.allocations import ContractCard, Observation, Phase
from placet.domain.decisions import Decision
from placet.domain.failures import Cause, Failure
from placet.domain.records import Artifact, Attempt, Event, EventKind, Expect, Intent, Lease, Record, Transition
from placet.domain.states import (
    INTENT_MOVES,
    WORKLOAD_MOVES,
    AttemptState,
    DeliveryState,
    IntentState,
    IntentVerb,
    WorkloadState,
    advance,
)
from placet.domain.units import SECOND_MS, format_bytes
from placet.domain.values import evolve
from placet.stages import billing, budgets, result, tracking
from placet.stages.course import Course
from placet.stages.delivery import Delivery, kept
from placet.stages.doubt import GivesUp
from placet.stages.recovery import Again
from placet.stages.stopping import TAKEN

# The time of the last look at something that did not change is written this often, not at every look.
OBSERVED_WRITE_MS = 60_000
# What was computed and could not be delivered stays where it is for so long.
UNDELIVERED_KEPT_MS = 24 * 3_600_000
# Of offers that had no capacity so many are remembered.
EXCLUDED_MAX = 64
# So many files that could not be outputs are named.
LEFT_OUT_TOLD = 5
# From the end of a program to that of its machine: a provider that forgets what has ended counts from the latter.
FORGOTTEN_SINCE_MS = 30 * SECOND_MS


class Draft:
    """One decision's changes to one record. Every state move goes through its table."""

    def __init__(self, record: Record, *, worker: str, now_ms: int) -> None:
        self.workload = record.workload
        self.attempts = list(record.attempts)
        self.worker = worker
        self.now_ms = now_ms
        self.last_seen: Observation | None = None
        # What the provider has just said of the current attempt.
        self.phase: Phase | None = None
        # What was heard to stand in the way of the outputs.
        self.obstacle = ""
        self.delivered: tuple[Artifact, ...] = ()
        self.delivery_problem: str | None = None
        self.delivery_over = False
        self.course: Course | None = None
        # For how long the provider of the last attempt remembers what has ended; ``None``: until it is released.
        self.remembered_s: int | None = None
        # Why nothing may be ended by the clock.
        self.hands_off = ""
        self._before = record
        self._intents = {(intent.verb, intent.epoch): intent for intent in record.intents}
        self._changed_attempts: set[int] = set()
        self._changed_intents: set[tuple[IntentVerb, int]] = set()
        self._events: list[Event] = []
        self._decisions: list[Decision] = []
        self._result: str | None = None
        self._flush = False

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of the current epoch."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].epoch == self.workload.epoch else None

    def spent_usd(self) -> Decimal:
        """What all attempts have cost so far."""
        return sum((attempt.cost_usd for attempt in self.attempts), Decimal(0))

    @property
    def concluded(self) -> bool:
        """Has the workload drawn its conclusion from its last attempt, or had none yet?"""
        return self.workload.state in (WorkloadState.ACCEPTED, WorkloadState.WAITING)

    @property
    def kept_until_ms(self) -> int:
        """Until when nothing of it may be deleted: somebody may still want what was computed and not delivered."""
        if not kept(self.workload):
            return 0
        until_ms = (self.workload.finished_ms or self.now_ms) + UNDELIVERED_KEPT_MS
        attempt = self.attempt
        if self.remembered_s is None or attempt is None or attempt.exited_ms is None:
            return until_ms
        return min(until_ms, attempt.exited_ms + self.remembered_s * SECOND_MS + FORGOTTEN_SINCE_MS)

    def unreleased(self) -> tuple[Attempt, ...]:
        """Ended attempts that may still hold something at their provider."""
        return tuple(
            attempt
            for attempt in self.attempts
            if attempt.final and attempt.released_ms is None and attempt.state is not AttemptState.REFUSED
        )

    def tell(self, kind: EventKind, *, epoch: int | None = None, message: str = "") -> None:
        """Add an event that is no move."""
        self._add(
            Event(
                workload_id=self.workload.id,
                kind=kind,
                at_ms=self.now_ms,
                actor=self.worker,
                epoch=epoch,
                message=message,
            )
        )

    def move(self, target: WorkloadState, *, cause: str | None = None, message: str = "") -> None:
        """Move the workload through its table."""
        before = self.workload.state
        self.workload = evolve(
            self.workload, state=advance(WORKLOAD_MOVES, before, target), state_since_ms=self.now_ms, reason=message
        )
        self._add(
            Event(
                workload_id=self.workload.id,
                kind=EventKind.MOVED,
                at_ms=self.now_ms,
                actor=self.worker,
                epoch=self.workload.epoch or None,
                from_state=str(before),
                to_state=str(target),
                cause=cause,
                message=message,
            )
        )

    def put_attempt(self, attempt: Attempt, events: Sequence[Event]) -> None:
        """Replace an attempt's row."""
        index = next(index for index, known in enumerate(self.attempts) if known.epoch == attempt.epoch)
        known, self.attempts[index] = self.attempts[index], attempt
        if not events and self._worth_no_write(known, attempt):
            return
        self._changed_attempts.add(attempt.epoch)
        self._events.extend(events)

    def move_attempt(self, attempt: Attempt, target: AttemptState, message: str = "") -> None:
        """Move an attempt through its table."""
        tracked = tracking.moved(attempt, target, actor=self.worker, now_ms=self.now_ms, message=message)
        self.put_attempt(tracked.attempt, tracked.events)

    def begin_attempt(self, attempt: Attempt, intent: Intent, events: Sequence[Event], decision: Decision) -> None:
        """The next epoch: its attempt and its intent, committed and flushed before anything is sent."""
        self.workload = evolve(self.workload, epoch=attempt.epoch, wait_for="", wake_ms=0)
        self.move(WorkloadState.PLACING)
        self.attempts.append(attempt)
        self._changed_attempts.add(attempt.epoch)
        self._decisions.append(decision)
        self._intents[intent.verb, intent.epoch] = intent
        self._changed_intents.add((intent.verb, intent.epoch))
        self._events.extend(events)
        self._flush = True

    def give_up(self, attempt: Attempt, verdict: GivesUp) -> Attempt:
        """Count an attempt as lost of which nobody knows whether it runs; at its worst cost, and what is left of it is
        looked for from now on.
        """
        self.tell(EventKind.GIVEN_UP, epoch=attempt.epoch, message=f"{verdict.reason}, by {verdict.by}")
        failure = Failure(cause=Cause.LOST, message=verdict.reason)
        self.move_attempt(evolve(attempt, given_up_by=verdict.by, failure=failure), AttemptState.LOST)
        lost = next(known for known in self.attempts if known.epoch == attempt.epoch)
        worst = max(lost.cost_usd, verdict.cost_usd or Decimal(0))
        lost = evolve(lost, cost_usd=worst, wasted_usd=worst, absent_reads=0, absent_since_ms=None)
        self.put_attempt(lost, ())
        self._flush = True
        return lost

    def intend(self, verb: IntentVerb, epoch: int) -> None:
        """An intent to change the provider, committed before it is sent."""
        self._intents[verb, epoch] = Intent(
            workload_id=self.workload.id,
            epoch=epoch,
            verb=verb,
            state=IntentState.SENT,
            sent_ms=self.now_ms,
            sender=self.worker,
        )
        self._changed_intents.add((verb, epoch))
        self.tell(EventKind.INTENT_SENT, epoch=epoch, message=str(verb))
        self._flush = True

    def forget_absence(self) -> None:
        """Another worker's reads were timed by another clock: the proof of absence begins anew."""
        for attempt in list(self.attempts):
            if attempt.absent_since_ms is not None and attempt.released_ms is None:
                self.put_attempt(evolve(attempt, absent_reads=0, absent_since_ms=None), ())

    def flush(self) -> None:
        """Let this change survive a power cut before anything follows from it."""
        self._flush = True

    def settle(self, verb: IntentVerb, epoch: int, target: IntentState, evidence: str) -> None:
        """Close an open intent by evidence; nothing happens when it is closed already."""
        intent = self._intents.get((verb, epoch))
        if intent is None or not INTENT_MOVES[intent.state] or intent.state is target:
            return
        closed = None if target is IntentState.AMBIGUOUS else self.now_ms
        moved_to = advance(INTENT_MOVES, intent.state, target)
        self._intents[verb, epoch] = evolve(intent, state=moved_to, settled_ms=closed, evidence=evidence)
        self._changed_intents.add((verb, epoch))
        if target is not IntentState.CONFIRMED:
            self.tell(EventKind.INTENT_SETTLED, epoch=epoch, message=f"{verb} {target}: {evidence}")

    def stop_taken(self, key: str) -> None:
        """The provider took the request to stop an attempt; told once."""
        for attempt in self.attempts:
            intent = self._intents.get((IntentVerb.CANCEL, attempt.epoch))
            if attempt.key != key or intent is None or not INTENT_MOVES[intent.state] or intent.evidence == TAKEN:
                continue
            self._intents[intent.verb, intent.epoch] = evolve(intent, evidence=TAKEN)
            self._changed_intents.add((intent.verb, intent.epoch))
            self.tell(EventKind.STOP_TAKEN, epoch=attempt.epoch, message=TAKEN)

    def wait(self, wait_for: str, reason: str, until_ms: int) -> None:
        """Sleep without an owner until something changes; the reason stays visible."""
        if self.workload.state is not WorkloadState.WAITING:
            self.move(WorkloadState.WAITING, message=reason)
        elif self.workload.reason != reason:
            self.workload = evolve(self.workload, reason=reason)
            self.tell(EventKind.WAITING, message=reason)
        lease = Lease(owner=None, epoch=self.workload.lease.epoch)
        excluded = self.workload.excluded_offers if wait_for != "capacity" else ()
        self.workload = evolve(
            self.workload, wait_for=wait_for, wake_ms=until_ms, lease=lease, excluded_offers=excluded
        )

    def wait_for_spot(self, wait_for: str, reason: str, until_ms: int) -> None:
        """Wait for the next look; the owner keeps it, and with it what it has seen of spot."""
        if self.workload.state is not WorkloadState.WAITING:
            self.move(WorkloadState.WAITING, message=reason)
        elif self.workload.wait_for != wait_for:
            self.tell(EventKind.WAITING, message=reason)
        self.workload = evolve(self.workload, wait_for=wait_for, wake_ms=until_ms, reason=reason, excluded_offers=())

    def hand_back(self, reason: str, until_ms: int) -> None:
        """Give up ownership without moving anything."""
        if self.workload.reason != reason:
            self.tell(EventKind.WAITING, message=reason)
        lease = Lease(owner=None, epoch=self.workload.lease.epoch)
        self.workload = evolve(self.workload, reason=reason, wake_ms=until_ms, lease=lease)

    def obstructed(self, problem: str, until_ms: int | None = None) -> None:
        """Say what the delivery waits for, and until when it is not tried again; the owner keeps it."""
        if problem != self.workload.reason:
            self.workload = evolve(self.workload, reason=problem)
            self.tell(EventKind.WAITING, epoch=self.workload.epoch, message=problem)
        if until_ms is not None:
            self.workload = evolve(self.workload, wake_ms=until_ms)

    def wait_to_retry(self, wait_for: str, again: Again) -> None:
        """Wait for the next attempt's time; the owner keeps it."""
        self.move(WorkloadState.WAITING, message=again.reason)
        self.workload = evolve(
            self.workload,
            wait_for=wait_for,
            wake_ms=again.at_ms,
            user_failures=again.user_failures,
            infrastructure_failures=again.infrastructure_failures,
            excluded_offers=self._excluded(again),
        )

    def _excluded(self, again: Again) -> tuple[str, ...]:
        """What the next choice leaves alone: what has just failed, and in a row of refusals for lack of capacity all
        that have refused, so that each offer is asked once before any is asked again.
        """
        if again.exclude_offer is None:
            return ()
        failure = None if self.attempt is None else self.attempt.failure
        full = failure is not None and failure.cause is Cause.NO_CAPACITY
        refused = self.workload.excluded_offers if full else ()
        return (*refused, again.exclude_offer)[-EXCLUDED_MAX:]

    def count_failures(self, user: int, infrastructure: int) -> None:
        """The failure counters as they are in the end."""
        self.workload = evolve(self.workload, user_failures=user, infrastructure_failures=infrastructure)

    def computed(self) -> None:
        """The program ended well: a fact of its own, whatever becomes of the outputs."""
        self.workload = evolve(self.workload, compute_done=True)
        self.move(WorkloadState.DELIVERING)
        self._flush = True

    def note_delivery(self, delivery: Delivery) -> None:
        """What is there of the declared outputs; told once. Until they are delivered they are missing."""
        if delivery.state is DeliveryState.NONE or self.workload.delivery is not DeliveryState.NONE:
            return
        # What was left out is never delivered, so that in the end they are not complete.
        at_first = DeliveryState.PARTIAL if delivery.left_out else DeliveryState.MISSING
        self.workload = evolve(self.workload, delivery=at_first)
        count = len(delivery.found)
        size = format_bytes(sum(found.size_bytes for found in delivery.found))
        found = f", {count} {'file' if count == 1 else 'files'} of {size}" if count else ""
        missing = f", missing: {', '.join(delivery.missing)}" if delivery.missing else ""
        more = len(delivery.left_out) - LEFT_OUT_TOLD
        told = "; ".join(delivery.left_out[:LEFT_OUT_TOLD]) + (f"; and {more} more" if more > 0 else "")
        left = f", left out: {told}" if told else ""
        self.tell(EventKind.OUTPUTS, epoch=self.workload.epoch, message=f"{delivery.state}{found}{missing}{left}")

    def finish(self, state: WorkloadState, failure: Failure | None, *, delivery: DeliveryState | None = None) -> None:
        """The verdict, with its result; both are written once and flushed."""
        self.workload = evolve(
            self.workload,
            failure=failure,
            finished_ms=self.now_ms,
            wait_for="",
            delivery=delivery if delivery is not None else self.workload.delivery,
        )
        self.move(
            state,
            cause=str(failure.cause) if failure is not None else None,
            message=failure.message if failure is not None else "",
        )
        self._result = result.conclude(self.workload, self.attempts, self.delivered)
        self._flush = True

    def released(self, epoch: int, cards: Mapping[str, ContractCard]) -> None:
        """Note that an allocation is proven gone, and what it has cost until now where that counts."""
        for attempt in self.attempts:
            if attempt.epoch != epoch or attempt.released_ms is not None:
                continue
            after = evolve(attempt, released_ms=self.now_ms)
            if cards[attempt.provider].bills_until_release and attempt.exited_ms is not None:
                after = billing.until_gone(after, self.now_ms)
            self.put_attempt(after, ())

    def transition(self) -> Transition | None:
        """All changes as one write, or ``None`` when nothing changed."""
        before = self._before.workload
        if self.workload.final:
            self._let_go()
        if not (self._changed_attempts or self._changed_intents or self._events or self.workload != before):
            return None
        changed = tuple(attempt for attempt in self.attempts if attempt.epoch in self._changed_attempts)
        return Transition(
            expect=Expect(revision=before.revision, state=before.state, lease=before.lease),
            workload=evolve(self.workload, revision=before.revision + 1, updated_ms=self.now_ms),
            attempts=changed,
            intents=tuple(self._intents[key] for key in sorted(self._changed_intents)),
            events=tuple(self._events),
            decisions=tuple(self._decisions),
            charges=budgets.charges(self.workload, self._before.attempts, changed),
            artifacts=self.delivered if self._result is not None else (),
            result=self._result,
            flush=self._flush,
        )

    def record(self, transition: Transition | None) -> Record:
        """The record as it is once the transition, if any, is written."""
        open_intents = tuple(intent for intent in self._intents.values() if INTENT_MOVES[intent.state])
        workload = self._before.workload if transition is None else transition.workload
        return Record(workload=workload, attempts=tuple(self.attempts), intents=open_intents)

    def _worth_no_write(self, before: Attempt, after: Attempt) -> bool:
        """Only the time of the last look differs, and the stored one is young enough for the account."""
        seen_ms = before.observed_ms
        fresh = seen_ms is not None and self.now_ms - seen_ms < OBSERVED_WRITE_MS
        return fresh and evolve(after, observed_ms=seen_ms) == before

    def _let_go(self) -> None:
        """A finished workload keeps its owner while something is to be released, and sleeps for ever after that.

        While nothing may be released it sleeps, and whoever takes it then does it.
        """
        kept_ms = self.kept_until_ms
        if self.unreleased() and kept_ms > self.now_ms:
            lease = Lease(owner=None, epoch=self.workload.lease.epoch)
            self.workload = evolve(self.workload, wake_ms=kept_ms, lease=lease)
        elif self.unreleased():
            self.workload = evolve(self.workload, wake_ms=0)
        else:
            lease = Lease(owner=None, epoch=self.workload.lease.epoch)
            self.workload = evolve(self.workload, wake_ms=None, lease=lease)

    def _add(self, event: Event) -> None:
        self._events.append(event)
