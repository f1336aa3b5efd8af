"""A server's connection to the cloud: the Provider port over a wire that delays, loses and lies as drawn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogChunk,
    Observation,
    PermitRequest,
    Phase,
)
from placet.domain.errors import (
    AuthFailed,
    InvalidRequest,
    NoCapacity,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)
from placet.domain.offers import Availability, Free, Offer
from placet.ports.ambient import Clock
from placet.ports.provider import Hints
from placet.testing.world.cloud import LOG, NAME, Cloud, Machine
from placet.testing.world.faults import Faults
from placet.testing.world.oracle import LATE_WITHOUT_BOUND_S, Oracle
from placet.testing.world.process import EPOCH_MS, Process
from placet.testing.world.trace import Trace

T = TypeVar("T")

CALL_LIMIT_S = 10.0
PRICES = (Decimal("1.20"), Decimal("2.40"), Decimal("6.00"))


class Wire:
    """What all servers share of the way to the provider: times in which nobody gets through."""

    def __init__(self, faults: Faults, faults_s: float) -> None:
        self._faults = faults
        self.dark_s = (NEVER, NEVER)
        self.expired_until_s = 0.0
        if faults.hit("dark"):
            begin_s = faults.between("dark", 0, faults_s)
            self.dark_s = (begin_s, begin_s + faults.between("dark", 60, 3600))

    def refusal(self, now_s: float) -> ProviderError | None:
        """Why no request gets anywhere, if so."""
        if self._faults.on and self.dark_s[0] <= now_s < self.dark_s[1]:
            return Unavailable("the provider is dark", provider=NAME)
        if self._faults.hit("token_expired"):
            self.expired_until_s = now_s + self._faults.between("token_expired", 5, 60)
        if self._faults.on and now_s < self.expired_until_s:
            return AuthFailed("the token has expired", provider=NAME)
        if self._faults.hit("rate_limit"):
            return RateLimited("slow down", provider=NAME)
        return None


NEVER = float("inf")


class Adapter:
    """The Provider port of one process. What it has sent takes effect whatever becomes of the process."""

    name = NAME

    def __init__(self, cloud: Cloud, wire: Wire, process: Process, clock: Clock, oracle: Oracle) -> None:
        self._cloud = cloud
        self._wire = wire
        self._process = process
        self._clock = clock
        self._oracle = oracle
        self._faults = oracle.faults
        self._trace: Trace = oracle.trace
        self._hints: Hints | None = None
        self._offers: tuple[int | None, Sequence[Offer]] | None = None

    @property
    def card(self) -> ContractCard:
        return self._cloud.card

    async def open(self, hints: Hints) -> None:
        self._hints = hints
        self._cloud.listeners.append(self)

    async def close(self) -> None:
        self.die()

    def die(self) -> None:
        """Nobody listens any more."""
        self._hints = None
        if self in self._cloud.listeners:
            self._cloud.listeners.remove(self)

    # What the provider tells

    def permit_wanted(self, request: PermitRequest) -> None:
        if self._hints is not None:
            self._process.soon(self._hints.permit_wanted, request)

    def changed(self, seen: Observation) -> None:
        if self._hints is not None:
            self._process.soon(self._hints.changed, seen)
            self._process.soon(self._hints.capacity)

    def offers(self) -> Sequence[Offer]:
        left = self._cloud.slots_left
        if self._offers is None or self._offers[0] != left:
            self._offers = (left, tuple(self._offer(number, left) for number in range(self._oracle.options.offers)))
        return self._offers[1]

    def _offer(self, number: int, left: int | None) -> Offer:
        return Offer(
            id=f"offer-{number}",
            provider=NAME,
            region="here",
            runtimes=self.card.runtimes,
            cpu_cores=Decimal(16),
            memory_bytes=64 * 10**9,
            price_usd_per_hour=PRICES[number],
            billing_quantum_s=self.card.billing_quantum_s,
            startup_s=Decimal(15),
            availability=Availability.FREE,
            free=Free(slots=left),
            observed_ms=EPOCH_MS,
            may_rerun=self.card.restarts_by_itself,
        )

    # What is asked of the provider

    async def submit(self, launch: Launch) -> Handle:
        begun_s = self._cloud.loop.time()
        if self._faults.hit("held_send"):
            self._process.pause(self._faults.between("held_send", 20, 240))
        await self._process.turn("before submit")
        self._oracle.sent(launch, self._process, begun_s)
        refused = self._wire.refusal(self._cloud.loop.time())
        refused = refused or (Unavailable("reset", provider=NAME) if self._faults.hit("error_before") else None)
        if refused is not None:
            return await self._answered(refused)
        if self._faults.hit("lost_request"):
            return await self._unheard()
        if self._faults.hit("late_create"):
            bound_s = self.card.late_create_s or LATE_WITHOUT_BOUND_S
            delay_s = self._faults.between("late_create", min(CALL_LIMIT_S, bound_s), bound_s)
            self._cloud.land(delay_s, launch, self._landed_late)
            return await self._unheard()
        refused = self._refused()
        if refused is not None:
            return await self._answered(refused)
        landed: asyncio.Future[Machine] = self._cloud.loop.create_future()
        self._cloud.land(self._latency_s(), launch, landed.set_result)
        machine = await asyncio.shield(landed)
        if self._faults.hit("lost_reply"):
            return await self._unheard()
        return await self._answered(machine.handle)

    def _landed_late(self, machine: Machine) -> None:
        del machine
        self._trace.meet("create lands after it was given up")

    def _refused(self) -> ProviderError | None:
        if self._cloud.slots_left == 0 or self._faults.hit("no_capacity"):
            return NoCapacity("none free", provider=NAME)
        return QuotaExceeded("no more of these", provider=NAME) if self._faults.hit("quota") else None

    async def find(self, key: str) -> Sequence[Handle]:
        def look() -> list[Handle]:
            self._hide(self._cloud.named(key))
            return [machine.handle for machine in self._cloud.named(key) if self._cloud.visible(machine)]

        return await self._read("find", look)

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        def look() -> list[Observation]:
            return [self._look(handle) for handle in handles]

        return await self._read("observe", look)

    def _look(self, handle: Handle) -> Observation:
        machine = self._cloud.machines.get(handle.native_id)
        now_ms = self._clock.now_ms()
        if machine is not None:
            self._hide([machine])
        if machine is None or not self._cloud.visible(machine):
            return Observation(key=handle.key, phase=Phase.GONE, observed_ms=now_ms, source=NAME)
        if self._faults.hit("unknown_state"):
            return Observation(key=handle.key, phase=Phase.UNKNOWN, observed_ms=now_ms, source=NAME, native_state="odd")
        return replace(machine.seen, observed_ms=now_ms)

    def _hide(self, machines: Sequence[Machine]) -> None:
        """A reader may be shown an old state of things, as old as the card allows; after that it is shown the truth."""
        for machine in machines:
            if self.card.visibility_s and machine.shown and self._faults.hit("stale_read"):
                now_s = self._cloud.loop.time()
                machine.hidden_until_s = now_s + self._faults.between("stale_read", 0, self.card.visibility_s)
            machine.shown = self._cloud.visible(machine)

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        del reason
        await self._write("permit", lambda: self._cloud.answer(request.key, granted))

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        del grace_s
        machine = self._cloud.machines.get(handle.native_id)
        if machine is not None and machine.stop_asked_s is None:
            machine.stop_asked_s = self._cloud.loop.time()

        def stop() -> None:
            if machine is None or not machine.live:
                return
            if machine.seen.phase is Phase.PROVISIONING and self._faults.hit("stop_refused"):
                raise InvalidRequest("not while it is provisioning", provider=NAME)
            if not self._faults.hit("stop_ignored"):
                self._cloud.ask_to_stop(machine)

        await self._write("cancel", stop)

    async def release(self, handle: Handle) -> bool:
        machine = self._cloud.machines.get(handle.native_id)

        def delete() -> bool:
            if machine is None or machine.deleted_s is not None:
                return True
            if self._faults.hit("release_refused"):
                self._oracle.release_refused(machine)
                raise Unavailable("busy, try later", provider=NAME)
            self._oracle.releasing(machine)
            if self._faults.hit("release_slow"):
                delay_s = self._faults.between("release_slow", 1, 30)
                self._cloud.loop.call_later(delay_s, lambda: self._cloud.delete(machine, asked=True))
                return False
            self._cloud.delete(machine, asked=True)
            return True

        return await self._write("release", delete)

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        def look() -> list[Handle]:
            return [
                machine.handle
                for machine in self._cloud.machines.values()
                if machine.launch.tag.deployment == deployment
                and self._cloud.visible(machine)
                and not self._faults.hit("lost_page")
            ]

        for handle in await self._read("owned", look):
            yield handle

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        machine = self._cloud.machines.get(handle.native_id)
        gone = machine is None or machine.deleted_s is not None
        data = await self._read("logs", lambda: b"" if gone else LOG)
        yield LogChunk(stream=stream, offset=offset, data=data[offset:], final=not gone)

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        machine = self._cloud.machines.get(handle.native_id)
        if machine is None or machine.deleted_s is not None:
            raise FileNotFoundError(found.location)
        yield await self._read("output", lambda: bytes(found.size_bytes)[offset:])

    # The wire

    def _latency_s(self) -> float:
        return self._faults.between("slow_wire", 1, 8) if self._faults.hit("slow_wire") else 0.05

    async def _answered(self, answer: T | ProviderError) -> T:
        await asyncio.sleep(self._latency_s())
        await self._process.turn("after a call")
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    async def _unheard(self) -> Handle:
        await asyncio.sleep(CALL_LIMIT_S)
        await self._process.turn("after a call")
        raise OutcomeUnknown("no answer in time", provider=NAME)

    async def _read(self, verb: str, look: Callable[[], T]) -> T:
        await self._process.turn(f"before {verb}")
        await asyncio.sleep(self._latency_s())
        refused = self._wire.refusal(self._cloud.loop.time())
        if refused is None and self._faults.hit("read_error"):
            refused = Unavailable("reset", provider=NAME)
        if refused is not None:
            return await self._answered(refused)
        return await self._answered(look())

    async def _write(self, verb: str, act: Callable[[], T]) -> T:
        """Sent, it takes effect even where nobody lives any more to hear so."""
        await self._process.turn(f"before {verb}")
        refused = self._wire.refusal(self._cloud.loop.time())
        if refused is None and self._faults.hit("error_before"):
            refused = Unavailable("reset", provider=NAME)
        if refused is not None:
            return await self._answered(refused)
        done: asyncio.Future[T | ProviderError] = self._cloud.loop.create_future()

        def take_effect() -> None:
            try:
                done.set_result(act())
            except ProviderError as error:
                done.set_result(error)

        self._cloud.loop.call_later(self._latency_s(), take_effect)
        outcome = await asyncio.shield(done)
        if self._faults.hit("lost_reply"):
            return await self._answered(Unavailable("the reply was lost", provider=NAME))
        return await self._answered(outcome)
