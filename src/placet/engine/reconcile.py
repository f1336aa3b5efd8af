"""The loop that moves every workload this worker owns: claim, decide, apply, act. Its batches are its group commits."""

import asyncio
import heapq
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from placet.domain.allocations import Observation, PermitRequest, ResolvedInput
from placet.domain.errors import StoreError
from placet.domain.lessons import Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.records import Lease, Record, Transition, Workload
from placet.domain.spec import Spec
from placet.engine.apply import apply
from placet.engine.budgets import Allowances
from placet.engine.claims import ClaimOptions, Claims
from placet.engine.decide import decide
from placet.engine.effects import Effects
from placet.engine.facts import (
    AnswerPermit,
    Effect,
    Fact,
    Find,
    Observe,
    Release,
    Situation,
    Step,
    Submit,
    World,
)
from placet.engine.health import Health
from placet.engine.memory import Memory
from placet.engine.options import ReconcileOptions as ReconcileOptions
from placet.engine.owned import Owned, asks_nothing
from placet.engine.pacing import submits_at_once, with_waiting
from placet.engine.reaper import Reaper
from placet.engine.reservations import Reservations
from placet.engine.timekeeping import untouched
from placet.engine.troubles import Troubles
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock, Ids
from placet.ports.provider import Hints, Provider
from placet.ports.store import Store
from placet.stages.dispatch import workload_of
from placet.stages.tracking import absence_span_s

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything outside that the loop talks to; ``set_clock`` hears at each beat what time it is for the store."""

    store: Store
    providers: Mapping[str, Provider]
    effects: Effects
    clock: Clock
    ids: Ids
    resolve_inputs: Callable[[Spec], tuple[ResolvedInput, ...]]
    offers: Callable[[], OfferTable]
    set_clock: Callable[[int], None] = untouched


class Reconciler:
    """Owns workloads by lease and moves them. One per process."""

    def __init__(self, ports: Ports, options: ReconcileOptions) -> None:
        self._ports = ports
        self._options = options
        self._deployment = ""
        self._owned: dict[str, Owned] = {}
        self._dirty: dict[str, None] = {}
        self._stale: dict[str, None] = {}
        self._in_doubt = False
        self._promised: dict[str, tuple[Owned, Step]] = {}
        self._looks: list[tuple[int, str]] = []
        cards = {name: provider.card for name, provider in ports.providers.items()}
        self._reserved = Reservations(submits_at_once(cards))
        self._cards = {name: with_waiting(card) for name, card in cards.items()}
        self._offers_seen: list[Sequence[Offer]] = []
        self._places: frozenset[tuple[str, str]] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._beat_at_s = 0.0
        self._memory = Memory(ports.store, ports.clock)
        self.allowances = Allowances(ports.store, ports.clock)
        self._health = Health(ports.clock)
        self._troubles = Troubles(isolated=options.isolated)
        self._hands_off = ""
        self._reaper = Reaper(ports.store, ports.providers, ports.effects, ports.clock, options.sweeps)
        self._claims = Claims(
            ports.store,
            ports.clock,
            ClaimOptions(
                worker=options.worker,
                batch_max=options.batch_max,
                owner_timeout_s=options.owner_timeout_s,
                takeover_poll_s=options.takeover_poll_s,
            ),
            self._free_slots,
        )
        self._stopping = False
        self._failed: BaseException | None = None

    @property
    def owned_count(self) -> int:
        """How many workloads this worker owns now."""
        return len(self._owned)

    def hints(self) -> Hints:
        """What providers may call with news."""
        return Hints(permit_wanted=self._permit_wanted, changed=self._changed, capacity=self._freed)

    def stored_elsewhere(self, workload_ids: frozenset[str]) -> None:
        """Another process wrote rows: what we hold of them is out of date, and some may have become free to claim."""
        self._stale.update(dict.fromkeys(workload_ids))
        self._in_doubt = self._in_doubt or not workload_ids
        if not workload_ids or any(workload_id not in self._owned for workload_id in workload_ids):
            self._claims.news()
        self._memory.elsewhere()
        self._news.set()

    def lease_for_new(self) -> Lease | None:
        """Ownership for a workload that is about to be accepted, when it can be placed at once and overtakes nobody.

        It saves the claim, that is a write and a read before anything happens. Every lease given is answered by
        ``accepted`` or ``not_accepted``.
        """
        full = len(self._owned) + len(self._promised) >= self._options.owned_max
        if self._stopping or self._in_doubt or self._claims.backlog or full or self._free_slots() < 1:
            return None
        return Lease(owner=self._options.worker, epoch=1)

    def first_step(self, workload: Workload) -> Transition | None:
        """What becomes at once of a workload that is about to be accepted under our lease.

        Its effects wait for ``accepted``.
        """
        if workload.lease.owner != self._options.worker:
            return None
        owned = Owned(record=Record(workload=workload), inputs=self._ports.resolve_inputs(workload.spec), adopted=False)
        step = self._step(owned, (), self._world(workload.created_ms))
        self._promised[workload.id] = (owned, step)
        return step.transition

    def accepted(self, workload: Workload, *, stepped: bool | None) -> None:
        """A new workload is stored: moved by us if it bears our lease, else claimed by whoever can.

        ``stepped`` says the same of its first step; ``None`` when nobody can know.
        """
        promised = self._promised.pop(workload.id, None)
        self._news.set()
        if promised is None:
            self._claims.queued()
            return
        owned, step = promised
        if stepped and workload.id not in self._owned and not self._stopping:
            self._owned[workload.id] = owned
            self._written(workload.id, step)
        else:
            self._give_back(step)
            if stepped is None:
                self._in_doubt = True
            elif workload.id not in self._owned:  # it may have been found while its answer was awaited
                self._adopt(Record(workload=workload))

    def not_accepted(self, workload: Workload, *, in_doubt: bool) -> None:
        """It was not stored; ``in_doubt`` when nobody can know."""
        promised = self._promised.pop(workload.id, None)
        if promised is not None:
            self._give_back(promised[1])
            self._in_doubt = self._in_doubt or in_doubt
            self._news.set()

    def touched(self, workload_id: str) -> None:
        """The front door wrote a workload's row; what we hold of it is out of date."""
        self._stale[workload_id] = None
        if workload_id in self._owned:
            self._news.set()
        else:
            self._want_claim()

    def sweep_now(self) -> None:
        """Somebody asked for an orphan to be deleted: the next sweep is due."""
        self._reaper.hurry()
        self._news.set()

    def lessons(self) -> Lessons:
        """What attempts have taught so far, for who asks without deciding."""
        return self._memory.lessons(self._ports.clock.now_ms())

    @property
    def worker(self) -> str:
        """The name under which this worker owns."""
        return self._options.worker

    async def succeed(self, predecessor: str) -> None:
        """Free at once what a worker owned that is known to be dead."""
        await passing(Point.SUCCESSION, self._ports.store.retire(predecessor))

    async def run(self) -> None:
        """Move workloads until ``stop``; a fault of the store is waited out, nothing is lost by it."""
        while not self._stopping:
            if self._failed is not None:
                raise self._failed
            try:
                self._deployment = self._deployment or await self._ports.store.deployment_id()
                await self._beat()
                await self._resolve_doubt()
                await self._claim()
                await self._refresh()
                self._sweep()
                self._recall()
                await self.allowances.refresh()
                await self._round()
            except StoreError as error:
                log.warning("store.unavailable", action="wait", error=str(error))
                self._in_doubt = True
                await self._ports.clock.pause(self._options.store_retry_s)
                continue
            await self._wait()

    async def stop(self) -> None:
        """Stop moving and give everything back; what runs goes on running."""
        self._stopping = True
        self._news.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await passing(Point.RETIREMENT, self._ports.store.retire(self._options.worker))
        except StoreError as error:
            log.warning("store.unavailable", action="leave the leases to run out", error=str(error))

    async def _beat(self) -> None:
        now_s = self._ports.clock.monotonic_s()
        if now_s < self._beat_at_s:
            return
        if now_s - self._beat_at_s > self._options.owner_timeout_s and self._beat_at_s > 0:
            self._in_doubt = True  # we were silent for so long that others may have taken what we hold
        self._ports.set_clock(await self._ports.store.now_ms())
        await passing(Point.BEAT, self._ports.store.beat(self._options.worker, self._ports.clock.now_ms()))
        self._beat_at_s = now_s + self._options.beat_s

    async def _resolve_doubt(self) -> None:
        """After a fault nobody knows whether the last claim or write was committed: see what is ours, and as what.

        A claim that was committed and never answered would otherwise be owned by a living worker that ignores it.
        """
        if not self._in_doubt:
            return
        held = set(await self._ports.store.held(self._options.worker))
        self._stale.update(dict.fromkeys(self._owned))
        for record in await self._ports.store.load(sorted(held - self._owned.keys())):
            if record.workload.lease.owner == self._options.worker:
                self._adopt(record)
        self._in_doubt = False

    async def _claim(self) -> None:
        if self._stopping or not self._claims.is_due():
            return  # who is leaving gives everything back and takes nothing
        for record in await self._claims.take(self._options.owned_max - len(self._owned)):
            self._adopt(record)

    def _sweep(self) -> None:
        if self._reaper.begin() and not self._hands_off:
            self._keep(asyncio.ensure_future(self._swept()))

    def _recall(self) -> None:
        if self._memory.begin():
            self._keep(asyncio.ensure_future(self._memory.read()))

    async def _swept(self) -> None:
        for orphan in await self._reaper.sweep(self._deployment):
            log.info("orphan.deleted", provider=orphan.handle.provider, key=orphan.handle.key, reason=orphan.reason)
        self._news.set()  # the next one may be due sooner

    def _adopt(self, record: Record) -> None:
        inputs = self._ports.resolve_inputs(record.workload.spec)
        self._owned[record.workload.id] = Owned(record=record, inputs=inputs)
        self._dirty[record.workload.id] = None

    async def _round(self) -> None:
        """Decide for everything that has news, write all of it in one go, then act on what was written."""
        now_ms = self._ports.clock.now_ms()
        self._look_at_health()  # after the time was read: a jump of it is seen before anything follows from it
        self._due(now_ms)
        batch = [workload_id for workload_id in self._dirty if workload_id in self._owned][: self._options.batch_max]
        if not batch:
            return
        for workload_id in batch:
            del self._dirty[workload_id]
        world = self._world(now_ms)
        steps = [step for workload_id in batch for step in self._decide(workload_id, world)]
        writes = [step.transition for _, step, _ in steps if step.transition is not None]
        try:
            written = iter(await apply(self._ports.store, writes)) if writes else iter(())
        except StoreError:
            for workload_id, step, facts in steps:
                self._undecided(workload_id, step, facts)
                self._dirty[workload_id] = None
            raise
        for workload_id, step, facts in steps:
            if step.transition is None or next(written):
                self._written(workload_id, step)
            else:
                self._undecided(workload_id, step, facts)
                self._stale[workload_id] = None

    def _undecided(self, workload_id: str, step: Step, facts: Sequence[Fact]) -> None:
        """The step was not written: what it was made from is still to be dealt with."""
        self._owned[workload_id].facts[:0] = facts
        self._give_back(step)

    def _give_back(self, step: Step) -> None:
        """The step will not be: what was set aside for it is free. It may have been beyond a budget."""
        if step.transition is not None and any(charge.guarded for charge in step.transition.charges):
            self.allowances.want()
        for effect in step.effects:
            if isinstance(effect, Submit):
                self._reserved.give_back(effect.launch)

    def _world(self, now_ms: int) -> World:
        return World(
            now_ms=now_ms,
            deployment=self._deployment,
            worker=self._options.worker,
            offers=self._offers,
            places=self._seen_places(),
            cards=self._cards,
            observe_every_ms=int(self._options.observe_every_s * 1000),
            lessons=self._memory.lessons(now_ms),
            exploration=self._options.exploration,
            quote_wait_s=self._options.quote_wait_s,
            absence_span_s=self._absence_span_s,
            hands_off=self._hands_off,
            budgets=self.allowances.of,
        )

    def _absence_span_s(self, provider: str) -> float:
        live = absent = 0
        for owned in self._owned.values():
            attempt = owned.record.current
            if attempt is not None and attempt.provider == provider and attempt.handle is not None:
                live += not attempt.final
                absent += not attempt.final and attempt.absent_since_ms is not None
        return absence_span_s(live, absent)

    def _look_at_health(self) -> None:
        why = self._health.look()
        if why != self._hands_off:
            log.warning("hands_off", why=why) if why else log.info("hands_on")
        self._hands_off = why

    def _seen_places(self) -> frozenset[tuple[str, str]]:
        """Where our providers have offers now; made anew when one of them says something new."""
        offers = [provider.offers() for provider in self._ports.providers.values()]
        if len(offers) != len(self._offers_seen) or any(map(operator.is_not, offers, self._offers_seen)):
            self._offers_seen = offers
            self._places = frozenset((offer.provider, offer.region) for some in offers for offer in some)
        return self._places

    def _decide(self, workload_id: str, world: World) -> list[tuple[str, Step, list[Fact]]]:
        """Its step; none where deciding fails, and then what was heard of it is asked for anew."""
        owned = self._owned[workload_id]
        facts, owned.facts = owned.facts, []
        try:
            step = self._step(owned, facts, world)
        except Exception as error:  # noqa: BLE001 - one workload's trouble stops nobody else
            self._look_at(owned, self._troubles.failed(workload_id, error, world.now_ms))
            return []
        self._troubles.well(workload_id)
        return [(workload_id, step, facts)]

    def _step(self, owned: Owned, facts: Sequence[Fact], world: World) -> Step:
        step = decide(
            Situation(
                record=owned.record,
                world=world,
                facts=tuple(facts),
                inputs=owned.inputs,
                nonce=self._ports.ids.nonce(),
                under_way=owned.busy(world.now_ms, world.observe_every_ms),
                adopted=owned.adopted,
                course=owned.course,
            )
        )
        for effect in step.effects:
            if isinstance(effect, Submit):
                self._reserved.take(effect.launch)
        return step

    def _written(self, workload_id: str, step: Step) -> None:
        owned = self._owned[workload_id]
        owned.record = step.record
        owned.course = step.course
        owned.adopted = False
        if step.transition is not None:
            self._memory.written(step.transition)
        for effect in step.effects:
            self._begin(owned, effect)
        if owned.record.workload.lease.owner != self._options.worker:
            del self._owned[workload_id]
            if owned.record.workload.final:
                self._freed()
            else:
                self._claims.backlog = True
        elif step.look_ms is not None:
            self._look_at(owned, step.look_ms)

    def _look_at(self, owned: Owned, at_ms: int) -> None:
        owned.look_ms = at_ms
        heapq.heappush(self._looks, (at_ms, owned.record.workload.id))

    def _begin(self, owned: Owned, effect: Effect) -> None:
        name = type(effect).__name__
        owned.under_way[name] = owned.under_way.get(name, 0) + 1
        if isinstance(effect, Find | Observe | Release):
            owned.looked_ms[name] = self._ports.clock.now_ms()
        self._keep(asyncio.ensure_future(self._perform(owned, effect, name)))

    async def _perform(self, owned: Owned, effect: Effect, name: str) -> None:
        workload = owned.record.workload
        try:
            facts = await self._ports.effects.perform(workload, effect)
            owned.facts.extend(facts)
        finally:
            owned.under_way[name] -= 1
            if owned.under_way[name] == 0:
                del owned.under_way[name]
            if isinstance(effect, Submit) and self._reserved.give_back(effect.launch):
                self._freed()
        if facts and self._owned.get(workload.id) is owned:
            await self._hear(owned, all(map(asks_nothing, facts)))

    async def _hear(self, owned: Owned, quietly: bool) -> None:
        """Decide about what was heard; what asks for nothing waits a moment, so that it shares a commit with more."""
        if quietly:
            await self._ports.clock.pause(self._options.lull_s)
        workload_id = owned.record.workload.id
        if owned.facts and self._owned.get(workload_id) is owned:
            self._dirty[workload_id] = None
            self._news.set()

    async def _refresh(self) -> None:
        """Others wrote these rows: take what is stored, keep what was heard, let go of what is not ours.

        Only the loop itself loads, so that nothing it holds changes while a decision is on its way to the store.
        What was written while a claim or an acceptance of it was on its way is known by then, too.
        """
        stale = [workload_id for workload_id in self._stale if workload_id in self._owned]
        self._forget_strangers()
        if not stale:
            return
        try:
            records = {record.workload.id: record for record in await self._ports.store.load(stale)}
        except StoreError:
            self._stale.update(dict.fromkeys(stale))
            raise
        for workload_id in stale:
            record = records.get(workload_id)
            if record is None or record.workload.lease.owner != self._options.worker:
                del self._owned[workload_id]
                self._want_claim()
                continue
            owned = self._owned[workload_id]
            if record.workload.lease.epoch != owned.record.workload.lease.epoch:
                owned.adopted = True  # another had it meanwhile
            owned.record = record
            self._dirty[workload_id] = None

    def _forget_strangers(self) -> None:
        self._stale = {workload_id: None for workload_id in self._stale if workload_id in self._promised}

    def _due(self, now_ms: int) -> None:
        while self._looks and self._looks[0][0] <= now_ms:
            at_ms, workload_id = heapq.heappop(self._looks)
            owned = self._owned.get(workload_id)
            if owned is not None and owned.look_ms == at_ms:
                self._dirty[workload_id] = None

    async def _wait(self) -> None:
        """Sleep until there is news, or until the earliest of the next look, claim and beat."""
        if self._claims.wanted or any(known in self._owned for news in (self._dirty, self._stale) for known in news):
            await self._ports.clock.pause(0)
            return
        self._dirty.clear()
        self._forget_strangers()
        clock = self._ports.clock
        due_s = min(self._claims.due_at_s, self._beat_at_s, self._reaper.due_at_s, self._memory.due_at_s)
        rest_s = due_s - clock.monotonic_s()
        if self._looks:
            rest_s = min(rest_s, (self._looks[0][0] - clock.now_ms()) / 1000)
        if rest_s > 0:
            alarm = asyncio.get_running_loop().call_later(rest_s, self._news.set)
            try:
                await self._news.wait()
            finally:
                alarm.cancel()
        else:
            await clock.pause(0)  # whatever is due, effects and requests get their turn
        self._news.clear()

    def _offers(self) -> OfferTable:
        """What providers offer now, less what was decided but not yet answered."""
        return self._reserved.less(self._ports.offers())

    def _free_slots(self) -> int:
        """About how many more workloads could be placed at this moment."""
        placing = sum(1 for owned in self._owned.values() if owned.adopted)
        slots = self._offers().slots_left
        return self._options.batch_max if slots is None else max(slots - placing, 0)

    def _permit_wanted(self, request: PermitRequest) -> None:
        owned = self._owned.get(request.tag.workload_id)
        if owned is not None:
            owned.facts.append(request)
            self._dirty[request.tag.workload_id] = None
            self._news.set()
        elif request.tag.deployment == self._deployment:
            self._keep(asyncio.ensure_future(self._refuse_stale(request)))

    async def _refuse_stale(self, request: PermitRequest) -> None:
        """A runner whose workload we do not own: refuse it if the record says that it may never start."""
        try:
            records = await self._ports.store.load([request.tag.workload_id])
        except StoreError:
            return  # the runner asks again
        reason = None
        if not records:
            reason = "no such workload"
        elif records[0].workload.final or records[0].workload.epoch != request.tag.epoch:
            reason = f"the workload is {records[0].workload.state}, epoch {records[0].workload.epoch}"
        if reason is None:
            self._want_claim()
            return
        for name in self._ports.providers:
            await self._ports.effects.answer_permit(
                AnswerPermit(provider=name, request=request, granted=False, reason=reason)
            )

    def _changed(self, seen: Observation) -> None:
        workload_id = self._by_key(seen.key)
        if workload_id is not None:
            owned = self._owned[workload_id]
            owned.facts.append(seen)
            if asks_nothing(seen):
                self._keep(asyncio.ensure_future(self._hear(owned, quietly=True)))
            else:
                self._dirty[workload_id] = None
                self._news.set()

    def _by_key(self, key: str) -> str | None:
        """The owned workload of an attempt key; the key carries its id, so no index is needed."""
        workload_id = workload_of(key)
        return workload_id if workload_id in self._owned else None

    def _freed(self) -> None:
        """There may be a new place for somebody who waits for one."""
        self._claims.freed()
        self._news.set()

    def _want_claim(self) -> None:
        self._claims.want()
        self._news.set()

    def _keep(self, task: "asyncio.Future[None]") -> None:
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), StoreError):
            self._failed = task.exception()
            self._news.set()
