"""The laws of a provider, one test each. An adapter inherits ``ProviderContract`` and supplies a ``ProviderBench``."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum

import pytest

from placet.domain.allocations import Handle, Launch, LogChunk, Observation, PermitRequest, Phase
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, ProviderError, QuotaExceeded, Unavailable
from placet.domain.failures import MEANINGS, Cause
from placet.ports.provider import Hints, Provider
from placet.testing.conformance.waiting import eventually

CALL_LIMIT_S = 15.0
END_LIMIT_S = 30.0
FINAL = (Phase.ENDED, Phase.GONE)


class Behaviour(StrEnum):
    """What the program of a launch does."""

    SUCCEED = "succeed"
    EXIT_3 = "exit_3"
    HOLD = "hold"
    TALK = "talk"
    MISSING = "missing"


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
        except Unavailable:
            return  # a runner that did not hear asks again


class ProviderBench(ABC):
    """What the suite needs to know of one adapter."""

    # What a program with behaviour TALK writes to its first log stream.
    talk: bytes = b"one\ntwo\nthree\n"

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

    @abstractmethod
    async def started(self, key: str) -> int:
        """Ground truth, not asked of the provider: how often the program of that key began."""

    @abstractmethod
    async def alive(self, key: str) -> int:
        """Ground truth, not asked of the provider: how many processes or machines of that key exist."""

    @abstractmethod
    async def cut(self, provider: Provider) -> None:
        """Break the connection in the ungentle way, in the middle of whatever it is doing."""


class ProviderContract(ABC):
    """Inherit, and supply the fixture ``bench``."""

    @pytest.fixture
    @abstractmethod
    def bench(self) -> ProviderBench:
        """The adapter under test."""

    @pytest.fixture
    async def listener(self) -> Listener:
        return Listener()

    @pytest.fixture
    async def provider(self, bench: ProviderBench, listener: Listener) -> AsyncIterator[Provider]:
        provider = await bench.connect(listener)
        listener.provider = provider
        yield provider
        await provider.close()

    # 1. One key, one thing.

    async def test_submitting_twice_with_one_key_gives_one_thing(
        self, provider: Provider, bench: ProviderBench
    ) -> None:
        launch = bench.launch(Behaviour.SUCCEED, "law-1")
        first, second = await asyncio.gather(provider.submit(launch), provider.submit(launch))
        assert first.key == second.key and first.native_id == second.native_id
        await ended(provider, first)
        third = await provider.submit(launch)
        assert third.native_id == first.native_id
        assert await bench.started("law-1") == 1
        assert len(await provider.find("law-1")) == 1

    async def test_a_released_key_never_starts_again(self, provider: Provider, bench: ProviderBench) -> None:
        launch = bench.launch(Behaviour.SUCCEED, "law-1-released")
        handle = await provider.submit(launch)
        await ended(provider, handle)
        await released(provider, handle)
        with pytest.raises(ProviderError):
            await provider.submit(launch)
        assert await bench.started("law-1-released") == 1

    # 2. After a cut, find tells the truth.

    async def test_find_tells_the_truth_after_a_cut(self, provider: Provider, bench: ProviderBench) -> None:
        launch = bench.launch(Behaviour.SUCCEED, "law-2")
        sending = asyncio.ensure_future(provider.submit(launch))
        await asyncio.wait([sending], timeout=0)
        await bench.cut(provider)
        outcome: Handle | None = None
        try:
            outcome = await asyncio.wait_for(sending, CALL_LIMIT_S)
        except OutcomeUnknown:
            pass
        except Unavailable:
            # Surely not carried out, says the error: then it must not be there.
            assert await (await bench.connect(Listener(None))).find("law-2") == []
            return
        listener = Listener()
        again = await bench.connect(listener)
        listener.provider = again
        try:
            found = await again.find("law-2")
            assert len(found) <= 1
            if outcome is not None:
                assert [handle.native_id for handle in found] == [outcome.native_id]
            await ended(again, await again.submit(launch))
            assert await bench.started("law-2") == 1
        finally:
            await again.close()

    async def test_find_of_a_key_that_never_was_is_empty(self, provider: Provider) -> None:
        assert list(await provider.find("law-2-never")) == []

    # 3. Stopping what is stopped, gone or never started succeeds.

    async def test_cancel_is_idempotent(self, provider: Provider, bench: ProviderBench) -> None:
        handle = await provider.submit(bench.launch(Behaviour.HOLD, "law-3"))
        await in_phase(provider, handle, Phase.RUNNING)
        await provider.cancel(handle, 0.5)
        await provider.cancel(handle, 0.5)
        last = await ended(provider, handle)
        assert last.cause is Cause.STOPPED and not last.computed
        await provider.cancel(handle, 0.5)
        assert (await observe(provider, handle)).cause is Cause.STOPPED
        await released(provider, handle)
        await provider.cancel(handle, 0.5)

    async def test_cancel_of_what_never_started_succeeds_and_keeps_it_from_starting(
        self, provider: Provider, bench: ProviderBench
    ) -> None:
        launch = bench.launch(Behaviour.SUCCEED, "law-3-never")
        await provider.cancel(Handle(provider=provider.name, key=launch.key, native_id="", created_ms=0), 0.0)
        with pytest.raises(ProviderError):
            await provider.submit(launch)
        assert await bench.started(launch.key) == 0

    # 4. Only our words.

    async def test_observe_speaks_our_words(self, provider: Provider, bench: ProviderBench) -> None:
        well = await provider.submit(bench.launch(Behaviour.SUCCEED, "law-4-well"))
        badly = await provider.submit(bench.launch(Behaviour.EXIT_3, "law-4-badly"))
        never = Handle(provider=provider.name, key="law-4-never", native_id="", created_ms=0)
        await ended(provider, well)
        await ended(provider, badly)
        first, second, third = await provider.observe([well, badly, never])
        assert (first.key, second.key, third.key) == ("law-4-well", "law-4-badly", "law-4-never")
        assert first.computed and first.cause is None and first.exit_code == 0 and first.collected
        assert not second.computed and second.cause is Cause.EXIT_CODE and second.exit_code == 3
        assert third.phase is Phase.GONE and third.cause is None and not third.computed
        for seen in (first, second):
            assert seen.started_ms is not None and seen.ended_ms is not None and seen.incarnation

    async def test_a_program_that_cannot_begin_is_no_program_that_failed(
        self, provider: Provider, bench: ProviderBench
    ) -> None:
        handle = await provider.submit(bench.launch(Behaviour.MISSING, "law-4-missing"))
        last = await ended(provider, handle)
        assert last.cause is Cause.START_FAILED and last.exit_code is None and last.started_ms is None

    async def test_a_refused_permit_means_that_nothing_ran(self, bench: ProviderBench) -> None:
        listener = Listener(grants=False)
        provider = listener.provider = await bench.connect(listener)
        if not provider.card.fence:
            pytest.skip("this provider has no fence")
        try:
            last = await ended(provider, await provider.submit(bench.launch(Behaviour.SUCCEED, "law-4-fence")))
            assert last.cause is Cause.STALE_PERMIT and last.started_ms is None
            assert await bench.started("law-4-fence") == 0
        finally:
            await provider.close()

    async def test_a_permit_that_nobody_answers_is_asked_for_again(self, bench: ProviderBench) -> None:
        silent = Listener(grants=None)
        provider = await bench.connect(silent)
        if not provider.card.fence:
            pytest.skip("this provider has no fence")
        handle = await provider.submit(bench.launch(Behaviour.SUCCEED, "law-4-silence"))
        await in_phase(provider, handle, Phase.AWAITING_PERMIT)
        await provider.close()
        assert await bench.started("law-4-silence") == 0
        listener = Listener()
        again = await bench.connect(listener)
        listener.provider = again
        try:

            async def asked() -> bool:
                for request in listener.asked:
                    await again.answer_permit(request, True, "")
                return bool(listener.asked)

            await eventually(asked, END_LIMIT_S, "second question")
            assert listener.asked[0].tag == bench.launch(Behaviour.SUCCEED, "law-4-silence").tag
            assert (await ended(again, handle)).computed
        finally:
            await again.close()

    # 5. A final observation never changes.

    async def test_a_final_observation_stays(self, provider: Provider, bench: ProviderBench) -> None:
        handle = await provider.submit(bench.launch(Behaviour.EXIT_3, "law-5"))
        first = await ended(provider, handle)
        await provider.cancel(handle, 0.0)
        second = await observe(provider, handle)
        other = await bench.connect(Listener(None))
        try:
            third = await observe(other, handle)
        finally:
            await other.close()
        assert essence(first) == essence(second) == essence(third)

    # 6. Logs neither lose nor repeat.

    async def test_logs_from_any_offset_neither_lose_nor_repeat(self, provider: Provider, bench: ProviderBench) -> None:
        handle = await provider.submit(bench.launch(Behaviour.TALK, "law-6"))
        last = await ended(provider, handle)
        stream = provider.card.log_streams[0]
        seal = next(seal for seal in last.logs if seal.stream == stream)
        assert seal.bytes_total == seal.bytes_kept == len(bench.talk)
        for offset in range(len(bench.talk) + 1):
            chunks = await read(provider, handle, stream, offset)
            assert b"".join(chunk.data for chunk in chunks) == bench.talk[offset:]
            assert chunks[-1].final and sum(chunk.final for chunk in chunks) == 1
            position = offset
            for chunk in chunks:
                assert chunk.offset == position and chunk.dropped == 0
                position += len(chunk.data)

    async def test_logs_of_what_is_not_there_are_empty(self, provider: Provider) -> None:
        never = Handle(provider=provider.name, key="law-6-never", native_id="", created_ms=0)
        assert await read(provider, never, provider.card.log_streams[0], 0) == []

    # 7. Offers carry what a choice needs.

    async def test_offers_carry_what_a_choice_needs(self, provider: Provider) -> None:
        offers = provider.offers()
        assert offers and len({offer.id for offer in offers}) == len(offers)
        for offer in offers:
            assert offer.provider == provider.name and offer.observed_ms > 0
            assert offer.connected
            assert offer.price_usd_per_hour >= 0 and offer.billing_quantum_s >= 1
            assert offer.cpu_cores > 0 and offer.memory_bytes > 0
            assert offer.runtimes and set(offer.runtimes) <= set(provider.card.runtimes)

    async def test_what_runs_is_missing_from_what_is_free(self, provider: Provider, bench: ProviderBench) -> None:
        launch = bench.launch(Behaviour.HOLD, "law-7")
        offer_id = launch.offer.id
        before = free_slots(provider, offer_id)
        handle = await provider.submit(launch)
        await in_phase(provider, handle, Phase.RUNNING)
        if before is not None:
            assert free_slots(provider, offer_id) == before - 1
        await provider.cancel(handle, 0.0)
        await ended(provider, handle)
        assert free_slots(provider, offer_id) == before

    # 8. Each error has its kind, and each cause its meaning.

    async def test_refusals_have_their_kind(self, provider: Provider, bench: ProviderBench) -> None:
        with pytest.raises(InvalidRequest):
            await provider.submit(bench.impossible("law-8-impossible"))
        with pytest.raises((NoCapacity, QuotaExceeded)):
            await provider.submit(bench.oversized("law-8-oversized"))
        for key in ("law-8-impossible", "law-8-oversized"):
            assert list(await provider.find(key)) == []

    def test_every_cause_has_a_meaning(self) -> None:
        assert set(MEANINGS) == set(Cause)

    # 9. Every call ends within its limit and can be cancelled.

    async def test_calls_end_in_time_and_can_be_cancelled(self, provider: Provider, bench: ProviderBench) -> None:
        handle = await provider.submit(bench.launch(Behaviour.HOLD, "law-9"))
        looking = asyncio.ensure_future(provider.observe([handle]))
        await asyncio.wait([looking], timeout=0)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        async with asyncio.timeout(CALL_LIMIT_S):
            await provider.observe([handle])
            await provider.find(handle.key)
            await provider.cancel(handle, 0.0)
        await ended(provider, handle)

    # 10. Nothing is left.

    async def test_nothing_is_left_after_release(self, provider: Provider, bench: ProviderBench) -> None:
        launch = bench.launch(Behaviour.HOLD, "law-10")
        handle = await provider.submit(launch)
        await in_phase(provider, handle, Phase.RUNNING)
        assert await bench.alive(handle.key) > 0
        mine = [each.key async for each in provider.owned(launch.tag.deployment)]
        assert handle.key in mine
        assert [each async for each in provider.owned("another-deployment")] == []
        await released(provider, handle)
        assert await bench.alive(handle.key) == 0
        assert await provider.release(handle)
        assert handle.key not in [each.key async for each in provider.owned(launch.tag.deployment)]
        assert (await observe(provider, handle)).phase is Phase.GONE


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


def free_slots(provider: Provider, offer_id: str) -> int | None:
    """The free slots of an offer."""
    return next(offer.free.slots for offer in provider.offers() if offer.id == offer_id)


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
