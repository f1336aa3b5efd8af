"""The protocol of one workload as a graph that is searched whole: the engine's own decisions and what surrounds them.

``decide`` is the real one. Around it are a provider that keeps its contract card and no more than that, a network that
loses replies and holds requests back, a server that dies, a clock, and an owner who cancels; every order of these is a
path. What is looked at is the provider's truth.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from placet.domain.allocations import ContractCard, Handle, Launch, Observation, PermitRequest, Phase
from placet.domain.errors import OutcomeUnknown, Unavailable
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.records import Attempt, Lease, Record
from placet.domain.spec import RetryPolicy
from placet.domain.states import Desired, WorkloadState
from placet.engine.decide import decide
from placet.engine.effects import SEND_WITHIN_MS
from placet.engine.facts import (
    AnswerPermit,
    Cancel,
    Deliver,
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
from placet.testing.scripted import CARD
from tests.support.values import OFFER, SPEC, WORKLOAD

TICK_MS = 1000
LATE_MS, LAG_MS = 1000, 1000
TRUE_CARD = replace(CARD, late_create_s=LATE_MS / 1000, visibility_s=LAG_MS / 1000)
TABLE = OfferTable.of([OFFER])
OFFERED = frozenset({(OFFER.provider, OFFER.region)})


class Violation(AssertionError):
    """A path on which something happened that never may."""


@dataclass(frozen=True)
class Thing:
    """An allocation as it truly is."""

    launch: Launch
    created_ms: int
    phase: Phase = Phase.AWAITING_PERMIT
    stopped: bool = False
    released: bool = False

    @property
    def epoch(self) -> int:
        return self.launch.tag.epoch

    @property
    def live(self) -> bool:
        return not self.released and self.phase is not Phase.ENDED

    @property
    def handle(self) -> Handle:
        key = self.launch.key
        return Handle(provider=OFFER.provider, key=key, native_id=f"n-{key}", created_ms=self.created_ms)


@dataclass(frozen=True)
class Held:
    """A create that is still on its way and lands at this moment at the latest, or never."""

    launch: Launch
    until_ms: int


@dataclass(frozen=True)
class Node:
    """Everything that is: the row, the server's memory, the provider's truth, and what may still go wrong."""

    record: Record
    now_ms: int
    facts: tuple[Fact, ...] = ()
    flying: tuple[Effect, ...] = ()
    adopted: bool = False
    looked: bool = False
    # Looks of this tick: the engine does not repeat them so soon.
    lately: frozenset[str] = frozenset()
    things: tuple[Thing, ...] = ()
    held: tuple[Held, ...] = ()
    starts: int = 0
    faults: int = 0
    may_cancel: bool = True

    def key(self) -> object:
        """Nodes with the same key behave in the same way."""
        workload = self.record.workload
        return (
            (workload.state, workload.desired, workload.epoch, workload.wake_ms, workload.wait_for),
            (workload.user_failures, workload.infrastructure_failures, workload.compute_done, workload.lease.owner),
            tuple(map(_attempt_key, self.record.attempts)),
            tuple((intent.verb, intent.epoch, intent.state) for intent in self.record.intents),
            (self.now_ms, self.adopted, self.looked, self.lately, self.starts, self.faults, self.may_cancel),
            tuple(map(_brief, self.facts)),
            tuple(map(_brief, self.flying)),
            tuple((thing.epoch, thing.created_ms, thing.phase, thing.stopped, thing.released) for thing in self.things),
            tuple((held.launch.tag.epoch, held.until_ms) for held in self.held),
        )


def _attempt_key(attempt: Attempt) -> object:
    return (
        (attempt.epoch, attempt.state, attempt.desired, attempt.handle is not None, attempt.computed),
        (attempt.created_ms, attempt.submitted_ms, attempt.permit_ms, attempt.observed_ms, attempt.released_ms),
        (attempt.absent_reads, attempt.absent_since_ms, attempt.unseen_since_ms, attempt.stop_requested_ms),
        None if attempt.failure is None else attempt.failure.cause,
    )


def _brief(one: Fact | Effect) -> object:
    match one:
        case SubmitAnswer():
            return ("answer", one.epoch, one.handle is not None, one.unclear, one.kept)
        case Found() | Released():
            return (
                type(one).__name__,
                one.epoch,
                getattr(one, "gone", None),
                bool(getattr(one, "handles", ())),
                getattr(one, "asked_ms", 0),
            )
        case Observation():
            return ("seen", one.key, one.phase, one.cause, one.observed_ms)
        case PermitRequest():
            return ("asks", one.key)
        case AnswerPermit():
            return ("permit", one.request.key, one.granted)
        case Submit():
            return ("submit", one.launch.key, one.intended_ms)
        case Cancel() | Observe():
            return (type(one).__name__, one.handle.key)
        case Find() | Release() | Deliver():
            return (type(one).__name__, one.attempt.key)
        case _:
            return repr(one)


Rule = Callable[[Situation], Step]


@dataclass(frozen=True)
class Protocol:
    """What is searched: how decisions are made, which card they are made by, and within which bounds."""

    rule: Rule = decide
    card: ContractCard = TRUE_CARD
    # An effect may leave before its transition is committed: never so in the product.
    sent_first: bool = False
    ticks: int = 2
    faults: int = 1
    attempts: int = 2

    def root(self) -> Node:
        retry = RetryPolicy(attempts=self.attempts, infrastructure_attempts=self.attempts)
        workload = replace(WORKLOAD, spec=replace(SPEC, retry=retry), created_ms=0, lease=Lease(owner="w", epoch=1))
        return Node(record=Record(workload=workload), now_ms=0, faults=self.faults)

    def moves(self, node: Node) -> Iterator[tuple[str, Node]]:
        """Everything that may happen next."""
        if node.facts or not node.looked:
            yield from self._decide(node)
        # What was heard is decided on before anything else happens: the order of facts is not what is searched.
        for index, effect in enumerate(node.flying if not node.facts else ()):
            without = replace(node, flying=node.flying[:index] + node.flying[index + 1 :])
            for label, after in self._perform(without, effect):
                yield f"{type(effect).__name__}: {label}", after
        if not node.facts:
            yield from self._provider(node)
        workload = node.record.workload
        if node.may_cancel and not workload.final and not node.facts:
            wanted = replace(workload, desired=Desired.STOP, revision=workload.revision + 1, wake_ms=0)
            told = replace(node, record=replace(node.record, workload=wanted), may_cancel=False, looked=False)
            yield "the owner cancels", told
        if node.faults:
            yield "the server dies", self._died(node)
        idle = not node.facts and not node.flying
        if node.now_ms < self.ticks * TICK_MS and (idle or node.faults):
            later = node.now_ms + TICK_MS
            held = tuple(each for each in node.held if each.until_ms >= later)
            left = node.faults if idle else node.faults - 1
            passed = replace(node, now_ms=later, looked=False, lately=frozenset(), held=held, faults=left)
            yield "time passes" if idle else "the server stands still", passed

    def _decide(self, node: Node) -> Iterator[tuple[str, Node]]:
        step = self.rule(
            Situation(
                record=node.record,
                world=self._world(node),
                facts=node.facts,
                nonce=f"nonce-{node.record.workload.epoch + 1}",
                under_way=node.lately.union(type(effect).__name__ for effect in node.flying),
                adopted=node.adopted,
            )
        )
        begun = step.record.workload.epoch > node.record.workload.epoch
        if begun and any(each.launch.tag.epoch <= node.record.workload.epoch for each in node.held):
            raise Violation("a later attempt is begun while an earlier create may still land")
        if begun and any(thing.live for thing in node.things):
            raise Violation("a later attempt is begun while an earlier one may run")
        before, after = node.record.workload, step.record.workload
        if before.final and (after.state is not before.state):
            raise Violation("a verdict changed")
        if after.state is WorkloadState.SUCCEEDED and not any(
            thing.phase is Phase.ENDED and not thing.stopped for thing in node.things
        ):
            raise Violation("success without proof")
        flying = (*node.flying, *step.effects)
        looks = {type(effect).__name__ for effect in step.effects if isinstance(effect, Find | Observe | Release)}
        after_it = replace(node, record=step.record, facts=(), flying=flying, adopted=False, looked=True)
        yield "decides", replace(after_it, lately=node.lately | looks)
        if self.sent_first and step.transition is not None and node.faults:
            yield "sends, and dies before it is written", self._died(replace(node, flying=flying))

    def _world(self, node: Node) -> World:
        return World(
            now_ms=node.now_ms,
            deployment="d" * 8,
            worker="w",
            offers=lambda: TABLE,
            places=OFFERED,
            cards={OFFER.provider: self.card},
            observe_every_ms=TICK_MS,
            absence_span_s=lambda _: min(1.0, self.card.late_create_s or 0.0),
        )

    def _died(self, node: Node) -> Node:
        """All memory is gone. What was sent at that moment is on its way all the same."""
        on_their_way = tuple(
            Held(launch=effect.launch, until_ms=node.now_ms + LATE_MS)
            for effect in node.flying
            if isinstance(effect, Submit)
        )
        return replace(
            node,
            facts=(),
            flying=(),
            adopted=True,
            looked=False,
            lately=frozenset(),
            faults=node.faults - 1,
            held=(*node.held, *on_their_way),
        )

    def _perform(self, node: Node, effect: Effect) -> Iterator[tuple[str, Node]]:
        match effect:
            case Submit():
                yield from self._submit(node, effect)
            case Find():
                for seen in self._visible(node, effect.attempt.key):
                    handles = () if seen is None else (seen.handle,)
                    yield (
                        f"finds {len(handles)}",
                        _heard(node, Found(epoch=effect.attempt.epoch, handles=handles, asked_ms=node.now_ms)),
                    )
            case Observe():
                for seen in self._visible(node, effect.handle.key):
                    yield "sees", _heard(node, _seen(seen, effect.handle.key, node.now_ms))
            case AnswerPermit():
                yield "told", self._permit(node, effect)
            case Cancel():
                yield from self._cancel(node, effect)
            case Release():
                yield from self._release(node, effect)
            case Deliver():
                raise AssertionError("nothing is declared, so nothing is delivered")

    def _cancel(self, node: Node, effect: Cancel) -> Iterator[tuple[str, Node]]:
        thing = next((thing for thing in node.things if thing.launch.key == effect.handle.key), None)
        if thing is None or not thing.live:
            yield "finds nothing to stop", node
            return
        yield "stops", _with(node, effect.handle.key, phase=Phase.ENDED, stopped=True)
        if node.faults:
            yield "is ignored", replace(node, faults=node.faults - 1)

    def _release(self, node: Node, effect: Release) -> Iterator[tuple[str, Node]]:
        gone = _with(node, effect.attempt.key, released=True)
        yield "deletes", _heard(gone, Released(epoch=effect.attempt.epoch, gone=True))
        if node.faults:
            failed = replace(node, faults=node.faults - 1)
            yield "fails", _heard(failed, Released(epoch=effect.attempt.epoch, gone=False))

    def _submit(self, node: Node, effect: Submit) -> Iterator[tuple[str, Node]]:
        epoch = effect.launch.tag.epoch
        if node.now_ms - effect.intended_ms > SEND_WITHIN_MS:
            kept = SubmitAnswer(epoch=epoch, error=Unavailable("not sent"), kept=True)
            yield "is not sent", _heard(node, kept)
            return
        done = _created(node, effect.launch)
        handle = next(thing.handle for thing in done.things if thing.epoch == epoch)
        yield "works", _heard(done, SubmitAnswer(epoch=epoch, handle=handle))
        if node.faults:
            unclear = SubmitAnswer(epoch=epoch, error=OutcomeUnknown("no answer"), unclear=True)
            fewer = node.faults - 1
            yield "works, the reply is lost", _heard(replace(done, faults=fewer), unclear)
            held = (*node.held, Held(launch=effect.launch, until_ms=node.now_ms + LATE_MS))
            yield "is held back", _heard(replace(node, faults=fewer, held=held), unclear)

    def _visible(self, node: Node, key: str) -> Iterator[Thing | None]:
        """What is there may be invisible for a while; what is gone never shows again."""
        thing = next((thing for thing in node.things if thing.launch.key == key and not thing.released), None)
        yield thing
        if thing is not None and node.now_ms - thing.created_ms < LAG_MS:
            yield None

    def _permit(self, node: Node, effect: AnswerPermit) -> Node:
        thing = next((thing for thing in node.things if thing.launch.key == effect.request.key), None)
        if thing is None or thing.phase is not Phase.AWAITING_PERMIT or thing.released:
            return node
        if not effect.granted:
            return _with(node, thing.launch.key, phase=Phase.ENDED, stopped=True)
        if any(other.phase is Phase.RUNNING and not other.released for other in node.things):
            raise Violation("two attempts run at the same time")
        return replace(_with(node, thing.launch.key, phase=Phase.RUNNING), starts=node.starts + 1)

    def _provider(self, node: Node) -> Iterator[tuple[str, Node]]:
        for each in node.held:
            held = tuple(other for other in node.held if other is not each)
            yield "a late create lands", _created(replace(node, held=held), each.launch)
        for thing in node.things:
            if thing.released:
                continue
            request = PermitRequest(key=thing.launch.key, tag=thing.launch.tag)
            answering = any(isinstance(effect, AnswerPermit) for effect in node.flying)
            if thing.phase is Phase.AWAITING_PERMIT and request not in node.facts and not answering:
                yield "the runner asks", _heard(node, request)
            if thing.phase is Phase.RUNNING:
                ended = _with(node, thing.launch.key, phase=Phase.ENDED)
                now = next(each for each in ended.things if each.launch.key == thing.launch.key)
                yield "the program ends", _heard(ended, _seen(now, thing.launch.key, node.now_ms))


def _heard(node: Node, fact: Fact) -> Node:
    return replace(node, facts=(*node.facts, fact))


def _created(node: Node, launch: Launch) -> Node:
    """By name: a second create of the same name changes nothing."""
    if any(thing.launch.key == launch.key for thing in node.things):
        return node
    if all(attempt.key != launch.key for attempt in node.record.attempts):
        raise Violation("an allocation exists that no row tells of")
    return replace(node, things=(*node.things, Thing(launch=launch, created_ms=node.now_ms)))


def _with(node: Node, key: str, **changes: object) -> Node:
    things = tuple(
        replace(thing, **changes) if thing.launch.key == key and not thing.released else thing  # type: ignore[arg-type]  # the fields of Thing
        for thing in node.things
    )
    return replace(node, things=things)


def _seen(thing: Thing | None, key: str, now_ms: int) -> Observation:
    if thing is None:
        return Observation(key=key, phase=Phase.GONE, observed_ms=now_ms, source=OFFER.provider)
    ended = thing.phase is Phase.ENDED
    return Observation(
        key=key,
        phase=thing.phase,
        observed_ms=now_ms,
        source=OFFER.provider,
        created_ms=thing.created_ms,
        cause=Cause.STOPPED if thing.stopped else None,
        exit_code=0 if ended and not thing.stopped else None,
        computed=ended and not thing.stopped,
        collected=ended,
        ended_ms=now_ms if ended else None,
    )


@dataclass(frozen=True)
class Searched:
    """How much there was, and in how many ways it ended."""

    states: int
    edges: int
    finals: int
    succeeded: int
    cancelled: int


def search(protocol: Protocol, most: int = 1_000_000) -> Searched:
    """Every state that can be reached, the shortest paths first. Raises ``Violation`` with the path to it."""
    root = protocol.root()
    came: dict[object, tuple[object, str] | None] = {root.key(): None}
    queue = deque([root])
    edges = finals = succeeded = cancelled = 0
    while queue:
        node = queue.popleft()
        key = node.key()
        try:
            for label, after in protocol.moves(node):
                edges += 1
                known = after.key()
                if known not in came:
                    came[known] = (key, label)
                    queue.append(after)
        except Violation as violation:
            raise Violation(f"{violation}, after: {' > '.join(_path(came, key))}") from None
        workload = node.record.workload
        if workload.final:
            finals += 1
            succeeded += workload.state is WorkloadState.SUCCEEDED
            cancelled += workload.state is WorkloadState.CANCELLED
        if len(came) > most:
            raise AssertionError(f"more than {most} states")
    return Searched(states=len(came), edges=edges, finals=finals, succeeded=succeeded, cancelled=cancelled)


def _path(came: dict[object, tuple[object, str] | None], key: object) -> list[str]:
    labels: list[str] = []
    while (step := came[key]) is not None:
        key, label = step
        labels.append(label)
    return labels[::-1]
