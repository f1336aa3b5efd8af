"""Outputs that were computed and not delivered, delivered after the end: nothing runs again, no verdict changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from placet.domain.allocations import Observation, Verb
from placet.domain.errors import ProviderError
from placet.domain.records import Artifact, Attempt, Event, EventKind, Expect, Record, Transition, Workload
from placet.domain.states import DeliveryState
from placet.domain.values import evolve
from placet.engine.apply import apply
from placet.engine.effects import Effects
from placet.ports.ambient import Clock
from placet.ports.provider import Provider
from placet.ports.store import Store
from placet.stages.delivery import Delivery, deliver, kept

# A delivery that loses its race to another write looks again; what was moved is not moved again.
TRIES = 20


@dataclass(frozen=True, kw_only=True)
class Redelivered:
    """What is there now; ``changed`` is false when it was delivered before."""

    workload: Workload
    artifacts: tuple[Artifact, ...]
    changed: bool


@dataclass(frozen=True, kw_only=True)
class NothingToDeliver:
    """Nothing was done: there is nothing that could be delivered any more, or not yet."""

    workload: Workload
    reason: str


@dataclass(frozen=True, kw_only=True)
class NotDelivered:
    """What stood in the way once more; the outputs stay where they are."""

    workload: Workload
    problem: str


class Redelivering:
    """The use case. ``touched`` tells whoever drives workloads that a row was written."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        effects: Effects,
        providers: Mapping[str, Provider],
        touched: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._effects = effects
        self._providers = providers
        self._touched = touched

    async def redeliver(
        self, tenant: str, workload_id: str, actor: str
    ) -> Redelivered | NothingToDeliver | NotDelivered | None:
        """Move what the last attempt computed into the artifact store; ``None`` when there is no such workload."""
        for _ in range(TRIES):
            records = await self._store.load([workload_id])
            if not records or records[0].workload.tenant != tenant:
                return None
            record = records[0]
            workload, attempt = record.workload, record.current
            if workload.final and workload.compute_done and workload.delivery is DeliveryState.COMPLETE:
                return Redelivered(workload=workload, artifacts=(), changed=False)
            why = _nothing(record)
            if why or attempt is None:
                return NothingToDeliver(workload=workload, reason=why)
            seen = await self._look(attempt)
            if isinstance(seen, str):
                return NotDelivered(workload=workload, problem=seen)
            delivery = deliver(workload.spec, seen)
            if not delivery.found:
                return NotDelivered(workload=workload, problem=seen.problem or "nothing of its outputs was collected")
            moved = await self._effects.deliver(workload, attempt, delivery.found)
            if moved.problem is not None:
                return NotDelivered(workload=workload, problem=moved.problem)
            transition = self._written(workload, delivery, moved.artifacts, actor)
            if (await apply(self._store, [transition]))[0]:
                self._touched(workload_id)
                return Redelivered(workload=transition.workload, artifacts=moved.artifacts, changed=True)
        raise RuntimeError(f"{workload_id} was written by others {TRIES} times in a row")

    async def _look(self, attempt: Attempt) -> Observation | str:
        """Where the outputs are now, or why nobody can tell."""
        if attempt.provider not in self._providers or attempt.handle is None:
            return f"no provider here knows attempt {attempt.epoch}"
        try:
            async with self._effects.call(attempt.provider, Verb.OBSERVE) as provider:
                (seen,) = await provider.observe([attempt.handle])
        except ProviderError as error:
            return f"{attempt.provider} cannot be asked now: {error}"
        if not seen.collected:
            return f"{attempt.provider} says {seen.phase}: the outputs are not there to be had"
        return seen

    def _written(
        self, workload: Workload, delivery: Delivery, artifacts: tuple[Artifact, ...], actor: str
    ) -> Transition:
        now_ms = self._clock.now_ms()
        missing = f", missing: {', '.join(delivery.missing)}" if delivery.missing else ""
        event = Event(
            workload_id=workload.id,
            kind=EventKind.OUTPUTS,
            at_ms=now_ms,
            actor=actor,
            epoch=workload.epoch,
            message=f"delivered after the end: {delivery.state}, {len(artifacts)} files{missing}",
        )
        return Transition(
            expect=Expect(revision=workload.revision, state=workload.state, lease=None),
            workload=evolve(
                workload,
                delivery=delivery.state,
                revision=workload.revision + 1,
                updated_ms=now_ms,
                wake_ms=0,  # what was kept for this can be deleted
            ),
            artifacts=artifacts,
            events=(event,),
            flush=True,
        )


def _nothing(record: Record) -> str:
    """Why there is nothing to deliver, if there is nothing."""
    workload, attempt = record.workload, record.current
    if not workload.final:
        return f"the workload is {workload.state}; its outputs are delivered when its program has ended"
    if not workload.compute_done or attempt is None:
        return "nothing was computed to the end"
    if not kept(workload) or attempt.released_ms is not None:
        return "what was computed is not kept any more, or was never there"
    return ""
