"""Who drives a workload when answers are lost, owners change, and allocations turn up late: one, and to its end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Launch
from placet.domain.errors import StoreError
from placet.domain.failures import Cause
from placet.domain.records import Record, Transition
from placet.domain.spec import RetryPolicy
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.reaper import Sweeps
from placet.engine.reconcile import ReconcileOptions
from placet.ports.store import Claim, Store
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.waiting import wait_until_async
from tests.support.worlds import ControlPlane, always, process, start

W = WorkloadState
OPTIONS = ReconcileOptions(
    worker="first",
    owner_timeout_s=0.4,
    takeover_poll_s=0.1,
    beat_s=0.1,
    observe_every_s=0.3,
    store_retry_s=0.05,
    sweeps=Sweeps(first_s=0.2, every_s=0.2),
)


class LosesAnswers:
    """A store whose writes are done, and whose answers are lost on demand."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lose_claims = self.lose_writes = 0
        self.written: list[Transition] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, claim: Claim) -> Sequence[Record]:
        records = await self._store.claim(claim)
        if records and self.lose_claims:
            self.lose_claims -= 1
            raise StoreError("the connection broke at commit")
        return records

    async def apply(self, transitions: Sequence[Transition]) -> Sequence[bool]:
        outcome = await self._store.apply(transitions)
        self.written += transitions
        if self.lose_writes:
            self.lose_writes -= 1
            raise StoreError("the connection broke at commit")
        return outcome


@asynccontextmanager
async def faulty(
    folder: Path, provider: ScriptedProvider, *, claims: int = 0, writes: int = 0
) -> AsyncIterator[ControlPlane]:
    def through(store: Store) -> Store:
        loses = LosesAnswers(store)
        loses.lose_claims, loses.lose_writes = claims, writes
        return loses  # type: ignore[return-value]  # the rest of the port is the store's own

    plane = await start(f"sqlite:///{folder / 'placet.db'}", folder, provider, options=OPTIONS, through=through)
    try:
        yield plane
    finally:
        await plane.reconciler.stop()
        await asyncio.gather(plane.loop, return_exceptions=True)
        await plane.store.close()


async def test_a_claim_whose_answer_was_lost_is_found_again(tmp_path: Path) -> None:
    provider = ScriptedProvider(SystemClock(), always(Script()))
    async with faulty(tmp_path, provider, claims=2) as plane:
        ids = [await plane.submit() for _ in range(5)]
        for workload_id in ids:
            assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert sorted(provider.ran) == sorted((workload_id, 1) for workload_id in ids)


async def test_writes_whose_answers_were_lost_run_nothing_twice(tmp_path: Path) -> None:
    provider = ScriptedProvider(SystemClock(), always(Script()))
    async with faulty(tmp_path, provider, writes=4) as plane:
        ids = [await plane.submit() for _ in range(5)]
        for workload_id in ids:
            assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert sorted(workload_id for workload_id, _ in provider.ran) == sorted(ids)


async def test_an_ending_is_flushed_before_what_proves_it_is_deleted(tmp_path: Path) -> None:
    """Else a database that forgets its last commits calls the attempt lost, and the work is done again."""

    def script(launch: Launch) -> Script:
        failed = launch.tag.epoch == 1
        return Script(cause=Cause.EXIT_CODE if failed else None, exit_code=3 if failed else 0)

    provider = ScriptedProvider(SystemClock(), script)
    async with faulty(tmp_path, provider) as plane:
        retry = RetryPolicy(attempts=2, backoff_s=Decimal(0))
        workload_id = await plane.submit(process(retry=retry))
        assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert isinstance(plane.store, LosesAnswers)
        endings = [
            transition.flush
            for transition in plane.store.written
            if any(attempt.epoch == 1 and attempt.final and not attempt.released_ms for attempt in transition.attempts)
        ]
        assert endings == [True]


async def test_what_another_took_over_is_let_go_of(tmp_path: Path) -> None:
    provider = ScriptedProvider(SystemClock(), always(Script(hold=True)))
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    first = await start(url, tmp_path, provider, options=OPTIONS)
    workload_id = await first.submit()
    await first.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
    # Its owner is known to be dead, so nobody waits for its lease to run out.
    await first.kill()
    options = replace(OPTIONS, worker="second", owner_timeout_s=3600)
    second = await start(url, tmp_path, provider, options=options)
    assert (await second.record(workload_id)).workload.lease.owner == "first"
    await second.reconciler.succeed("first")
    await second.until(workload_id, lambda record: record.workload.lease.owner == "second", "taken over")
    # A third takes it away behind its back: the second hears of it, and drives it no more.
    await second.store.retire("second")
    (record,) = await second.store.claim(Claim(owner="third", now_ms=2**60, limit=9, owner_timeout_ms=2**50))
    assert record.workload.id == workload_id
    second.reconciler.stored_elsewhere(frozenset({workload_id}))
    await wait_until_async(lambda: second.reconciler.owned_count == 0, 5, "letting go")
    await second.store.retire("third")
    second.reconciler.stored_elsewhere(frozenset())
    await second.until(workload_id, lambda record: record.workload.lease.owner == "second", "taken again")
    provider.let_go((await second.record(workload_id)).attempts[0].key)
    assert (await second.finished(workload_id)).workload.state is W.SUCCEEDED
    assert provider.ran == [(workload_id, 1)]
    await second.kill()


async def test_an_allocation_that_lands_late_never_runs_and_is_swept(tmp_path: Path) -> None:
    launches: list[Launch] = []

    def script(launch: Launch) -> Script:
        launches.append(launch)
        return Script(lose_request=len(launches) == 1)

    provider = ScriptedProvider(SystemClock(), script)
    async with faulty(tmp_path, provider) as plane:
        workload_id = await plane.submit()
        record = await plane.finished(workload_id)
        assert [attempt.state for attempt in record.attempts] == [AttemptState.REFUSED, AttemptState.COLLECTED]
        assert record.attempts[0].failure is not None
        assert record.attempts[0].failure.cause is Cause.UNRESOLVED
        late = launches[0]
        await provider.submit(late)
        await wait_until_async(lambda: provider.allocations[late.key].released, 5, "the sweep")
        assert provider.ran == [(workload_id, 2)]
        assert (await plane.record(workload_id)) == await plane.finished(workload_id)


class SlowClaims:
    """A store that answers a claim only when it is let, long after the claim was written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.claimed = asyncio.Event()
        self.answer = asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, claim: Claim) -> Sequence[Record]:
        records = await self._store.claim(claim)
        if records:
            self.claimed.set()
            await self.answer.wait()
        return records


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by another server"])
async def test_a_cancel_is_heard_that_is_written_while_a_claim_is_answered(tmp_path: Path, elsewhere: bool) -> None:
    """What was claimed is a row of before the cancel, and nothing else would happen to it for a minute."""
    provider = ScriptedProvider(SystemClock(), always(Script(hold=True)))
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    first = await start(url, tmp_path, provider, options=OPTIONS)
    workload_id = await first.submit()
    await first.until(workload_id, lambda record: record.workload.state is W.RUNNING, "its program to run")
    await first.kill()
    slow: list[SlowClaims] = []

    def through(store: Store) -> Store:
        slow.append(SlowClaims(store))
        return slow[0]  # type: ignore[return-value]  # the rest of the port is the store's own

    second = await start(url, tmp_path, provider, options=replace(OPTIONS, worker="second"), through=through)
    await slow[0].claimed.wait()
    if elsewhere:
        other = await start(url, tmp_path, provider, options=replace(OPTIONS, worker="other", owner_timeout_s=60))
        assert await other.intake.cancel("tenant", workload_id, "test") is not None
        second.reconciler.stored_elsewhere(frozenset({workload_id}))  # what two servers tell each other
        await other.kill()
        await provider.open(second.reconciler.hints())
    else:
        assert await second.intake.cancel("tenant", workload_id, "test") is not None
    slow[0].answer.set()
    record = await second.finished(workload_id)
    assert record.workload.state is W.CANCELLED
    await second.kill()
