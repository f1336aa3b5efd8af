"""Servers in the world: the engine as ``app`` puts it together, in a process that dies and is started again."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from placet.domain.errors import StoreError
from placet.domain.spec import Spec
from placet.engine.effects import Effects
from placet.engine.intake import Intake, IntakePorts
from placet.engine.market import Market
from placet.engine.queries import Queries, QueryPorts
from placet.engine.reconcile import Ports, ReconcileOptions, Reconciler
from placet.engine.timekeeping import StoreClock
from placet.testing.world.adapter import Adapter, Wire
from placet.testing.world.chance import Streams
from placet.testing.world.cloud import NAME, Cloud
from placet.testing.world.faults import Faults
from placet.testing.world.keeping import Kept, WorldArtifacts
from placet.testing.world.loop import VirtualLoop
from placet.testing.world.options import Options
from placet.testing.world.oracle import Oracle
from placet.testing.world.process import EPOCH_MS, DrawnIds, Process, ProcessClock
from placet.testing.world.storing import Disk, WorldStore
from placet.testing.world.trace import Trace

# Slower than real servers, so that an hour of virtual time takes less.
BEAT_S = 8.0
OFFSET_MAX_MS = 600_000.0


class _Fingerprints:
    def spec_digest(self, spec: Spec) -> str:
        return hashlib.blake2b(repr(spec).encode(), digest_size=16).hexdigest()

    def body_digest(self, spec: Spec) -> str:
        return self.spec_digest(spec)


def _nothing(spec: Spec) -> tuple[()]:
    del spec
    return ()


@dataclass(frozen=True, kw_only=True)
class World:
    """What all servers of one world share."""

    options: Options
    loop: VirtualLoop
    trace: Trace
    faults: Faults
    streams: Streams
    cloud: Cloud
    wire: Wire
    disk: Disk
    kept: Kept
    oracle: Oracle


@dataclass(frozen=True, kw_only=True)
class Doors:
    """What clients can talk to while a server lives."""

    intake: Intake
    queries: Queries


@dataclass(kw_only=True)
class Server:
    """One server, which may be dead at the moment."""

    world: World
    number: int
    process: Process | None = None
    doors: Doors | None = None
    lives: int = 0
    last_worker: str = ""

    async def run(self) -> None:
        """Live, die, and come back, for ever."""
        while True:
            await self._live()
            await asyncio.sleep(self.world.streams.of("restart").choice((0.5, 5.0, 40.0)))

    async def _live(self) -> None:
        world = self.world
        self.lives += 1
        process = Process(f"s{self.number}.{self.lives}", world.loop, world.faults, world.trace)
        offset_ms = int(world.faults.between("clock_offset", -OFFSET_MAX_MS, OFFSET_MAX_MS))
        clock = StoreClock(ProcessClock(process, offset_ms if world.faults.hit("clock_offset") else 0))
        store = WorldStore(world.disk, process, world.faults)
        adapter = Adapter(world.cloud, world.wire, process, clock, world.oracle)
        died = world.loop.create_future()

        def die() -> None:
            self.process = self.doors = None
            adapter.die()
            store.die(written=world.streams.of("death").random() < 0.5)
            if not died.done():
                died.set_result(None)

        process.died = die
        self.process = process
        engine = process.start(self._serve(process, clock, store, adapter))
        await asyncio.wait([engine, died], return_when=asyncio.FIRST_COMPLETED)
        if process.alive:
            failure = None if engine.cancelled() else engine.exception()
            world.trace.violate("fault", f"{process.name} ended by itself: {failure!r}")
            process.kill()

    async def _serve(self, process: Process, clock: StoreClock, store: WorldStore, adapter: Adapter) -> None:
        world = self.world
        ids = DrawnIds(world.streams.of(f"ids {process.name}"))
        await store.open()
        artifacts = WorldArtifacts(world.kept, world.cloud, process)
        market = Market({NAME: adapter})
        reconciler = Reconciler(
            Ports(
                store=store,
                providers={NAME: adapter},
                effects=Effects({NAME: adapter}, artifacts, clock),
                clock=clock,
                ids=ids,
                resolve_inputs=_nothing,
                offers=market,
                set_clock=clock.set,
            ),
            ReconcileOptions(
                isolated=False,
                worker=process.name,
                beat_s=BEAT_S,
                owner_timeout_s=5 * BEAT_S,
                takeover_poll_s=2 * BEAT_S,
            ),
        )
        intake = Intake(
            IntakePorts(
                store=store,
                clock=clock,
                ids=ids,
                fingerprint=_Fingerprints(),
                offers=market,
                check=_nothing,
                owner=reconciler,
                budgets=reconciler.allowances.fresh,
            )
        )
        queries = Queries(
            QueryPorts(store=store, artifacts=artifacts, providers={NAME: adapter}, clock=clock, offers=market)
        )
        store.watch(reconciler.stored_elsewhere, only_elsewhere=True)
        store.watch(queries.stored)
        await adapter.open(reconciler.hints())
        if self.last_worker and world.options.succeeds:
            try:
                await reconciler.succeed(self.last_worker)
            except StoreError:
                process.kill()  # it ends before it has begun, and is started again
                return
        self.last_worker = process.name
        self.doors = Doors(intake=intake, queries=queries)
        await reconciler.run()


def make_world(options: Options, loop: VirtualLoop, trace: Trace, build: Callable[..., World] = World) -> World:
    """The world before anything happens in it."""
    from placet.adapters.store.memory import MemoryDatabase
    from placet.testing.world.options import CARDS

    streams = Streams(options.seed)
    faults = Faults(options, streams, trace)
    cloud = Cloud(options, CARDS[options.card], loop, faults, trace)
    database = MemoryDatabase(
        f"{options.seed:032x}", lambda: EPOCH_MS + int(loop.time() * 1000), cuts="power_cut" in options.faults
    )
    kept = Kept(faults, options.faults_s)
    oracle = Oracle(options, cloud, database, kept, faults)
    cloud.watcher = oracle
    database.committed = oracle.committed
    return build(
        options=options,
        loop=loop,
        trace=trace,
        faults=faults,
        streams=streams,
        cloud=cloud,
        wire=Wire(faults, options.faults_s),
        disk=Disk(database, faults, options.faults_s),
        kept=kept,
        oracle=oracle,
    )
