"""The loop that moves every workload this worker owns: claim, decide, apply, act. Its batches are its group commits."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import structlog

from placet.domain.allocations import Observation, PermitRequest, ResolvedInput
from placet.domain.errors import StoreError
from placet.domain.offer_table import OfferTable
from placet.domain.records import Lease, Record, Workload
from placet.domain.spec import Spec
from placet.engine.apply import apply
from placet.engine.decide import decide
from placet.engine.effects import Effects
from placet.engine.facts import (
    AnswerPermit,
    Effect,
    Fact,
    Situation,
    Step,
    Submit,
    World,
)
from placet.engine.reservations import Reservations
from placet.engine.sweep import sweep
from placet.ports.ambient import Clock, Ids
from placet.ports.provider import Hints, Provider
from placet.ports.store import Claim, Store
from placet.stages.dispatch import workload_of

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class ReconcileOptions:
    """The bounds and rhythms of one worker."""

    worker: str
    batch_max: int = 256
    owned_max: int = 20_000
    beat_s: float = 1.0
    owner_timeout_s: float = 6.0
    takeover_poll_s: float = 2.0
    # Writes of other servers lead to at most one claim in this time: most of them leave nothing to claim.
    news_claim_s: float = 0.1
    store_retry_s: float = 0.25
    # How often the providers' own lists are searched for what nobody owns; the first time soon after the start.
    sweep_s: float = 60.0
    first_sweep_s: float = 5.0
    observe_every_s: float = 10.0
    # Workloads claimed beyond free capacity, so that one that cannot fit now does not hold up one that can.
    lookahead: int = 8


@dataclass(kw_only=True)
class Owned:
    """One workload in this worker's hands: what is stored, what was heard since, and what is under way."""

    record: Record
    inputs: tuple[ResolvedInput, ...]
    adopted: bool = True
    facts: list[Fact] = field(default_factory=list)
    under_way: dict[str, int] = field(default_factory=dict)
    look_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything outside that the loop talks to."""

    store: Store
    providers: Mapping[str, Provider]
    effects: Effects
    clock: Clock
    ids: Ids
    resolve_inputs: Callable[[Spec], tuple[ResolvedInput, ...]]
    offers: Callable[[], OfferTable]


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
        self._backlog = True
        self._promised = 0
        self._looks: list[tuple[int, str]] = []
        self._reserved = Reservations()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._claim_wanted = True
        self._claim_at_s = 0.0
        self._beat_at_s = 0.0
        self._sweep_at_s = ports.clock.monotonic_s() + options.first_sweep_s
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
        for workload_id in workload_ids or tuple(self._owned):
            if workload_id in self._owned:
                self._stale[workload_id] = None
        if not workload_ids or any(workload_id not in self._owned for workload_id in workload_ids):
            soon_s = self._ports.clock.monotonic_s() + self._options.news_claim_s
            self._claim_at_s = min(self._claim_at_s, soon_s)
        self._news.set()

    def lease_for_new(self) -> Lease | None:
        """Ownership for a workload that is about to be accepted, when it can be placed at once and overtakes nobody.

        It saves the claim, that is a write and a read before anything happens. Every lease given is answered by
        ``accepted`` or ``not_accepted``.
        """
        full = len(self._owned) + self._promised >= self._options.owned_max
        if self._stopping or self._in_doubt or self._backlog or full or self._free_slots() <= self._promised:
            return None
        self._promised += 1
        return Lease(owner=self._options.worker, epoch=1)

    def accepted(self, workload: Workload) -> None:
        """A new workload is stored: moved by us if it bears our lease, else claimed by whoever can."""
        if workload.lease.owner == self._options.worker:
            self._promised -= 1
            if workload.id not in self._owned:  # it may have been found while its answer was awaited
                self._adopt(Record(workload=workload))
            self._news.set()
        else:
            self._want_claim()

    def not_accepted(self, workload: Workload, *, in_doubt: bool) -> None:
        """It was not stored; ``in_doubt`` when nobody can know."""
        if workload.lease.owner == self._options.worker:
            self._promised -= 1
            self._in_doubt = self._in_doubt or in_doubt
            self._news.set()

    def touched(self, workload_id: str) -> None:
        """The front door wrote a workload's row; what we hold of it is out of date."""
        if workload_id in self._owned:
            self._stale[workload_id] = None
            self._news.set()
        else:
            self._want_claim()

    @property
    def worker(self) -> str:
        """The name under which this worker owns."""
        return self._options.worker

    async def succeed(self, predecessor: str) -> None:
        """Free at once what a worker owned that is known to be dead."""
        await self._ports.store.retire(predecessor)

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
            await self._ports.store.retire(self._options.worker)
        except StoreError as error:
            log.warning("store.unavailable", action="leave the leases to run out", error=str(error))

    async def _beat(self) -> None:
        now_s = self._ports.clock.monotonic_s()
        if now_s < self._beat_at_s:
            return
        if now_s - self._beat_at_s > self._options.owner_timeout_s and self._beat_at_s > 0:
            self._in_doubt = True  # we were silent for so long that others may have taken what we hold
        await self._ports.store.beat(self._options.worker, self._ports.clock.now_ms())
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
        now_s = self._ports.clock.monotonic_s()
        if self._stopping or (not self._claim_wanted and now_s < self._claim_at_s):
            return  # who is leaving gives everything back and takes nothing
        self._claim_wanted = False
        self._claim_at_s = now_s + self._options.takeover_poll_s
        free = self._free_slots()
        limit = min(free + self._options.lookahead, self._options.batch_max, self._options.owned_max - len(self._owned))
        if limit <= 0:
            return
        now_ms = self._ports.clock.now_ms()
        records = await self._ports.store.claim(
            Claim(
                owner=self._options.worker,
                now_ms=now_ms,
                limit=limit,
                owner_timeout_ms=int(self._options.owner_timeout_s * 1000),
                capacity_waiters=min(free, self._options.batch_max),
            )
        )
        for record in records:
            self._adopt(record)
        self._backlog = bool(records) or free < 1
        wake_ms = await self._ports.store.next_wake_ms()
        if wake_ms is not None and wake_ms > now_ms:
            self._claim_at_s = min(self._claim_at_s, now_s + (wake_ms - now_ms) / 1000)
        # What a dead owner left running needs no free place: all of it is taken over at once.
        more = any(record.current is not None and not record.current.final for record in records)
        if len(records) >= limit and (free > 0 or more):
            self._claim_wanted = True

    def _sweep(self) -> None:
        now_s = self._ports.clock.monotonic_s()
        if now_s >= self._sweep_at_s:
            self._sweep_at_s = now_s + self._options.sweep_s
            self._keep(asyncio.ensure_future(self._swept()))

    async def _swept(self) -> None:
        for handle in await sweep(self._ports.store, self._ports.providers, self._deployment):
            log.info("allocation.swept", provider=handle.provider, key=handle.key)

    def _adopt(self, record: Record) -> None:
        inputs = self._ports.resolve_inputs(record.workload.spec)
        self._owned[record.workload.id] = Owned(record=record, inputs=inputs)
        self._dirty[record.workload.id] = None

    async def _round(self) -> None:
        """Decide for everything that has news, write all of it in one go, then act on what was written."""
        now_ms = self._ports.clock.now_ms()
        self._due(now_ms)
        batch = [workload_id for workload_id in self._dirty if workload_id in self._owned]
        batch = batch[: self._options.batch_max]
        for workload_id in batch:
            del self._dirty[workload_id]
        world = self._world(now_ms)
        steps = []
        for workload_id in batch:
            steps.append((workload_id, *self._decide(workload_id, world)))
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

    def _undecided(self, workload_id: str, step: Step, facts: list[Fact]) -> None:
        """The step was not written: what it was made from is still to be dealt with."""
        self._owned[workload_id].facts[:0] = facts
        for effect in step.effects:
            if isinstance(effect, Submit):
                self._reserved.give_back(effect.launch)

    def _world(self, now_ms: int) -> World:
        return World(
            now_ms=now_ms,
            deployment=self._deployment,
            worker=self._options.worker,
            offers=self._offers,
            places=frozenset(
                (offer.provider, offer.region)
                for provider in self._ports.providers.values()
                for offer in provider.offers()
            ),
            cards={name: provider.card for name, provider in self._ports.providers.items()},
            observe_every_ms=int(self._options.observe_every_s * 1000),
        )

    def _decide(self, workload_id: str, world: World) -> tuple[Step, list[Fact]]:
        owned = self._owned[workload_id]
        facts, owned.facts = owned.facts, []
        step = decide(
            Situation(
                record=owned.record,
                world=world,
                facts=tuple(facts),
                inputs=owned.inputs,
                nonce=self._ports.ids.nonce(),
                under_way=frozenset(owned.under_way),
                adopted=owned.adopted,
            )
        )
        for effect in step.effects:
            if isinstance(effect, Submit):
                self._reserved.take(effect.launch)
        return step, facts

    def _written(self, workload_id: str, step: Step) -> None:
        owned = self._owned[workload_id]
        owned.record = step.record
        owned.adopted = False
        for effect in step.effects:
            self._begin(owned, effect)
        if owned.record.workload.lease.owner != self._options.worker:
            del self._owned[workload_id]
            self._backlog = self._backlog or not owned.record.workload.final
            self._freed()
        elif step.look_ms is not None:
            owned.look_ms = step.look_ms
            heapq.heappush(self._looks, (step.look_ms, workload_id))

    def _begin(self, owned: Owned, effect: Effect) -> None:
        name = type(effect).__name__
        owned.under_way[name] = owned.under_way.get(name, 0) + 1
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
            if isinstance(effect, Submit):
                self._reserved.give_back(effect.launch)
        if facts and self._owned.get(workload.id) is owned:
            self._dirty[workload.id] = None
            self._news.set()

    async def _refresh(self) -> None:
        """Others wrote these rows: take what is stored, keep what was heard, let go of what is not ours.

        Only the loop itself loads, so that nothing it holds changes while a decision is on its way to the store.
        """
        stale = [workload_id for workload_id in self._stale if workload_id in self._owned]
        self._stale.clear()
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

    def _due(self, now_ms: int) -> None:
        while self._looks and self._looks[0][0] <= now_ms:
            at_ms, workload_id = heapq.heappop(self._looks)
            owned = self._owned.get(workload_id)
            if owned is not None and owned.look_ms == at_ms:
                self._dirty[workload_id] = None

    async def _wait(self) -> None:
        """Sleep until there is news, or until the earliest of the next look, claim and beat."""
        if self._claim_wanted or any(known in self._owned for news in (self._dirty, self._stale) for known in news):
            await self._ports.clock.pause(0)
            return
        self._dirty.clear()
        self._stale.clear()
        clock = self._ports.clock
        rest_s = min(self._claim_at_s, self._beat_at_s, self._sweep_at_s) - clock.monotonic_s()
        if self._looks:
            rest_s = min(rest_s, (self._looks[0][0] - clock.now_ms()) / 1000)
        if rest_s > 0:
            try:
                async with asyncio.timeout(rest_s):  # wait_for may swallow a cancellation
                    await self._news.wait()
            except TimeoutError:
                return
        else:
            await clock.pause(0)  # whatever is due, effects and requests get their turn
        self._news.clear()

    def _offers(self) -> OfferTable:
        """What providers offer now, less what was decided but not yet answered."""
        return self._reserved.less(self._ports.offers())

    def _free_slots(self) -> int:
        """About how many more workloads could be placed at this moment."""
        offers = self._offers()
        placing = sum(1 for owned in self._owned.values() if owned.adopted)
        if np.isnan(offers.free_slots).any():
            return self._options.batch_max
        by_place: dict[tuple[int, int], float] = {}
        for place in zip(offers.provider.tolist(), offers.region.tolist(), offers.free_slots.tolist(), strict=True):
            by_place[place[:2]] = max(by_place.get(place[:2], 0.0), place[2])
        return max(int(sum(by_place.values())) - placing, 0)

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
            self._owned[workload_id].facts.append(seen)
            self._dirty[workload_id] = None
            self._news.set()

    def _by_key(self, key: str) -> str | None:
        """The owned workload of an attempt key; the key carries its id, so no index is needed."""
        workload_id = workload_of(key)
        return workload_id if workload_id in self._owned else None

    def _freed(self) -> None:
        """A place became free; while nobody waits for one there is nothing to claim."""
        if self._backlog:
            self._want_claim()

    def _want_claim(self) -> None:
        self._claim_wanted = True
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
