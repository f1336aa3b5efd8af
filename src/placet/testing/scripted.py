"""A provider in memory whose attempts end as a script says. It is for tests of what drives providers, not of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from placet.adapters.pieces import read_file
from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogChunk,
    LogSeal,
    Naming,
    Observation,
    PermitRequest,
    Phase,
    PriceEcho,
    Usage,
)
from placet.domain.errors import AuthFailed, InvalidRequest, NoCapacity, OutcomeUnknown, Unavailable
from placet.domain.failures import Cause
from placet.domain.offers import Availability, Free, Offer
from placet.ports.ambient import Clock
from placet.ports.provider import Hints

CARD = ContractCard(
    identity="unique_name",
    naming=Naming(unique=True, checks_parameters=True, searchable=True),
    states=(
        ("waiting", Phase.AWAITING_PERMIT),
        ("running", Phase.RUNNING),
        ("collecting", Phase.COLLECTING),
        ("ended", Phase.ENDED),
    ),
    exit_code_reliable=True,
    price_echo=PriceEcho.CREATE_REPLY,
    visibility_s=0.0,
    late_create_s=0.5,
    bound_to_place=False,
    lists_completely=True,
    exit_code=True,
    restarts_by_itself=False,
    fence=True,
    forgets_after_s=None,
    billing_quantum_s=1,
    runtimes=("process", "python", "container"),
    log_streams=("stdout", "stderr"),
    outputs_are_files=True,
)
NO_USAGE = Usage()


@dataclass(frozen=True, kw_only=True)
class Script:
    """What one attempt does once it has its permit. ``hold`` keeps it running until ``let_go`` or a cancel, and
    ``hold_outputs`` keeps its outputs from being collected so long. ``problem`` is what becomes of the outputs.
    """

    cause: Cause | None = None
    exit_code: int | None = 0
    outputs: tuple[FoundOutput, ...] = ()
    missing: tuple[str, ...] = ()
    logs: tuple[tuple[str, bytes], ...] = ()
    hold: bool = False
    hold_outputs: bool = False
    problem: str = ""
    usage: Usage = NO_USAGE
    refuse: bool = False
    deny: bool = False
    invalid: bool = False
    lose_reply: bool = False
    lose_request: bool = False


@dataclass(kw_only=True)
class _Allocation:
    launch: Launch
    handle: Handle
    script: Script
    seen: Observation
    running: bool = False
    released: bool = False


class ScriptedProvider:
    """Ground truth is open to tests: ``ran`` lists every start of user code, ``allocations`` what exists."""

    def __init__(
        self,
        clock: Clock,
        script: Callable[[Launch], Script],
        *,
        slots: int = 1000,
        offers: Callable[[], Sequence[Offer]] | None = None,
    ) -> None:
        self._clock = clock
        self._script = script
        self._slots = slots
        self._own_offers = offers
        self._hints: Hints | None = None
        self.allocations: dict[str, _Allocation] = {}
        self.ran: list[tuple[str, int]] = []
        self.reachable = True
        self._live = 0
        self.name = "scripted"
        self.card = CARD
        self.deaf: set[str] = set()
        self._never: set[str] = set()

    async def open(self, hints: Hints) -> None:
        self._hints = hints

    async def close(self) -> None:
        self._hints = None

    def offers(self) -> Sequence[Offer]:
        if self._own_offers is not None:
            return self._own_offers()
        return (
            Offer(
                id="scripted-cpu",
                provider=self.name,
                region="here",
                runtimes=self.card.runtimes,
                cpu_cores=Decimal(1000),
                memory_bytes=10**12,
                availability=Availability.FREE,
                free=Free(slots=self._slots - self._live),
                observed_ms=self._clock.now_ms(),
            ),
        )

    async def submit(self, launch: Launch) -> Handle:
        script = self._script(launch)
        if not self.reachable:
            raise Unavailable("not reachable", provider=self.name)
        if script.refuse:
            raise NoCapacity("none free", provider=self.name)
        if script.deny:
            raise AuthFailed("the credentials were refused")
        if script.invalid:
            raise InvalidRequest("it is not possible", provider=self.name)
        if script.lose_request:
            raise OutcomeUnknown("the connection was cut", provider=self.name)
        if launch.key in self._never:
            raise InvalidRequest("it was stopped before it was submitted", provider=self.name)
        known = self.allocations.get(launch.key)
        if known is None:
            self._create(launch, script)
        elif known.released or known.launch.tag.nonce != launch.tag.nonce:
            raise InvalidRequest("something else bore or bears this name", provider=self.name)
        if script.lose_reply:
            raise OutcomeUnknown("the reply was lost", provider=self.name)
        return self.allocations[launch.key].handle

    def _create(self, launch: Launch, script: Script) -> None:
        now_ms = self._clock.now_ms()
        handle = Handle(
            provider=self.name,
            key=launch.key,
            native_id=f"n-{launch.key}",
            created_ms=now_ms,
            nonce=launch.tag.nonce,
            price_usd_per_hour=launch.offer.price_usd_per_hour,
        )
        seen = Observation(
            key=launch.key,
            phase=Phase.AWAITING_PERMIT,
            observed_ms=now_ms,
            source=self.name,
            incarnation=f"n-{launch.key}/1",
            created_ms=now_ms,
        )
        self._live += 1
        self.allocations[launch.key] = _Allocation(launch=launch, handle=handle, script=script, seen=seen)
        asyncio.get_running_loop().call_soon(self._ask, launch)

    def _ask(self, launch: Launch) -> None:
        if self._hints is not None:
            self._hints.permit_wanted(PermitRequest(key=launch.key, tag=launch.tag))

    async def find(self, key: str) -> Sequence[Handle]:
        if not self.reachable:
            raise Unavailable("not reachable", provider=self.name)
        return [self.allocations[key].handle] if key in self.allocations else []

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        if not self.reachable:
            raise Unavailable("not reachable", provider=self.name)
        return [self._look(handle.key) for handle in handles]

    def _look(self, key: str) -> Observation:
        held = self.allocations.get(key)
        now_ms = self._clock.now_ms()
        if held is None or held.released:
            return Observation(key=key, phase=Phase.GONE, observed_ms=now_ms, source=self.name)
        return replace(held.seen, observed_ms=now_ms)

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        held = self.allocations.get(request.key)
        if held is None or held.running or held.seen.phase is Phase.ENDED:
            return
        if not granted:
            self._end(held, replace(held.script, cause=Cause.STALE_PERMIT, exit_code=None, outputs=()), reason)
            return
        held.running = True
        if held.script.cause is Cause.START_FAILED:
            self._end(held, held.script, "")
            return
        self.ran.append((held.launch.tag.workload_id, held.launch.tag.epoch))
        now_ms = self._clock.now_ms()
        held.seen = replace(held.seen, phase=Phase.RUNNING, started_ms=now_ms)
        self._tell(held)
        if held.script.hold_outputs:
            done = held.script.cause is None
            held.seen = replace(
                held.seen, phase=Phase.COLLECTING, exit_code=held.script.exit_code, computed=done, ended_ms=now_ms
            )
            self._tell(held)
        elif not held.script.hold:
            self._end(held, held.script, "")

    def let_go(self, key: str) -> None:
        """End a held attempt as its script says."""
        self._end(self.allocations[key], self.allocations[key].script, "")

    def vanish(self, key: str) -> None:
        """The allocation is gone without a trace."""
        self._live -= 1
        del self.allocations[key]

    def _end(self, held: _Allocation, script: Script, message: str) -> None:
        self._live -= 1
        held.seen = replace(
            held.seen,
            phase=Phase.ENDED,
            cause=script.cause,
            message=message or (f"exit code {script.exit_code}" if script.cause else ""),
            exit_code=script.exit_code,
            computed=script.cause is None and script.exit_code == 0,
            collected=True,
            ended_ms=self._clock.now_ms(),
            outputs=script.outputs,
            missing=script.missing,
            problem=script.problem,
            usage=script.usage,
            logs=tuple(
                LogSeal(stream=stream, bytes_total=len(data), bytes_kept=len(data)) for stream, data in script.logs
            ),
        )
        self._tell(held)

    def _tell(self, held: _Allocation) -> None:
        if self._hints is not None and held.launch.key not in self.deaf:
            self._hints.changed(held.seen)
            self._hints.capacity()

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        del grace_s
        held = self.allocations.get(handle.key)
        if held is None:
            self._never.add(handle.key)
        elif held.seen.phase is Phase.COLLECTING:
            self._end(held, replace(held.script, outputs=(), problem="collecting was stopped on request"), "")
        elif held.seen.phase is not Phase.ENDED:
            self._end(held, replace(held.script, cause=Cause.STOPPED, exit_code=None, outputs=()), "stopped")

    async def release(self, handle: Handle) -> bool:
        if not self.reachable:
            raise Unavailable("not reachable", provider=self.name)
        held = self.allocations.get(handle.key)
        if held is not None and not held.released:
            if held.seen.phase is not Phase.ENDED:
                self._end(held, replace(held.script, cause=Cause.STOPPED, exit_code=None, outputs=()), "deleted")
            held.released = True
        return True

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        for held in list(self.allocations.values()):
            if held.launch.tag.deployment == deployment and not held.released:
                yield held.handle

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        held = self.allocations.get(handle.key)
        if held is None:
            return
        data = dict(held.script.logs).get(stream, b"")
        yield LogChunk(stream=stream, offset=offset, data=data[offset:], final=held.seen.phase is Phase.ENDED)

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        held = self.allocations.get(handle.key)
        if held is None or held.released or found not in held.seen.outputs:
            raise FileNotFoundError(found.location)
        location = Path(found.location)
        async for piece in read_file(location.parent, found.location, offset):
            yield piece
