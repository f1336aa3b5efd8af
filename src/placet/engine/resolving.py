"""An owner's word on an attempt of which nobody can tell whether it runs. Only the engine acts on it."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from placet.domain.records import Attempt, Event, EventKind, Expect, Record, Transition, Workload
from placet.domain.values import evolve
from placet.engine.apply import apply
from placet.ports.ambient import Clock
from placet.ports.store import Store
from placet.stages import doubt

# A word that loses its race to another write looks again.
TRIES = 50


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What is unclear about the current attempt; ``since_ms`` is ``None`` when nothing is.

    ``cost_usd`` is the most that the attempt may have cost and go on to cost; ``None``: nothing bounds it.
    """

    workload: Workload
    epoch: int
    since_ms: int | None
    cost_usd: Decimal | None
    given_up_by: str = ""


@dataclass(frozen=True, kw_only=True)
class NotInDoubt:
    """Nothing was done: it is known how the attempt is, or there is none."""

    doubt: Doubt


class Resolving:
    """The use cases. ``touched`` tells whoever drives the workload that its row was written."""

    def __init__(self, store: Store, clock: Clock, touched: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._touched = touched

    async def doubt(self, tenant: str, workload_id: str) -> Doubt | None:
        """What is unclear; ``None`` when there is no such workload."""
        record = await self._record(tenant, workload_id)
        return None if record is None else self._doubt(record)

    async def go_on(self, tenant: str, workload_id: str, actor: str) -> Doubt | NotInDoubt | None:
        """Give the attempt up and go on with the next one, at the risk that both run. Repeating it changes nothing."""
        for _ in range(TRIES):
            record = await self._record(tenant, workload_id)
            if record is None:
                return None
            held, attempt = self._doubt(record), record.current
            if held.given_up_by:
                return held
            if attempt is None or held.since_ms is None:
                return NotInDoubt(doubt=held)
            if (await apply(self._store, [self._given_up(record.workload, attempt, actor)]))[0]:
                self._touched(workload_id)
                return evolve(held, given_up_by=actor)
        raise RuntimeError(f"{workload_id} was written by others {TRIES} times in a row")

    async def _record(self, tenant: str, workload_id: str) -> Record | None:
        records = await self._store.load([workload_id])
        return records[0] if records and records[0].workload.tenant == tenant else None

    def _doubt(self, record: Record) -> Doubt:
        workload, attempt, now_ms = record.workload, record.current, self._clock.now_ms()
        if attempt is None:
            return Doubt(workload=workload, epoch=0, since_ms=None, cost_usd=None)
        return Doubt(
            workload=workload,
            epoch=attempt.epoch,
            since_ms=None if workload.final else doubt.since_ms(attempt),
            cost_usd=doubt.exposure_usd(workload, attempt, now_ms),
            given_up_by=attempt.given_up_by,
        )

    def _given_up(self, workload: Workload, attempt: Attempt, actor: str) -> Transition:
        now_ms = self._clock.now_ms()
        event = Event(
            workload_id=workload.id,
            kind=EventKind.DESIRED,
            at_ms=now_ms,
            actor=actor,
            epoch=attempt.epoch,
            message=f"go on without attempt {attempt.epoch}",
        )
        return Transition(
            expect=Expect(revision=workload.revision, state=workload.state, lease=None),
            workload=evolve(workload, revision=workload.revision + 1, updated_ms=now_ms, wake_ms=0),
            attempts=(evolve(attempt, given_up_by=actor),),
            events=(event,),
            flush=True,
        )
