"""The store as dictionaries: what the real ones are compared with."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from placet.domain.records import (
    WAITS_FOR_CAPACITY,
    Acceptance,
    Accepted,
    AcceptOutcome,
    Artifact,
    Attempt,
    Event,
    Intent,
    Lease,
    Record,
    Transition,
    Workload,
)
from placet.domain.states import IntentState, IntentVerb
from placet.ports.store import Claim


@dataclass
class Kept:
    """All that is known of one workload."""

    workload: Workload
    attempts: dict[int, Attempt] = field(default_factory=dict)
    intents: dict[tuple[int, IntentVerb], Intent] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    artifacts: dict[tuple[int, str], Artifact] = field(default_factory=dict)
    result: str | None = None

    @property
    def active(self) -> bool:
        return self.workload.finished_ms is None or self.workload.wake_ms is not None

    @property
    def record(self) -> Record:
        open_ones = [each for each in self.intents.values() if each.state in (IntentState.SENT, IntentState.AMBIGUOUS)]
        return Record(
            workload=self.workload,
            attempts=tuple(self.attempts[epoch] for epoch in sorted(self.attempts)),
            intents=tuple(sorted(open_ones, key=lambda each: (each.epoch, each.sent_ms, each.verb))),
        )


class StoreModel:
    """One caller at a time."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.beats: dict[str, int] = {}

    def accept(self, acceptance: Acceptance) -> Accepted:
        workload = acceptance.workload
        if acceptance.key is not None:
            place = (workload.tenant, acceptance.key)
            holder, digest = self.keys.setdefault(place, (workload.id, acceptance.body_digest))
            if holder != workload.id:
                same = digest == acceptance.body_digest
                told = AcceptOutcome.EXISTED if same else AcceptOutcome.CONFLICT
                return Accepted(outcome=told, workload_id=holder)
        self.kept[workload.id] = Kept(workload, events=[acceptance.event])
        return Accepted(outcome=AcceptOutcome.CREATED, workload_id=workload.id)

    def apply(self, transition: Transition) -> bool:
        kept = self.kept.get(transition.workload.id)
        if kept is None or not _holds(kept, transition):
            return False
        kept.workload = transition.workload
        kept.attempts |= {attempt.epoch: attempt for attempt in transition.attempts}
        kept.intents |= {(intent.epoch, intent.verb): intent for intent in transition.intents}
        kept.artifacts |= {(artifact.epoch, artifact.path): artifact for artifact in transition.artifacts}
        kept.events += transition.events
        kept.result = transition.result if transition.result is not None else kept.result
        return True

    def claim(self, wanted: Claim) -> list[Record]:
        self.beats[wanted.owner] = wanted.now_ms
        alive = {owner for owner, ms in self.beats.items() if ms >= wanted.now_ms - wanted.owner_timeout_ms}
        abandoned = _by_turn(
            kept.workload
            for kept in self.kept.values()
            if kept.active
            and kept.workload.lease.owner not in alive | {None}
            and _is_due(kept.workload, wanted.now_ms, without=not kept.workload.final)
        )
        due = _by_turn(
            kept.workload
            for kept in self.kept.values()
            if kept.workload.lease.owner is None and _is_due(kept.workload, wanted.now_ms, without=False)
        )
        taken = [self._take(workload, wanted.owner) for workload in [*abandoned, *due][: wanted.limit]]
        waiting = sorted(
            (
                kept.workload
                for kept in self.kept.values()
                if kept.workload.lease.owner is None
                and kept.workload.wait_for == WAITS_FOR_CAPACITY
                and not kept.workload.final
                and kept.workload.id > wanted.waiters_after
            ),
            key=lambda workload: workload.id,
        )
        return taken + [self._take(workload, wanted.owner) for workload in waiting[: wanted.capacity_waiters]]

    def retire(self, owner: str) -> None:
        self.beats.pop(owner, None)
        for kept in self.kept.values():
            if kept.active and kept.workload.lease.owner == owner:
                lease = replace(kept.workload.lease, owner=None)
                revision = kept.workload.revision + 1
                kept.workload = replace(kept.workload, lease=lease, wake_ms=0, revision=revision)

    def next_wake_ms(self) -> int | None:
        times = [kept.workload.wake_ms for kept in self.kept.values() if kept.workload.lease.owner is None]
        return min((ms for ms in times if ms is not None), default=None)

    def _take(self, workload: Workload, owner: str) -> Record:
        lease = Lease(owner=owner, epoch=workload.lease.epoch + 1)
        kept = self.kept[workload.id]
        kept.workload = replace(workload, lease=lease, revision=workload.revision + 1)
        return kept.record


def _by_turn(workloads: Iterable[Workload]) -> list[Workload]:
    return sorted(workloads, key=lambda each: (each.wake_ms is not None, each.wake_ms or 0, each.id))


def _is_due(workload: Workload, now_ms: int, *, without: bool) -> bool:
    return without if workload.wake_ms is None else workload.wake_ms <= now_ms


def _holds(kept: Kept, transition: Transition) -> bool:
    old, new, expect = kept.workload, transition.workload, transition.expect
    if old.revision != expect.revision or old.state != expect.state or expect.lease not in (None, old.lease):
        return False
    if old.final and (new.state, new.finished_ms) != (old.state, old.finished_ms):
        return False
    if transition.result is not None and kept.result is not None:
        return False
    known = [
        (kept.attempts[attempt.epoch], attempt) for attempt in transition.attempts if attempt.epoch in kept.attempts
    ]
    if any(before.final and before.state != after.state for before, after in known):
        return False
    places = [(kept.artifacts.get((each.epoch, each.path)), each) for each in transition.artifacts]
    return all(before is None or before.sha256 == after.sha256 for before, after in places)
