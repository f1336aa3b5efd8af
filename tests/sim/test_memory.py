"""What servers learn from attempts: their own at once, those of before a restart, and those of other servers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.store import make_store
from placet.domain.allocations import Launch
from placet.domain.experience import Level
from placet.domain.failures import Cause
from placet.domain.lessons import Lessons
from placet.domain.records import WAITS_FOR_CAPACITY, Record, Transition
from placet.domain.spec import Repeat, RetryPolicy
from placet.domain.states import WorkloadState
from placet.engine.memory import LATE_MS, READ_EVERY_S, Memory
from placet.engine.placing import CAPACITY_RECHECK_MS
from placet.ports.store import Store
from placet.testing.conformance.store_values import NOW_MS, owned, rich_attempt, transition_to
from placet.testing.scripted import Script
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, always, control_plane, process


@dataclass
class HandClock:
    """A clock that moves when it is told to."""

    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"nobody pauses here, for {seconds} s")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = make_store(f"sqlite:///{tmp_path / 'placet.db'}")
    await store.open()
    yield store
    await store.close()


async def ended(store: Store, number: int, at_ms: int) -> Transition:
    """The end of an attempt, stored."""
    workload = await owned(store, number)
    attempt = replace(rich_attempt(workload), finished_ms=at_ms)
    moved = transition_to(workload, WorkloadState.PLACING)
    transition = replace(moved, workload=replace(moved.workload, updated_ms=at_ms), attempts=(attempt,))
    assert list(await store.apply([transition])) == [True]
    return transition


def starts(lessons: Lessons) -> float:
    return sum(tally.starts for (level, _), tally in lessons.experience.tallies.items() if level is Level.OFFER)


async def knows(plane: ControlPlane, count: int) -> None:
    async def check() -> bool:
        return starts(plane.reconciler.lessons()) == pytest.approx(count, abs=0.01)

    await wait_until_async(check, 10, f"{count} starts are known")


async def read(memory: Memory) -> None:
    assert memory.begin()
    assert not memory.begin(), "one reading at a time"
    await memory.read()


async def test_servers_agree_within_a_minute_whoever_ran_what(store: Store) -> None:
    clock = HandClock()
    ours, theirs = Memory(store, clock), Memory(store, clock)
    for memory in (ours, theirs):
        await read(memory)
    for number in range(6):
        clock.at_ms += 5_000
        transition = await ended(store, number, clock.at_ms)
        mine, other = (ours, theirs) if number % 2 else (theirs, ours)
        mine.written(transition)
        other.elsewhere()
        for memory in (ours, theirs):
            if memory.begin():
                await memory.read()
    assert READ_EVERY_S < 60
    for _ in range(3):
        clock.at_ms += int(READ_EVERY_S * 1000)
        for memory in (ours, theirs):
            await read(memory)
    known = [memory.lessons(clock.at_ms) for memory in (ours, theirs)]
    assert [starts(lessons) for lessons in known] == [pytest.approx(6, rel=1e-4)] * 2
    assert known[0].experience.tallies.keys() == known[1].experience.tallies.keys()


async def test_an_attempt_that_is_written_again_later_counts_once(store: Store) -> None:
    clock = HandClock()
    memory = Memory(store, clock)
    await read(memory)
    transition = await ended(store, 1, clock.at_ms)
    memory.written(transition)
    clock.at_ms += 100 * LATE_MS
    memory.lessons(clock.at_ms)
    released = replace(transition.workload, updated_ms=clock.at_ms)
    memory.written(replace(transition, workload=released))
    memory.elsewhere()
    await read(memory)
    clock.at_ms += 1_000
    assert starts(memory.lessons(clock.at_ms)) == pytest.approx(1, rel=1e-2)


async def test_what_ends_within_a_second_is_counted_together(store: Store) -> None:
    clock = HandClock()
    memory = Memory(store, clock)
    await read(memory)
    memory.written(await ended(store, 1, clock.at_ms))
    first = memory.lessons(clock.at_ms)
    assert starts(first) == pytest.approx(1)
    memory.written(await ended(store, 2, clock.at_ms))
    assert memory.lessons(clock.at_ms + 999) is first
    assert starts(memory.lessons(clock.at_ms + 1_000)) == pytest.approx(2)


async def test_a_server_learns_from_its_own_attempts_and_from_those_before_it(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script())) as plane:
        for _ in range(3):
            await plane.finished(await plane.submit())
        await knows(plane, 3)
    async with control_plane(tmp_path, always(Script())) as again:
        await knows(again, 3)
        await again.finished(await again.submit())
        await knows(again, 4)


async def test_what_failed_one_workload_is_left_alone_by_all_of_its_tenant(tmp_path: Path) -> None:
    denied: list[str] = []

    def script(launch: Launch) -> Script:
        denied.append(launch.tag.workload_id)
        return Script(deny=True)

    async with control_plane(tmp_path, script) as plane:
        policy = RetryPolicy(infrastructure_attempts=9, backoff_s=Decimal("0.01"))
        first = await plane.submit(process(retry=policy))

        def waits(record: Record) -> bool:
            return "left alone until" in record.workload.reason

        record = await plane.until(first, waits, "left alone")
        assert denied == [first]
        assert (record.workload.wait_for, record.workload.state) == (WAITS_FOR_CAPACITY, WorkloadState.WAITING)
        assert 0 < (record.workload.wake_ms or 0) - record.workload.updated_ms <= CAPACITY_RECHECK_MS
        second = await plane.submit()
        record = await plane.until(second, waits, "left alone")
        assert f"attempt 1 of {first}" in record.workload.reason
        told = await plane.intake.match(TENANT, process(), 10)
        assert [drop.verdict.filter for drop in told.drops] == ["blocked"]
        assert (await plane.intake.match("other", process(), 10)).drops == ()
        assert denied == [first]


async def test_an_equal_workload_is_expected_to_take_as_long(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script())) as plane:
        for _ in range(2):
            await plane.finished(await plane.submit())
        await knows(plane, 2)
        estimate = await plane.intake.estimate(TENANT, process(name="renamed"))
        assert estimate.demand.runtime_s is not None
        assert "2 equal workloads took" in estimate.demand.runtime_s.reason
        record = await plane.finished(await plane.submit(process(name="renamed")))
        assert "2 equal workloads took" in " ".join(record.attempts[0].placement.reasons)
        stranger = await plane.intake.estimate("other", process())
        assert stranger.demand.runtime_s is None


@pytest.mark.parametrize(("repeat", "taught"), [(Repeat.SAFE, True), (Repeat.RESUMABLE, False)])
async def test_a_run_that_went_on_from_a_lost_one_teaches_no_run_time(
    tmp_path: Path, repeat: Repeat, taught: bool
) -> None:
    def first_is_lost(launch: Launch) -> Script:
        return Script(cause=Cause.LOST, exit_code=None) if launch.tag.epoch == 1 else Script()

    spec = process(repeat=repeat, retry=RetryPolicy(backoff_s=Decimal("0.01")))
    async with control_plane(tmp_path, first_is_lost) as plane:
        record = await plane.finished(await plane.submit(spec))
        assert [attempt.computed for attempt in record.attempts] == [False, True]
        await knows(plane, 2)
        estimate = await plane.intake.estimate(TENANT, spec)
        assert (estimate.demand.runtime_s is not None) is taught
