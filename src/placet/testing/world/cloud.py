"""What really exists and runs at the provider, what it costs, and who hears of it: the truth that the oracle reads."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Protocol

from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogSeal,
    Observation,
    PermitRequest,
    Phase,
)
from placet.domain.failures import Cause
from placet.testing.world.chance import Streams
from placet.testing.world.faults import Faults
from placet.testing.world.loop import VirtualLoop
from placet.testing.world.options import Options, Wish
from placet.testing.world.process import EPOCH_MS
from placet.testing.world.trace import Trace

NAME = "cloud"
LOG = b"one line\n"
DIGEST = "0" * 64
# A runner that was not answered asks again, and then less and less often.
ASK_S, ASK_MAX_S = 5.0, 60.0
NEVER_S = 1e9


@dataclass(kw_only=True, eq=False)
class Machine:
    """One allocation as it really is. ``code_s`` is since when the user's program runs in it, if it does."""

    native_id: str
    launch: Launch
    landed_s: float
    seen: Observation
    visible_s: float
    hidden_until_s: float = 0.0
    shown: bool = False
    boots: int = 0
    granted: bool = False
    starts: int = 0
    code_s: float | None = None
    ended_s: float | None = None
    deleted_s: float | None = None
    stop_asked_s: float | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    life: "asyncio.Task[None] | None" = None

    @property
    def key(self) -> str:
        return self.launch.key

    @property
    def workload_id(self) -> str:
        return self.launch.tag.workload_id

    @property
    def epoch(self) -> int:
        return self.launch.tag.epoch

    @property
    def live(self) -> bool:
        """May the user's program run in it now or later? It costs for as long."""
        return self.ended_s is None and self.deleted_s is None

    @property
    def computed(self) -> bool:
        """Did the program end well?"""
        return self.seen.computed

    @property
    def handle(self) -> Handle:
        created_ms = EPOCH_MS + int(self.landed_s * 1000)
        return Handle(
            provider=NAME, key=self.key, native_id=self.native_id, created_ms=created_ms, nonce=self.launch.tag.nonce
        )

    def cost_usd(self, now_s: float) -> Decimal:
        """What the provider asks for it so far, until we first asked it to stop: then it is in its hands."""
        offer = self.launch.offer
        until_s = min(each for each in (self.ended_s, self.deleted_s, self.stop_asked_s, now_s) if each is not None)
        quanta = (Decimal(repr(until_s - self.landed_s)) / offer.billing_quantum_s).to_integral_value(ROUND_CEILING)
        return offer.price_usd_per_hour * quanta * offer.billing_quantum_s / 3600


class Listener(Protocol):
    """One of our servers' connections to the provider."""

    def permit_wanted(self, request: PermitRequest) -> None:
        """A runner asks."""

    def changed(self, seen: Observation) -> None:
        """Something is otherwise than it was."""


class Watcher(Protocol):
    """The oracle's ears."""

    def landed(self, machine: Machine) -> None:
        """An allocation exists from now on."""

    def code_started(self, machine: Machine) -> None:
        """The user's program begins to run in it."""

    def ended(self, machine: Machine) -> None:
        """Nothing runs in it any more."""

    def deleted(self, machine: Machine, asked: bool) -> None:
        """It is no more; ``asked`` when we did it."""


class Cloud:
    """One provider's account."""

    def __init__(self, options: Options, card: ContractCard, loop: VirtualLoop, faults: Faults, trace: Trace) -> None:
        self.card = card
        self.loop = loop
        self.machines: dict[str, Machine] = {}
        self.listeners: list[Listener] = []
        self.watcher: Watcher | None = None
        self.landing = 0  # creates that are on their way
        self.room_changed: Callable[[], None] = lambda: None
        # A machine's life is its own, whichever server's call began it.
        self._outside = copy_context()
        self._options = options
        self._wishes = {wish.name: wish for wish in options.wishes}
        self._faults = faults
        self._streams = Streams(options.seed)
        self.trace = trace

    # What can be asked of it

    def named(self, key: str) -> list[Machine]:
        """All allocations of this name that were not deleted."""
        return [machine for machine in self.machines.values() if machine.key == key and machine.deleted_s is None]

    def of(self, workload_id: str) -> list[Machine]:
        """All allocations of a workload that there ever were."""
        return [machine for machine in self.machines.values() if machine.workload_id == workload_id]

    def visible(self, machine: Machine) -> bool:
        """Does a reader see it now?"""
        now_s = self.loop.time()
        return machine.deleted_s is None and now_s >= machine.visible_s and now_s >= machine.hidden_until_s

    @property
    def slots_left(self) -> int | None:
        """How many more there is room for; ``None`` where there is always more."""
        if self._options.slots is None:
            return None
        return max(self._options.slots - sum(1 for machine in self.machines.values() if machine.live), 0)

    # What can be done to it

    def land(self, delay_s: float, launch: Launch, landed: Callable[[Machine], None]) -> None:
        """A create arrives after this time, whatever becomes of its sender."""

        def arrive() -> None:
            self.landing -= 1
            landed(self.create(launch))

        self.landing += 1
        self.loop.call_later(delay_s, arrive)

    def create(self, launch: Launch) -> Machine:
        """The create takes effect; where names are unique, once."""
        known = self.named(launch.key)
        if known and self.card.identity == "unique_name":
            return known[0]
        now_s = self.loop.time()
        created_ms = EPOCH_MS + int(now_s * 1000)
        machine = Machine(
            native_id=f"m{len(self.machines)}",
            launch=launch,
            landed_s=now_s,
            seen=Observation(
                key=launch.key,
                phase=Phase.PROVISIONING,
                observed_ms=created_ms,
                source=NAME,
                created_ms=created_ms,
            ),
            visible_s=now_s + (self._faults.between("lag", 0, self.card.visibility_s) if self._hit("lag") else 0.0),
        )
        self.machines[machine.native_id] = machine
        self.trace.tell(f"{machine.native_id} exists for {launch.key}")
        if self.watcher is not None:
            self.watcher.landed(machine)
        machine.life = self.loop.create_task(self._live(machine), context=self._outside)
        self.room_changed()
        return machine

    def ask_to_stop(self, machine: Machine) -> None:
        """The program gets its grace, then it ends."""
        machine.stop.set()

    def delete(self, machine: Machine, *, asked: bool) -> None:
        """All of it is gone."""
        if machine.deleted_s is None:
            machine.deleted_s = self.loop.time()
            machine.code_s = None
            self.trace.tell(f"{machine.native_id} is gone")
            if machine.life is not None:
                machine.life.cancel()
            if self.watcher is not None:
                self.watcher.deleted(machine, asked)
            self.room_changed()

    def answer(self, key: str, granted: bool) -> None:
        """The answer to a runner's question reaches those of that name."""
        for machine in self.named(key):
            if self._hit("permit_unheard"):
                continue
            delay_s = self._faults.between("permit_delayed", 1, 60) if self._hit("permit_delayed") else 0.0
            self.loop.call_later(delay_s, self._hear, machine, machine.boots, granted)

    def _hear(self, machine: Machine, boot: int, granted: bool) -> None:
        if machine.boots == boot and not machine.heard.is_set():
            machine.granted = granted
            machine.heard.set()

    # The life of a machine

    def _hit(self, name: str) -> bool:
        return self._faults.hit(name)

    async def _live(self, machine: Machine) -> None:
        chance = self._streams.of(f"boot {machine.key}")
        boot_s = chance.choice((0.5, 5.0, 20.0)) * (0.5 + chance.random())
        if self._hit("slow_boot"):
            boot_s += self._faults.between("slow_boot", 10, 200)
        if self._hit("never_boots"):
            boot_s = NEVER_S
        if await self._stopped_within(machine, boot_s):
            self._end(machine, cause=Cause.STOPPED)
            return
        if self._hit("bad_host"):
            self._end(machine, cause=Cause.PROVIDER_ERROR)
            return
        while await self._permitted(machine):
            machine.seen = replace(machine.seen, phase=Phase.PREPARING)
            self._report(machine)
            if await self._stopped_within(machine, 0.5):
                self._end(machine, cause=Cause.STOPPED)
                return
            if not await self._run(machine):
                return

    async def _permitted(self, machine: Machine) -> bool:
        """Ask until there is an answer."""
        machine.boots += 1
        machine.heard.clear()
        machine.seen = replace(machine.seen, phase=Phase.AWAITING_PERMIT, incarnation=str(machine.boots))
        again_s = ASK_S
        while not machine.heard.is_set():
            for listener in list(self.listeners):
                listener.permit_wanted(PermitRequest(key=machine.key, tag=machine.launch.tag))
            if await self._stopped_within(machine, again_s, or_heard=True):
                self._end(machine, cause=Cause.STOPPED)
                return False
            again_s = min(again_s * 2, ASK_MAX_S)
        if not machine.granted:
            self._end(machine, cause=Cause.STALE_PERMIT)
        return machine.granted

    async def _run(self, machine: Machine) -> bool:
        """Run the program to one of its ends; true when the machine starts again by itself instead."""
        wish = self._wishes[machine.launch.spec.name or ""]
        chance = self._streams.of(f"run {machine.key} {machine.boots}")
        runs_s = wish.runs_s * (0.8 + 0.4 * chance.random())
        limit_s = NEVER_S if machine.launch.runtime_s is None else float(machine.launch.runtime_s)
        cut_s = min(runs_s, limit_s) * chance.random()
        fate = self._fate()
        now_s = self.loop.time()
        machine.code_s, machine.starts = now_s, machine.starts + 1
        machine.seen = replace(machine.seen, phase=Phase.RUNNING, started_ms=EPOCH_MS + int(now_s * 1000))
        self.trace.tell(f"{machine.native_id} runs the program of {machine.key}")
        if self.watcher is not None:
            self.watcher.code_started(machine)
        self._report(machine)
        stopped = await self._stopped_within(machine, cut_s if fate else min(runs_s, limit_s))
        if stopped:
            await asyncio.sleep(chance.random() * float(machine.launch.spec.stop_grace_s))
        machine.code_s = None
        if stopped:
            self._end(machine, cause=Cause.STOPPED)
        elif fate == "restarted":
            self.trace.tell(f"{machine.native_id} starts again by itself")
            return True
        elif fate == "vanished":
            self.delete(machine, asked=False)
        elif fate == "preempted":
            self._end(machine, cause=Cause.PREEMPTED)
        elif runs_s > limit_s:
            self._end(machine, cause=Cause.TIMEOUT)
        else:
            await self._collect(machine, wish, chance.random() * 3)
        return False

    def _fate(self) -> str:
        for name in ("preempted", "vanished", "restarted"):
            if (name != "restarted" or self.card.restarts_by_itself) and self._hit(name):
                return name
        return ""

    async def _collect(self, machine: Machine, wish: Wish, for_s: float) -> None:
        ended_ms = EPOCH_MS + int(self.loop.time() * 1000)
        done = wish.exit_code == 0
        machine.seen = replace(
            machine.seen, phase=Phase.COLLECTING, exit_code=wish.exit_code, computed=done, ended_ms=ended_ms
        )
        self._report(machine)
        stopped = await self._stopped_within(machine, for_s)
        declared = () if stopped or not wish.writes_outputs else machine.launch.spec.outputs
        outputs = tuple(
            FoundOutput(
                name=output.name,
                path=output.path,
                size_bytes=8,
                sha256=DIGEST,
                location=f"{machine.native_id}/{output.name}",
            )
            for output in declared
        )
        machine.seen = replace(
            machine.seen, outputs=outputs, problem="collecting was stopped on request" if stopped else ""
        )
        self._end(machine, cause=None if done else Cause.EXIT_CODE)

    def _end(self, machine: Machine, *, cause: Cause | None) -> None:
        now_s = self.loop.time()
        now_ms = EPOCH_MS + int(now_s * 1000)
        machine.ended_s = now_s
        machine.seen = replace(
            machine.seen,
            phase=Phase.ENDED,
            cause=cause,
            message="" if cause is None else f"it ended: {cause}",
            collected=True,
            ended_ms=machine.seen.ended_ms or now_ms,
            logs=(LogSeal(stream="stdout", bytes_total=len(LOG), bytes_kept=len(LOG)),) if machine.starts else (),
        )
        self.trace.tell(f"{machine.native_id} ended: {cause or 'well'}")
        if self.watcher is not None:
            self.watcher.ended(machine)
        self._report(machine)
        self.room_changed()
        if self.card.forgets_after_s is not None:
            self.loop.call_later(self.card.forgets_after_s, lambda: self.delete(machine, asked=False))

    def _report(self, machine: Machine) -> None:
        """Tell those who are connected: perhaps late, twice, or not at all."""
        if self._hit("report_lost"):
            return
        seen = replace(machine.seen, observed_ms=EPOCH_MS + int(self.loop.time() * 1000))
        delay_s = self._faults.between("report_delayed", 1, 600) if self._hit("report_delayed") else 0.0
        for _ in range(2 if self._hit("report_twice") else 1):
            self.loop.call_later(delay_s, self._tell, seen)
            delay_s += 1.0

    def _tell(self, seen: Observation) -> None:
        for listener in list(self.listeners):
            listener.changed(seen)

    async def _stopped_within(self, machine: Machine, duration_s: float, *, or_heard: bool = False) -> bool:
        """Wait so long, or until it is to stop; with ``or_heard`` an answer ends the wait too."""
        waits = [machine.stop, *([machine.heard] if or_heard else [])]
        if any(event.is_set() for event in waits):
            return machine.stop.is_set()
        tasks = [self.loop.create_task(event.wait()) for event in waits]
        try:
            await asyncio.wait(tasks, timeout=duration_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return machine.stop.is_set()
