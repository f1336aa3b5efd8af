"""The engine keeps to what the card says of a provider: how often it may be called, and when a stop is refused."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Handle, Launch, Observation, Phase, RateLimit, Stopping, Verb
from placet.domain.errors import ProviderError, RateLimited, Unavailable
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.pacing import Turns, submits_at_once, with_waiting
from placet.engine.reaper import Sweeps
from placet.engine.reconcile import ReconcileOptions
from placet.testing.scripted import CARD, Script, ScriptedProvider
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, always, start

LIMITED = replace(
    CARD,
    rate_limits=(RateLimit(verb=Verb.SUBMIT, calls=2, per_s=0.25), RateLimit(verb=Verb.OBSERVE, calls=3, per_s=10.0)),
)


class Clock:
    """A clock that moves only while somebody waits."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def now_ms(self) -> int:
        return int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s

    async def pause(self, duration_s: float) -> None:
        self.at_s += duration_s


async def test_no_window_holds_more_calls_than_the_limit() -> None:
    clock = Clock()
    turns = Turns({"p": LIMITED}, clock)
    at_s = []
    for pause_s in (0.0, 0.1, 0.0, 0.0, 0.3, 0.0, 0.0):
        clock.at_s += pause_s
        await turns.turn("p", Verb.SUBMIT)
        at_s.append(clock.at_s)
    assert all(later - earlier >= 0.25 - 1e-9 for earlier, later in zip(at_s, at_s[2:], strict=False)), at_s
    await turns.turn("p", Verb.FIND)
    assert clock.at_s == at_s[-1], "a verb without a limit waits for nothing"


@pytest.mark.parametrize(("hint_s", "waits_s"), [(7.0, 7.0), (1e9, 300.0), (-1.0, 0.0), (None, 0.0)])
async def test_a_provider_that_asks_for_quiet_gets_it_within_bounds(hint_s: float | None, waits_s: float) -> None:
    clock = Clock()
    turns = Turns({"p": CARD}, clock)
    turns.refused("p", Verb.OBSERVE, RateLimited("slow down", retry_after_s=hint_s))
    await turns.turn("p", Verb.OBSERVE)
    assert clock.at_s == pytest.approx(1000.0 + waits_s)
    await turns.turn("p", Verb.OBSERVE)
    assert clock.at_s == pytest.approx(1000.0 + waits_s), "once is enough"


def test_a_create_that_may_wait_counts_as_sent_so_much_later() -> None:
    assert with_waiting(LIMITED).late_create_s == (CARD.late_create_s or 0) + 0.25
    assert with_waiting(replace(LIMITED, late_create_s=None)).late_create_s is None
    assert with_waiting(CARD) == CARD
    assert submits_at_once({"p": LIMITED, "q": CARD}) == {"p": 2}


class Counting(ScriptedProvider):
    """Remembers when it was called."""

    def __init__(self, script: Script) -> None:
        super().__init__(SystemClock(), always(script))
        self.card = LIMITED
        self.submitted_s: list[float] = []

    async def submit(self, launch: Launch) -> Handle:
        self.submitted_s.append(SystemClock().monotonic_s())
        return await super().submit(launch)


class Stubborn(ScriptedProvider):
    """Refuses to stop what is being built, and builds until it is told that it is done."""

    def __init__(self) -> None:
        super().__init__(SystemClock(), always(Script(hold=True)))
        self.card = replace(CARD, stopping=Stopping(refused_in=(Phase.PROVISIONING,)))
        self.building = True
        self.refused = 0
        self.stopped_ms: list[int] = []

    def _ask(self, launch: Launch) -> None:
        """No permit is asked for yet."""

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        phase = Phase.PROVISIONING if self.building else Phase.RUNNING
        seen = await super().observe(handles)
        return [each if each.phase is Phase.ENDED else replace(each, phase=phase) for each in seen]

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        if self.building:
            self.refused += 1
            raise Unavailable("it is being built", provider=self.name)
        self.stopped_ms.append(SystemClock().now_ms())
        await super().cancel(handle, grace_s)


@asynccontextmanager
async def plane_over(folder: Path, provider: ScriptedProvider) -> AsyncIterator[ControlPlane]:
    plane = await start(f"sqlite:///{folder / 'placet.db'}", folder, provider)
    try:
        yield plane
    finally:
        await plane.reconciler.stop()
        await asyncio.gather(plane.loop, return_exceptions=True)
        await plane.store.close()


async def test_a_burst_of_workloads_goes_out_at_the_pace_of_the_card(tmp_path: Path) -> None:
    provider = Counting(Script())
    async with plane_over(tmp_path, provider) as plane:
        ids = [await plane.submit() for _ in range(7)]
        for workload_id in ids:
            record = await plane.finished(workload_id)
            assert (record.workload.state, len(record.attempts)) == (WorkloadState.SUCCEEDED, 1)
    at_s = provider.submitted_s
    assert len(at_s) == 7
    assert all(later - earlier >= 0.2 for earlier, later in zip(at_s, at_s[2:], strict=False)), at_s


async def test_a_stop_that_was_refused_is_asked_for_again_when_it_can_be(tmp_path: Path) -> None:
    provider = Stubborn()
    async with plane_over(tmp_path, provider) as plane:
        workload_id = await plane.submit()
        await plane.until(workload_id, lambda record: bool(record.attempts and record.attempts[0].handle), "handle")
        assert await plane.intake.cancel(TENANT, workload_id, "test") is not None
        await plane.until(
            workload_id, lambda record: record.attempts[0].state is AttemptState.STOPPING and provider.refused > 0, "no"
        )
        provider.building = False
        built_ms = SystemClock().now_ms()
        record = await plane.finished(workload_id)
        assert record.workload.state is WorkloadState.CANCELLED
    # Without the card it is asked again only when the grace time (10 s) and more are over.
    assert provider.stopped_ms[0] - built_ms < 5000
    assert provider.refused == 1, "while it is refused it is not asked for"


def test_only_the_provider_s_own_word_holds_calls_back() -> None:
    turns = Turns({"p": CARD}, Clock())
    turns.refused("p", Verb.OBSERVE, ProviderError("something else", retry_after_s=5.0))
    assert turns._held_until_s == {}


class Listing(ScriptedProvider):
    """Remembers when its list was asked for."""

    def __init__(self) -> None:
        super().__init__(SystemClock(), always(Script()))
        self.card = replace(CARD, rate_limits=(RateLimit(verb=Verb.OWNED, calls=1, per_s=0.4),))
        self.listed_s: list[float] = []

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        self.listed_s.append(SystemClock().monotonic_s())
        async for handle in super().owned(deployment):
            yield handle


async def test_sweeps_keep_to_the_pace_of_the_list(tmp_path: Path) -> None:
    provider = Listing()
    options = ReconcileOptions(worker="w1", sweeps=Sweeps(first_s=0.0, every_s=0.05))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider, options=options)
    try:
        await wait_until_async(lambda: _true(len(provider.listed_s) > 2), 10, "three sweeps")
    finally:
        await plane.reconciler.stop()
        await asyncio.gather(plane.loop, return_exceptions=True)
        await plane.store.close()
    at_s = provider.listed_s
    assert all(later - earlier >= 0.39 for earlier, later in itertools.pairwise(at_s)), at_s


async def _true(held: bool) -> bool:
    return held
