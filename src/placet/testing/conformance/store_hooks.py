"""What every store must do for webhooks."""

from dataclasses import replace

from placet.domain.hooks import Dispatch, Hook
from placet.domain.states import DispatchState, WorkloadState
from placet.ports.store import Store
from placet.testing.conformance.store_values import TENANT, acceptance_of, applied, claimed, new_workload, transition_to

HOOK = Hook(id="wh_1", tenant=TENANT, url="https://example.org/", states=("failed",), created_ms=1, created_by="t")
MESSAGE = Dispatch(
    hook_id=HOOK.id, seq=7, workload_id="wl", kind="workload.failed", body="{}", created_ms=1,
    state=DispatchState.PENDING, due_ms=5,
)  # fmt: skip


class HooksContract:
    """Part of ``StoreContract``."""

    async def test_hooks_belong_to_a_tenant(self, store: Store) -> None:
        other = replace(HOOK, id="wh_2", tenant="other", states=(), created_ms=2)
        for hook in (HOOK, other):
            await store.put_hook(hook)
        assert list(await store.hooks(TENANT)) == [HOOK]
        assert list(await store.hooks(None)) == [other, HOOK]
        await store.put_dispatches([MESSAGE])
        assert not await store.drop_hook("other", HOOK.id)
        assert await store.dispatch(HOOK.id, MESSAGE.id) == MESSAGE
        assert await store.drop_hook(TENANT, HOOK.id)
        assert not await store.drop_hook(TENANT, HOOK.id)
        assert list(await store.hooks(None)) == [other]
        assert await store.dispatch(HOOK.id, MESSAGE.id) is None

    async def test_of_two_who_change_a_hook_one_does(self, store: Store) -> None:
        await store.put_hook(HOOK)
        paused = replace(HOOK, revision=1, paused_ms=3, paused_why="why", generation=2, former_until_ms=9, after_seq=4)
        assert await store.change_hook(paused)
        assert not await store.change_hook(replace(HOOK, revision=1, after_seq=8))
        assert list(await store.hooks(TENANT)) == [paused]
        assert not await store.change_hook(replace(HOOK, id="wh_9", revision=1))

    async def test_events_of_a_tenant_in_order(self, store: Store) -> None:
        assert await store.last_seq() == 0
        named, other = new_workload(1), new_workload(2, tenant="other")
        for workload in (named, other):
            await store.accept(acceptance_of(workload, key=workload.id))
        first = await store.last_seq()
        assert first > 0
        (owned,) = [record for record in await claimed(store) if record.workload.id == named.id]
        assert await applied(store, transition_to(owned.workload, WorkloadState.PLACING))
        told = await store.events_of_tenant(TENANT, after_seq=0, limit=10)
        assert [event.workload_id for event, _ in told] == [named.id] * len(told)
        assert [event.seq for event, _ in told] == sorted(event.seq for event, _ in told)
        assert {name for _, name in told} == {named.spec.name}
        later = await store.events_of_tenant(TENANT, after_seq=told[0][0].seq, limit=10)
        assert list(later) == list(told[1:])
        assert list(await store.events_of_tenant(TENANT, after_seq=0, limit=1)) == [told[0]]

    async def test_messages_are_written_once_and_settled_by_one(self, store: Store) -> None:
        await store.put_hook(HOOK)
        await store.put_dispatches([MESSAGE])
        await store.put_dispatches([replace(MESSAGE, body="another", due_ms=9), replace(MESSAGE, seq=8, due_ms=6)])
        await store.put_dispatches([])
        later = replace(MESSAGE, seq=8, due_ms=6)
        assert list(await store.due_dispatches([HOOK.id], 5, 10)) == [MESSAGE]
        assert list(await store.due_dispatches([HOOK.id], 6, 10)) == [MESSAGE, later]
        assert list(await store.due_dispatches([HOOK.id], 6, 1)) == [MESSAGE]
        assert list(await store.due_dispatches(["wh_9"], 6, 10)) == []
        assert await store.next_dispatch_ms([HOOK.id]) == 5
        taken = replace(MESSAGE, due_ms=100)
        assert await store.settle_dispatch(taken, MESSAGE)
        assert not await store.settle_dispatch(replace(MESSAGE, due_ms=101), MESSAGE)
        assert await store.unsent(HOOK.id) == 2
        done = replace(taken, state=DispatchState.TAKEN, due_ms=None, tries=1, sent_ms=11, status=204)
        assert await store.settle_dispatch(done, taken)
        assert await store.unsent(HOOK.id) == 1
        assert list(await store.dispatches(HOOK.id, limit=9)) == [later, done]
        assert list(await store.dispatches(HOOK.id, limit=9, state=DispatchState.TAKEN)) == [done]
        assert await store.dispatch(HOOK.id, done.id) == done
        again = replace(done, state=DispatchState.PENDING, due_ms=50, tries=0)
        assert await store.settle_dispatch(again, done)
        assert await store.next_dispatch_ms([HOOK.id]) == 6
        assert await store.next_dispatch_ms([]) is None

    async def test_old_messages_that_are_over_are_forgotten(self, store: Store) -> None:
        await store.put_hook(HOOK)
        lost = replace(MESSAGE, seq=9, state=DispatchState.GIVEN_UP, due_ms=None, tries=8, problem="gone")
        new = replace(lost, seq=10, created_ms=5)
        await store.put_dispatches([MESSAGE, lost, new])
        await store.drop_dispatches(before_ms=5)
        assert list(await store.dispatches(HOOK.id, limit=9)) == [new, MESSAGE]
