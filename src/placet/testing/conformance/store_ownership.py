"""Who owns a workload: what every store must do about leases, claims, heartbeats and wake times."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from placet.domain.records import WAITS_FOR_CAPACITY, Lease, Record
from placet.domain.states import IntentState, WorkloadState
from placet.ports.store import Store
from placet.testing.conformance.store_values import (
    NOW_MS,
    TIMEOUT_MS,
    WORKER,
    acceptance_of,
    accepted,
    applied,
    claimed,
    loaded,
    new_attempt,
    new_intent,
    new_workload,
    owned,
    transition_to,
)

Opener: TypeAlias = Callable[[], Awaitable[Store]]

W = WorkloadState
OTHER = "worker-2"


def numbers_of(records: list[Record]) -> list[int]:
    return [int(record.workload.id.removeprefix("wl_")) for record in records]


class OwnershipContract:
    """A part of ``StoreContract``."""

    @pytest.fixture
    def opener(self) -> Opener:
        raise NotImplementedError("give the suite a way to open a store on this test's database")

    @pytest.fixture
    async def store(self, opener: Opener) -> AsyncIterator[Store]:
        store = await opener()
        yield store
        await store.close()

    async def test_a_claim_takes_the_lease(self, store: Store) -> None:
        (workload,) = await accepted(store, 1)
        (record,) = await claimed(store)
        assert record.workload == replace(workload, lease=Lease(owner=WORKER, epoch=1), revision=1)
        assert await loaded(store, workload.id) == record
        assert await claimed(store) == [], "what is owned is not handed out again, not even to its owner"

    async def test_a_claim_brings_attempts_and_open_intents(self, store: Store) -> None:
        workload = await owned(store, 1)
        attempt, intent = new_attempt(workload), new_intent(workload, state=IntentState.AMBIGUOUS)
        step = replace(transition_to(workload, W.PLACING, wake_ms=0), attempts=(attempt,), intents=(intent,))
        assert await applied(store, step)
        await store.retire(WORKER)
        (record,) = await claimed(store, owner=OTHER)
        assert record.attempts == (attempt,)
        assert record.intents == (intent,)
        assert record.workload.state is W.PLACING
        assert record.workload.spec == workload.spec

    async def test_only_the_due_are_claimed_the_longest_due_first(self, store: Store) -> None:
        for number, wake_ms in enumerate((30, 10, 20, 40, None)):
            await store.accept(acceptance_of(new_workload(number, wake_ms=wake_ms)))
        assert numbers_of(await claimed(store, now_ms=30, limit=2)) == [1, 2]
        assert numbers_of(await claimed(store, now_ms=30, limit=9)) == [0]
        assert numbers_of(await claimed(store, now_ms=39, limit=9)) == []
        assert numbers_of(await claimed(store, now_ms=40, limit=0)) == []
        assert numbers_of(await claimed(store, now_ms=40, limit=1)) == [3]

    async def test_a_dead_owner_loses_what_it_has(self, store: Store) -> None:
        workload = await owned(store, 1)
        assert await claimed(store, owner=OTHER, now_ms=NOW_MS + TIMEOUT_MS) == [], "the claim itself was a beat"
        (record,) = await claimed(store, owner=OTHER, now_ms=NOW_MS + TIMEOUT_MS + 1)
        assert record.workload.lease == Lease(owner=OTHER, epoch=2)
        assert not await applied(store, transition_to(workload, W.PLACING)), "the old lease is worth nothing"
        revived = replace(workload, revision=record.workload.revision)
        assert not await applied(store, transition_to(revived, W.PLACING))
        assert await applied(store, transition_to(record.workload, W.PLACING))

    async def test_a_beat_keeps_the_lease(self, store: Store) -> None:
        await owned(store, 1)
        late_ms = NOW_MS + 10 * TIMEOUT_MS
        await store.beat(WORKER, late_ms - TIMEOUT_MS)
        assert await claimed(store, owner=OTHER, now_ms=late_ms) == []

    async def test_of_a_dead_owner_only_the_due_is_taken(self, store: Store) -> None:
        await accepted(store, 1, 2, 3)
        late_ms = NOW_MS + TIMEOUT_MS + 1
        for record, wake_ms in zip(await claimed(store), (late_ms, late_ms + 1, None), strict=True):
            assert await applied(store, transition_to(record.workload, W.PLACING, wake_ms=wake_ms))
        taken = numbers_of(await claimed(store, owner=OTHER, now_ms=late_ms))
        assert sorted(taken) == [1, 3], "without a wake time nobody would ever come back to it"

    async def test_the_finished_are_claimed_only_while_something_is_to_be_released(self, store: Store) -> None:
        await accepted(store, 1, 2)
        first, second = [record.workload for record in await claimed(store)]
        assert await applied(store, transition_to(first, W.CANCELLED, wake_ms=NOW_MS))
        assert await applied(store, transition_to(second, W.CANCELLED))
        assert await store.next_wake_ms() == NOW_MS
        assert numbers_of(await claimed(store, owner=OTHER)) == [1]
        assert await store.next_wake_ms() is None
        assert numbers_of(await claimed(store, now_ms=NOW_MS + 10 * TIMEOUT_MS)) == [1]
        (record,) = await store.load([first.id])
        done = replace(transition_to(record.workload, W.CANCELLED), workload=record.workload)
        done = replace(done, workload=replace(record.workload, wake_ms=None, revision=record.workload.revision + 1))
        assert await applied(store, done)
        assert await claimed(store, owner=OTHER, now_ms=NOW_MS + 99 * TIMEOUT_MS) == []

    async def test_those_that_wait_for_capacity_come_last_and_oldest_first(self, store: Store) -> None:
        far_ms = NOW_MS + 10**9
        for number in range(5):
            workload = new_workload(number, wake_ms=far_ms if number else NOW_MS)
            wait_for = "" if number == 0 else "backoff" if number == 4 else WAITS_FOR_CAPACITY
            await store.accept(acceptance_of(replace(workload, state=W.WAITING, wait_for=wait_for)))
        assert numbers_of(await claimed(store, capacity_waiters=2)) == [0, 1, 2]
        assert numbers_of(await claimed(store, capacity_waiters=9, waiters_after=new_workload(3).id)) == []
        assert numbers_of(await claimed(store, owner=OTHER, capacity_waiters=9, waiters_after=new_workload(2).id)) == [
            3
        ]
        assert numbers_of(await claimed(store, capacity_waiters=9)) == []

    async def test_claims_of_many_are_disjoint(self, store: Store, opener: Opener) -> None:
        stores = [store, await opener(), await opener()]
        await accepted(store, *range(60))
        claims = await asyncio.gather(
            *(claimed(stores[number % 3], owner=f"worker-{number}", limit=7) for number in range(12))
        )
        taken = [record.workload for records in claims for record in records]
        assert len({workload.id for workload in taken}) == len(taken)
        rest = await claimed(store, owner="last")
        assert len(taken) + len(rest) == 60
        assert {workload.lease.epoch for workload in taken} == {1}
        for records, number in zip(claims, range(12), strict=True):
            assert {record.workload.lease.owner for record in records} <= {f"worker-{number}"}
        for other in stores[1:]:
            await other.close()

    async def test_who_retires_gives_everything_back(self, store: Store) -> None:
        await accepted(store, 1, 2, 3)
        first, second, third = [record.workload for record in await claimed(store)]
        assert await applied(store, transition_to(first, W.RUNNING, wake_ms=NOW_MS + 10**9))
        assert await applied(store, transition_to(second, W.RUNNING))
        end = transition_to(third, W.CANCELLED)
        assert await applied(store, end)
        await store.retire(WORKER)
        await store.retire("nobody")
        assert await store.next_wake_ms() is not None
        records = await claimed(store, owner=OTHER)
        assert numbers_of(records) == [1, 2]
        assert {record.workload.lease.epoch for record in records} == {2}
        assert not await applied(store, transition_to(first, W.RUNNING))
        assert (await loaded(store, third.id)).workload == end.workload

    async def test_a_worker_can_ask_what_it_holds(self, store: Store) -> None:
        await accepted(store, 1, 2, 3)
        taken = await claimed(store, limit=2)
        assert sorted(await store.held(WORKER)) == sorted(record.workload.id for record in taken)
        assert await store.held(OTHER) == []
        await store.retire(WORKER)
        assert await store.held(WORKER) == []

    async def test_the_next_wake_is_that_of_the_unowned(self, store: Store) -> None:
        assert await store.next_wake_ms() is None
        for number, wake_ms in enumerate((50, 20, None)):
            await store.accept(acceptance_of(new_workload(number, wake_ms=wake_ms)))
        assert await store.next_wake_ms() == 20
        await claimed(store, now_ms=20)
        assert await store.next_wake_ms() == 50

    async def test_a_lease_can_be_given_up(self, store: Store) -> None:
        workload = await owned(store, 1)
        freed = transition_to(workload, W.WAITING, wake_ms=NOW_MS)
        freed = replace(freed, workload=replace(freed.workload, lease=replace(workload.lease, owner=None)))
        assert await applied(store, freed)
        assert await store.next_wake_ms() == NOW_MS
        (record,) = await claimed(store, owner=OTHER)
        assert record.workload.lease == Lease(owner=OTHER, epoch=workload.lease.epoch + 1)

    async def test_all_servers_are_told_one_time(self, store: Store, opener: Opener) -> None:
        again = await opener()
        times = [await each.now_ms() for each in (store, again, store)]
        assert times == sorted(times)
        assert times[-1] - times[0] < 10_000
        assert times[0] > NOW_MS - 10**12, "milliseconds since 1970"
        await again.close()
