"""What the laws of a provider need to know of one adapter, and what they are made of. No law stands here."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum

from placet.domain.allocations import FoundOutput, Handle, Launch, LogChunk, Observation, PermitRequest, Phase
from placet.domain.errors import ProviderError, Unavailable
from placet.ports.provider import Hints, Provider
from placet.testing.conformance.waiting import eventually

CALL_LIMIT_S = 15.0
END_LIMIT_S = 30.0
FINAL = (Phase.ENDED, Phase.GONE)


class Behaviour(StrEnum):
    """What the program of a launch does; ``WRITE`` succeeds and leaves a declared output that is not empty."""

    SUCCEED = "succeed"
    EXIT_3 = "exit_3"
    HOLD = "hold"
    TALK = "talk"
    WRITE = "write"
    MISSING = "missing"


class Fault(StrEnum):
    """What can be made to go wrong where an adapter offers it; each needs a launch that meets it.

    A program runs for a while under ``UNKNOWN_STATE``, ``STOP_REFUSED``, ``STOP_IGNORED`` and ``OTHER_PRICE``, is taken
    away under ``PREEMPTED``, and succeeds under the others once it can begin.
    """

    LOST_REQUEST = "lost_request"
    LOST_REPLY = "lost_reply"
    SERVER_ERROR = "server_error"
    LATE_CREATE = "late_create"
    EMPTY_HANDLE = "empty_handle"
    LATE_VISIBLE = "late_visible"
    LOST_PAGE = "lost_page"
    RATE_LIMITED = "rate_limited"
    RATE_LIMITED_NO_HINT = "rate_limited_no_hint"
    NO_CAPACITY = "no_capacity"
    NO_QUOTA = "no_quota"
    UNKNOWN_STATE = "unknown_state"
    STOP_REFUSED = "stop_refused"
    STOP_IGNORED = "stop_ignored"
    PREEMPTED = "preempted"
    HOST_LOST = "host_lost"
    RESTARTED = "restarted"
    LOG_LOST = "log_lost"
    CLOCK_AHEAD = "clock_ahead"
    CLOCK_BEHIND = "clock_behind"
    OTHER_PRICE = "other_price"


class Listener:
    """Collects hints, and answers permits as told: ``True``, ``False``, or ``None`` for silence."""

    def __init__(self, grants: bool | None = True) -> None:
        self.grants = grants
        self.provider: Provider | None = None
        self.asked: list[PermitRequest] = []
        self.seen: list[Observation] = []
        self._answers: set[asyncio.Future[None]] = set()

    @property
    def hints(self) -> Hints:
        return Hints(permit_wanted=self._permit_wanted, changed=self.seen.append, capacity=lambda: None)

    def _permit_wanted(self, request: PermitRequest) -> None:
        self.asked.append(request)
        if self.grants is not None and self.provider is not None:
            future = asyncio.ensure_future(self._answer(self.provider, request, self.grants))
            self._answers.add(future)
            future.add_done_callback(self._answers.discard)

    async def _answer(self, provider: Provider, request: PermitRequest, granted: bool) -> None:
        try:
            await provider.answer_permit(request, granted, "as the test says")
        except ProviderError:
            return  # a runner that did not hear asks again


class ProviderBench(ABC):
    """What the suite needs to know of one adapter."""

    # What a program with behaviour TALK writes to its first log stream.
    talk: bytes = b"one\ntwo\nthree\n"
    # Before every key, so that two runs on one account do not meet.
    prefix: str = ""

    @abstractmethod
    async def connect(self, listener: Listener) -> Provider:
        """A new, opened connection to the same place; several may exist."""

    @abstractmethod
    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        """A launch whose program behaves so."""

    @abstractmethod
    def impossible(self, key: str) -> Launch:
        """A launch that the provider must refuse for what it says."""

    @abstractmethod
    def oversized(self, key: str) -> Launch:
        """A launch that is well formed and for which there is no room."""

    async def started(self, key: str) -> int | None:
        """Ground truth, not asked of the provider: how often the program of that key began; ``None``: not known."""
        del key
        return None

    async def alive(self, key: str) -> int | None:
        """Ground truth, not asked of the provider: how many processes or machines of that key exist; ``None``: not
        known."""
        del key
        return None

    async def cut(self, provider: Provider) -> None:
        """Break the connection in the ungentle way, in the middle of whatever it is doing."""
        await provider.close()

    def faulty(self, fault: Fault, key: str) -> Launch | None:
        """A launch that meets the fault; ``None`` where it cannot be made to happen."""
        del fault, key
        return None

    async def priced_zero(self, listener: Listener) -> Provider | None:
        """A connection to a provider whose price list has a price of zero in it; ``None`` where there cannot be one."""
        del listener
        return None


# What the laws are made of; adapters' own tests may use them too.


async def observe(provider: Provider, handle: Handle) -> Observation:
    """One observation of one allocation."""
    (seen,) = await provider.observe([handle])
    return seen


async def in_phase(provider: Provider, handle: Handle, phase: Phase) -> Observation:
    """Wait until it is seen in that phase."""

    async def look() -> Observation | None:
        seen = await observe(provider, handle)
        assert seen.phase not in FINAL or phase in FINAL, f"it ended: {seen}"
        return seen if seen.phase is phase else None

    return await eventually(look, END_LIMIT_S, f"{handle.key} in phase {phase}")


async def ended(provider: Provider, handle: Handle, limit_s: float = END_LIMIT_S) -> Observation:
    """Wait for its end."""

    async def look() -> Observation | None:
        try:
            seen = await observe(provider, handle)
        except Unavailable:
            return None  # between two connections; the wait is bounded
        return seen if seen.phase is Phase.ENDED else None

    return await eventually(look, limit_s, f"end of {handle.key}")


async def released(provider: Provider, handle: Handle) -> None:
    """Release until it is proven."""
    await eventually(lambda: provider.release(handle), END_LIMIT_S, f"proof that {handle.key} is gone")


async def read(provider: Provider, handle: Handle, stream: str, offset: int) -> list[LogChunk]:
    """Everything that is there now from an offset on."""
    return [chunk async for chunk in provider.logs(handle, stream, offset)]


async def output(provider: Provider, handle: Handle, found: FoundOutput, offset: int) -> bytes:
    """The bytes of one collected output from an offset on."""
    return b"".join([piece async for piece in provider.read_output(handle, found, offset)])


def free_slots(provider: Provider, offer_id: str) -> int | None:
    """The free slots of an offer."""
    return next((offer.free.slots for offer in provider.offers() if offer.id == offer_id), None)


def essence(seen: Observation) -> Sequence[object]:
    """The part of an observation that is a statement about the allocation, not about the look."""
    return (
        seen.key,
        seen.phase,
        seen.cause,
        seen.exit_code,
        seen.signal,
        seen.computed,
        seen.started_ms,
        seen.ended_ms,
        seen.outputs,
        seen.missing,
        seen.logs,
        seen.message,
    )
