"""When a worker claims, over a real store: who found no place is asked once for each new one, and then left alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.store import make_store
from placet.domain.records import WAITS_FOR_CAPACITY, Expect, Lease, Record, Transition
from placet.domain.states import WorkloadState
from placet.engine.claims import ClaimOptions, Claims
from placet.ports.store import Store
from placet.testing.conformance.store_values import acceptance_of, new_workload

pytestmark = pytest.mark.anyio

WORKER = "worker"
# Beyond every test: what is claimed in one is claimed for a reason, not because time passed.
OPTIONS = ClaimOptions(worker=WORKER, batch_max=256, owner_timeout_s=6, takeover_poll_s=3600, lookahead_s=3600)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    store = make_store(f"sqlite:///{folder / 'placet.db'}")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def waiting(store: Store, *numbers: int) -> None:
    for number in numbers:
        waits = replace(new_workload(number), state=WorkloadState.WAITING, wait_for=WAITS_FOR_CAPACITY, wake_ms=2**60)
        await store.accept(acceptance_of(waits))


async def take(claims: Claims, store: Store) -> list[int]:
    """What is claimed; none of it finds a place."""
    records = await claims.take(100)
    for held in (record.workload for record in records):
        freed = replace(held, lease=Lease(owner=None, epoch=held.lease.epoch), revision=held.revision + 1)
        expect = Expect(revision=held.revision, state=held.state, lease=held.lease)
        assert await store.apply([Transition(expect=expect, workload=freed)]) == [True]
    return numbers(records)


def numbers(records: Sequence[Record]) -> list[int]:
    by_id = {new_workload(number).id: number for number in range(20)}
    return [by_id[record.workload.id] for record in records]


async def test_who_found_no_place_is_asked_once_for_each_news_of_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await waiting(store, *range(5))
        claims = Claims(store, SystemClock(), OPTIONS, lambda: 2)
        assert claims.is_due()
        assert await take(claims, store) == [0, 1]
        assert claims.is_due(), "who comes later may fit where the first did not"
        assert await take(claims, store) == [2, 3]
        assert await take(claims, store) == [4]
        assert not claims.is_due(), "everyone was told"
        claims.freed()
        assert claims.is_due()
        assert await take(claims, store) == [0, 1]
        claims.freed()
        assert [await take(claims, store) for _ in range(2)] == [[2, 3], [4]], "the tail has its turn before the head"
        assert [await take(claims, store) for _ in range(3)] == [[0, 1], [2, 3], [4]]
        assert not claims.is_due()


async def test_nothing_free_is_told_slowly_and_overtaken_by_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in range(12):
            await store.accept(acceptance_of(new_workload(number, wake_ms=1)))
        claims = Claims(store, SystemClock(), replace(OPTIONS, lookahead=3), lambda: 0)
        assert len(await claims.take(100)) == 3
        assert not claims.is_due()
        assert claims.backlog
        claims.queued()
        claims.freed()
        assert not claims.is_due()


async def test_the_two_kinds_take_turns(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await waiting(store, 1, 2, 3)
        for number in range(10, 13):
            await store.accept(acceptance_of(new_workload(number, wake_ms=1)))
        claims = Claims(store, SystemClock(), OPTIONS, lambda: 1)
        taken = [numbers(await claims.take(100)) for _ in range(6)]
        assert sorted(number for some in taken for number in some) == [1, 2, 3, 10, 11, 12]
        assert all(len(some) == 1 for some in taken)
        assert {some[0] >= 10 for some in taken[:2]} == {True, False}
