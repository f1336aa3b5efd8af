"""What every store must do. A suite inherits ``StoreContract`` and gives it ``opener``."""

import asyncio
import threading
from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.allocations import Handle
from placet.domain.errors import StoreError
from placet.domain.lessons import Ended
from placet.domain.orphans import Orphan, OrphanReason, closed, requested
from placet.domain.records import (
    Accepted,
    AcceptOutcome,
    EventKind,
    Lease,
    Record,
    Token,
    WorkloadFilter,
)
from placet.domain.states import AttemptState, Desired, IntentState, IntentVerb, OrphanState, WorkloadState
from placet.ports.store import Store, Submission
from placet.testing.conformance.store_budgets import BudgetContract
from placet.testing.conformance.store_hooks import HooksContract
from placet.testing.conformance.store_ownership import Opener
from placet.testing.conformance.store_values import (
    NOW_MS,
    TENANT,
    acceptance_of,
    accepted,
    applied,
    claimed,
    event_of,
    loaded,
    new_artifact,
    new_attempt,
    new_intent,
    new_workload,
    owned,
    plain_spec,
    rich_attempt,
    rich_decision,
    rich_workload,
    transition_to,
)
from placet.testing.conformance.store_vault import VaultContract

W = WorkloadState


class StoreContract(HooksContract, VaultContract, BudgetContract):
    """Each test has a database of its own; ``store`` is open on it, ``opener`` opens another one."""

    # Acceptance

    async def test_an_accepted_workload_is_there(self, store: Store) -> None:
        workload = rich_workload(1)
        outcome = await store.accept(acceptance_of(workload, key="k"))
        assert outcome == Accepted(outcome=AcceptOutcome.CREATED, workload_id=workload.id)
        assert await store.find(TENANT, workload.id) == workload
        assert await store.load([workload.id]) == [Record(workload=workload)]
        (event,) = await store.events(workload.id)
        assert replace(event, seq=0) == event_of(workload, EventKind.ACCEPTED)
        assert event.seq > 0
        assert await store.submission(TENANT, "k") == Submission(workload_id=workload.id, body_digest="body")

    async def test_the_same_key_is_the_same_workload(self, store: Store) -> None:
        first, second = new_workload(1), new_workload(2)
        await store.accept(acceptance_of(first, key="k"))
        again = await store.accept(acceptance_of(second, key="k"))
        assert again == Accepted(outcome=AcceptOutcome.EXISTED, workload_id=first.id)
        other = await store.accept(acceptance_of(second, key="k", digest="other"))
        assert other == Accepted(outcome=AcceptOutcome.CONFLICT, workload_id=first.id)
        assert await store.find(TENANT, second.id) is None
        assert await store.events(second.id) == []

    async def test_keys_belong_to_a_tenant(self, store: Store) -> None:
        mine, theirs = new_workload(1), new_workload(2, tenant="other")
        for workload in (mine, theirs):
            outcome = await store.accept(acceptance_of(workload, key="k"))
            assert outcome.outcome is AcceptOutcome.CREATED
        assert await store.submission("third", "k") is None

    async def test_without_a_key_each_request_is_its_own(self, store: Store) -> None:
        await accepted(store, 1, 2)
        assert (await store.counts())[W.ACCEPTED] == 2

    async def test_a_workload_id_is_used_once(self, store: Store) -> None:
        await accepted(store, 1)
        with pytest.raises(StoreError):
            await store.accept(acceptance_of(new_workload(1, spec=plain_spec("other"))))
        assert (await loaded(store, new_workload(1).id)).workload == new_workload(1)

    async def test_concurrent_equals_agree(self, store: Store, opener: Opener) -> None:
        other = await opener()
        requests = [acceptance_of(new_workload(number), key=f"k{number % 3}") for number in range(60)]
        outcomes = await asyncio.gather(
            *((store, other)[index % 2].accept(request) for index, request in enumerate(requests))
        )
        for key in range(3):
            group = outcomes[key::3]
            assert [outcome.outcome for outcome in group].count(AcceptOutcome.CREATED) == 1
            assert {outcome.outcome for outcome in group} == {AcceptOutcome.CREATED, AcceptOutcome.EXISTED}
            assert len({outcome.workload_id for outcome in group}) == 1
        assert (await store.counts())[W.ACCEPTED] == 3
        await other.close()

    async def test_threads_with_stores_of_their_own_agree(self, store: Store, opener: Opener) -> None:
        outcomes: list[Accepted] = []

        async def submit(offset: int) -> None:
            mine = await opener()
            requests = [acceptance_of(new_workload(offset + number), key=f"k{number}") for number in range(10)]
            outcomes.extend(await asyncio.gather(*(mine.accept(request) for request in requests)))
            await mine.close()

        threads = [threading.Thread(target=lambda n=n: asyncio.run(submit(100 * n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert len(outcomes) == 40
        assert len({outcome.workload_id for outcome in outcomes}) == 10
        assert (await store.counts())[W.ACCEPTED] == 10

    # Guards

    async def test_a_transition_is_written_whole(self, store: Store) -> None:
        workload = await owned(store, 1)
        attempt, intent = rich_attempt(workload), new_intent(workload)
        artifact = new_artifact(workload)
        transition = replace(
            transition_to(workload, W.PLACING, message="told"),
            attempts=(attempt,),
            intents=(intent,),
            artifacts=(artifact,),
            flush=True,
        )
        assert await applied(store, transition)
        assert await loaded(store, workload.id) == Record(
            workload=transition.workload, attempts=(attempt,), intents=(intent,)
        )
        assert [event.message for event in await store.events(workload.id)] == ["", "told"]
        assert await store.artifacts(workload.id) == [artifact]
        assert await store.attempt_by_key(attempt.key) == workload.id
        assert await store.attempt_by_key("nobody's") is None

    async def test_every_changing_column_is_written(self, store: Store) -> None:
        workload = await owned(store, 1)
        rich = replace(
            rich_workload(1),
            spec=workload.spec,
            retry_of=None,
            quoted_usd=None,
            token_id="",
            state=W.WAITING,
            revision=workload.revision + 1,
            updated_ms=NOW_MS + 5,
            state_since_ms=NOW_MS + 4,
        )
        assert await applied(store, replace(transition_to(workload, W.WAITING), workload=rich))
        assert (await loaded(store, workload.id)).workload == rich

    @pytest.mark.parametrize("wrong", ["revision", "state", "owner", "epoch", "workload"])
    async def test_a_wrong_expectation_writes_nothing(self, store: Store, wrong: str) -> None:
        workload = await owned(store, 1)
        seen = {
            "revision": replace(workload, revision=workload.revision + 1),
            "state": replace(workload, state=W.WAITING),
            "owner": replace(workload, lease=replace(workload.lease, owner="other")),
            "epoch": replace(workload, lease=replace(workload.lease, epoch=workload.lease.epoch - 1)),
            "workload": replace(workload, id=new_workload(2).id),
        }[wrong]
        transition = replace(transition_to(seen, W.PLACING), attempts=(new_attempt(seen),), intents=(new_intent(seen),))
        assert not await applied(store, transition)
        assert await loaded(store, workload.id) == Record(workload=workload)
        assert len(await store.events(workload.id)) == 1

    async def test_the_front_door_needs_no_lease(self, store: Store) -> None:
        workload = await owned(store, 1)
        wish = transition_to(workload, workload.state, front_door=True)
        assert await applied(store, replace(wish, workload=replace(wish.workload, desired=Desired.STOP)))
        after = (await loaded(store, workload.id)).workload
        assert after.desired is Desired.STOP
        assert after.lease == workload.lease
        assert not await applied(store, transition_to(workload, W.PLACING)), "what the owner knew is out of date"

    async def test_of_two_writers_one_wins(self, store: Store, opener: Opener) -> None:
        other = await opener()
        workload = await owned(store, 1)
        outcomes = await asyncio.gather(
            *(
                applied((store, other)[number % 2], transition_to(workload, W.PLACING, message=str(number)))
                for number in range(10)
            )
        )
        assert sorted(outcomes) == [False] * 9 + [True]
        assert len(await store.events(workload.id)) == 2
        await other.close()

    async def test_one_call_decides_each_by_itself(self, store: Store) -> None:
        await accepted(store, 1, 2, 3)
        first, second, third = [record.workload for record in await claimed(store)]
        stale = replace(second, revision=99)
        outcomes = await store.apply(
            [transition_to(first, W.PLACING), transition_to(stale, W.PLACING), transition_to(third, W.PLACING)]
        )
        assert list(outcomes) == [True, False, True]
        assert (await store.counts())[W.PLACING] == 2

    async def test_moves_of_one_workload_keep_their_order(self, store: Store) -> None:
        workload = await owned(store, 1)
        first = transition_to(workload, W.PLACING, message="first")
        second = transition_to(first.workload, W.RUNNING, message="second")
        assert list(await store.apply([first, second])) == [True, True]
        events = await store.events(workload.id)
        assert [event.message for event in events] == ["", "first", "second"]
        assert (await loaded(store, workload.id)).workload.state is W.RUNNING

    async def test_nothing_to_apply(self, store: Store) -> None:
        assert list(await store.apply([])) == []

    # The end

    async def test_the_result_is_written_once(self, store: Store) -> None:
        workload = await owned(store, 1)
        assert await store.result(workload.id) is None
        end = replace(transition_to(workload, W.SUCCEEDED), result='{"n": 1}')
        assert await applied(store, end)
        again = replace(transition_to(end.workload, W.SUCCEEDED), result='{"n": 2}')
        assert not await applied(store, again)
        assert await store.result(workload.id) == '{"n": 1}'
        assert (await loaded(store, workload.id)).workload == end.workload
        assert len(await store.events(workload.id)) == 2

    @pytest.mark.parametrize("state", [W.FAILED, W.RUNNING])
    async def test_a_final_state_never_changes(self, store: Store, state: WorkloadState) -> None:
        workload = await owned(store, 1)
        end = transition_to(workload, W.SUCCEEDED)
        assert await applied(store, end)
        assert not await applied(store, transition_to(end.workload, state))
        later = replace(end.workload, finished_ms=NOW_MS + 1000, revision=end.workload.revision + 1)
        assert not await applied(store, replace(transition_to(end.workload, W.SUCCEEDED), workload=later))
        assert (await loaded(store, workload.id)).workload == end.workload

    async def test_the_rest_of_a_finished_workload_may_change(self, store: Store) -> None:
        workload = await owned(store, 1)
        end = replace(transition_to(workload, W.CANCELLED, wake_ms=0), attempts=(new_attempt(workload),))
        assert await applied(store, end)
        assert await applied(store, transition_to(end.workload, W.CANCELLED))
        assert (await loaded(store, workload.id)).workload.wake_ms is None

    async def test_a_result_before_the_end_is_a_fault(self, store: Store) -> None:
        workload = await owned(store, 1)
        with pytest.raises(StoreError):
            await applied(store, replace(transition_to(workload, W.RUNNING), result="{}"))
        assert (await loaded(store, workload.id)).workload == workload

    @pytest.mark.parametrize("finished_ms", [None, 5])
    async def test_finished_means_final(self, store: Store, finished_ms: int | None) -> None:
        workload = await owned(store, 1)
        transition = transition_to(workload, W.RUNNING if finished_ms else W.FAILED)
        wrong = replace(transition, workload=replace(transition.workload, finished_ms=finished_ms))
        with pytest.raises(StoreError):
            await applied(store, wrong)
        assert (await loaded(store, workload.id)).workload == workload

    # Attempts, intents, artifacts, events

    async def test_news_of_an_attempt_replace_what_was_known(self, store: Store) -> None:
        workload = await owned(store, 1)
        first = replace(transition_to(workload, W.PLACING), attempts=(new_attempt(workload),))
        second = replace(transition_to(first.workload, W.RUNNING), attempts=(rich_attempt(workload),))
        assert list(await store.apply([first, second])) == [True, True]
        assert (await loaded(store, workload.id)).attempts == (rich_attempt(workload),)

    async def test_a_final_attempt_keeps_its_state(self, store: Store) -> None:
        workload = await owned(store, 1)
        attempt = new_attempt(workload, state=AttemptState.LOST)
        first = replace(transition_to(workload, W.PLACING), attempts=(attempt,))
        assert await applied(store, first)
        back = replace(attempt, state=AttemptState.RUNNING)
        assert not await applied(store, replace(transition_to(first.workload, W.RUNNING), attempts=(back,)))
        released = replace(attempt, released_ms=NOW_MS)
        assert await applied(store, replace(transition_to(first.workload, W.WAITING), attempts=(released,)))
        assert (await loaded(store, workload.id)).attempts == (released,)

    @pytest.mark.parametrize("part", ["key", "nonce", "provider"])
    async def test_an_attempt_stays_who_it_is(self, store: Store, part: str) -> None:
        workload = await owned(store, 1)
        attempt = new_attempt(workload)
        first = replace(transition_to(workload, W.PLACING), attempts=(attempt,))
        assert await applied(store, first)
        other = {
            "key": replace(attempt, key="other"),
            "nonce": replace(attempt, nonce="other"),
            "provider": replace(attempt, provider="other"),
        }[part]
        assert not await applied(store, replace(transition_to(first.workload, W.RUNNING), attempts=(other,)))
        assert (await loaded(store, workload.id)).attempts == (attempt,)

    async def test_an_attempt_key_belongs_to_one(self, store: Store) -> None:
        await accepted(store, 1, 2)
        first, second = [record.workload for record in await claimed(store)]
        attempt = new_attempt(first)
        assert await applied(store, replace(transition_to(first, W.PLACING), attempts=(attempt,)))
        thief = replace(new_attempt(second), key=attempt.key)
        with pytest.raises(StoreError):
            await applied(store, replace(transition_to(second, W.PLACING), attempts=(thief,)))
        assert await loaded(store, second.id) == Record(workload=second)

    async def test_attempts_come_by_epoch_and_only_open_intents(self, store: Store) -> None:
        workload = await owned(store, 1)
        attempts = tuple(new_attempt(workload, epoch) for epoch in (3, 1, 2))
        submit = new_intent(workload, 1)
        confirmed = replace(submit, state=IntentState.CONFIRMED, settled_ms=NOW_MS)
        ambiguous = new_intent(workload, 2, state=IntentState.AMBIGUOUS)
        cancel = new_intent(workload, 2, IntentVerb.CANCEL)
        first = replace(transition_to(workload, W.PLACING), attempts=attempts, intents=(submit, ambiguous))
        second = replace(transition_to(first.workload, W.RUNNING), intents=(confirmed, cancel))
        assert list(await store.apply([first, second])) == [True, True]
        record = await loaded(store, workload.id)
        assert [attempt.epoch for attempt in record.attempts] == [1, 2, 3]
        assert set(record.intents) == {ambiguous, cancel}

    async def test_an_artifact_is_never_overwritten(self, store: Store) -> None:
        workload = await owned(store, 1)
        kept = new_artifact(workload, "b")
        first = replace(transition_to(workload, W.RUNNING), attempts=(new_attempt(workload),), artifacts=(kept,))
        assert await applied(store, first)
        other = new_artifact(workload, "b", sha256="bb")
        assert not await applied(store, replace(transition_to(first.workload, W.WAITING), artifacts=(other,)))
        more = (kept, new_artifact(workload, "a"))
        assert await applied(store, replace(transition_to(first.workload, W.WAITING), artifacts=more))
        assert await store.artifacts(workload.id) == [more[1], kept]

    async def test_events_are_read_in_order_from_anywhere(self, store: Store) -> None:
        workload = await owned(store, 1)
        told = tuple(event_of(workload, message=str(number)) for number in range(5))
        assert await applied(store, replace(transition_to(workload, W.PLACING), events=told))
        events = await store.events(workload.id)
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert list(await store.events(workload.id, limit=2)) == list(events[:2])
        assert list(await store.events(workload.id, after_seq=events[2].seq)) == list(events[3:])
        assert list(await store.events(workload.id, after_seq=events[-1].seq)) == []

    # Faults of one among many

    async def test_a_bad_item_does_not_spoil_the_others(self, store: Store) -> None:
        count = 20
        await accepted(store, *range(count))
        workloads = [record.workload for record in await claimed(store)]
        steps = [replace(transition_to(each, W.PLACING), attempts=(new_attempt(each),)) for each in workloads]
        assert await applied(store, steps[-1])
        thief = replace(new_attempt(workloads[0]), key=steps[-1].attempts[0].key)
        bad = replace(transition_to(workloads[0], W.PLACING), attempts=(thief,))
        stale = transition_to(replace(workloads[1], revision=77), W.PLACING)
        everything = [*steps[1:10], stale, *steps[10:-1], bad]
        outcomes = await asyncio.gather(*(applied(store, each) for each in everything), return_exceptions=True)
        assert outcomes[:9] + outcomes[10:-1] == [True] * (count - 2)
        assert outcomes[9] is False
        assert isinstance(outcomes[-1], StoreError)
        assert await loaded(store, workloads[0].id) == Record(workload=workloads[0])
        assert (await store.counts())[W.PLACING] == count - 1

    @pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "\U0010ffff\ufffe"])
    async def test_awkward_text_is_kept_or_refused(self, store: Store, text: str) -> None:
        workload = await owned(store, 1)
        transition = transition_to(workload, W.PLACING, message=text)
        try:
            assert await applied(store, transition)
        except StoreError:
            assert (await loaded(store, workload.id)).workload == workload
        else:
            assert (await store.events(workload.id))[-1].message == text
        try:
            await store.accept(acceptance_of(new_workload(2, spec=plain_spec(text)), key=text))
        except StoreError:
            assert await store.find(TENANT, new_workload(2).id) is None
        await accepted(store, 3)

    async def test_a_number_too_large_is_refused(self, store: Store) -> None:
        workload = await owned(store, 1)
        with pytest.raises(StoreError):
            await applied(store, transition_to(workload, W.PLACING, wake_ms=2**64))
        assert await applied(store, transition_to(workload, W.PLACING, wake_ms=2**62))

    async def test_rows_of_another_workload_are_refused(self, store: Store) -> None:
        workload = await owned(store, 1)
        with pytest.raises(StoreError):
            await applied(store, replace(transition_to(workload, W.PLACING), attempts=(new_attempt(new_workload(2)),)))

    async def test_a_revision_that_jumps_is_refused(self, store: Store) -> None:
        workload = await owned(store, 1)
        jump = transition_to(workload, W.PLACING)
        with pytest.raises(StoreError):
            await applied(store, replace(jump, workload=replace(jump.workload, revision=workload.revision + 2)))

    # Reads

    async def test_a_tenant_sees_only_its_own(self, store: Store) -> None:
        mine, theirs = new_workload(1), new_workload(2, tenant="other")
        for workload in (mine, theirs):
            await store.accept(acceptance_of(workload))
        assert await store.find(TENANT, theirs.id) is None
        assert await store.find("other", theirs.id) == theirs
        assert await store.find(TENANT, "nothing") is None
        assert list(await store.list(WorkloadFilter(tenant=TENANT))) == [mine]
        assert list(await store.list(WorkloadFilter(tenant="third"))) == []

    async def test_lists_are_newest_first_and_page(self, store: Store) -> None:
        workloads = await accepted(store, *range(7))
        newest_first = workloads[::-1]
        page = list(await store.list(WorkloadFilter(tenant=TENANT, limit=3)))
        assert page == newest_first[:3]
        rest = await store.list(WorkloadFilter(tenant=TENANT, limit=10, before=page[-1].id))
        assert list(rest) == newest_first[3:]

    async def test_lists_filter(self, store: Store) -> None:
        red, both = (("team", "red"),), (("tier", "1"), ("team", "red"))
        specs = [plain_spec("a", red), plain_spec("a", tuple(sorted(both))), plain_spec("b"), plain_spec()]
        for number, spec in enumerate(specs):
            await store.accept(acceptance_of(new_workload(number, spec=spec)))
        first = (await loaded(store, new_workload(0).id)).workload
        assert await applied(store, transition_to(first, W.FAILED))

        async def numbers(**wanted: object) -> list[int]:
            found = await store.list(replace(WorkloadFilter(tenant=TENANT), **wanted))  # type: ignore[arg-type]  # any of its fields
            return [int(workload.id.removeprefix("wl_")) for workload in found]

        assert await numbers(labels=red) == [1, 0]
        assert await numbers(labels=both) == [1]
        assert await numbers(labels=(("team", "blue"),)) == []
        assert await numbers(name="a") == [1, 0]
        assert await numbers(name="a", labels=red, before=new_workload(1).id) == [0]
        assert await numbers(states=(W.FAILED, W.SUCCEEDED)) == [0]
        assert await numbers(states=(W.ACCEPTED, W.FAILED)) == [3, 2, 1, 0]
        assert await numbers(states=(W.ACCEPTED, W.WAITING), limit=2) == [3, 2]

    async def test_counts_are_over_all_tenants_and_states(self, store: Store) -> None:
        assert await store.counts() == dict.fromkeys(W, 0)
        await store.accept(acceptance_of(new_workload(1, tenant="other")))
        workload = new_workload(2)
        await store.accept(acceptance_of(workload))
        assert await applied(store, transition_to(workload, W.EXPIRED))
        assert await store.counts() == dict.fromkeys(W, 0) | {W.ACCEPTED: 1, W.EXPIRED: 1}

    async def test_load_gives_what_exists(self, store: Store) -> None:
        workloads = await accepted(store, *range(300))
        wanted = [workload.id for workload in workloads[::3]]
        records = await store.load([*wanted, "nothing", wanted[0]])
        assert sorted(record.workload.id for record in records) == wanted
        assert list(await store.load([])) == []

    async def test_ended_attempts_are_told_the_latest_first(self, store: Store) -> None:
        for workload in [await owned(store, number) for number in range(4)]:
            number = int(workload.id[-1])
            attempt = replace(rich_attempt(workload), finished_ms=NOW_MS + number)
            live = new_attempt(workload, epoch=2)
            moved = replace(transition_to(workload, W.PLACING), attempts=(attempt, live))
            assert await applied(store, moved)
        told = await store.ended(NOW_MS + 1, 2)
        assert [one.finished_ms for one in told] == [NOW_MS + 3, NOW_MS + 2]
        assert told[0] == Ended.of(TENANT, replace(rich_attempt(workload), finished_ms=NOW_MS + 3))
        assert len(await store.ended(NOW_MS + 1, 10)) == 3
        assert list(await store.ended(NOW_MS + 4, 10)) == []

    async def test_an_ended_attempt_tells_where_it_was_and_what_it_had(self, store: Store) -> None:
        workload = await owned(store, 1)
        first = rich_attempt(workload)
        noted = replace(
            first.placement, gpu_model="L4", capacity_type="spot", kind="k", memory_bytes=2**40, resumes=True
        )
        again = replace(first, epoch=2, key="again", placement=noted, failure=None, finished_ms=NOW_MS)
        assert await applied(store, replace(transition_to(workload, W.PLACING), attempts=(first, again)))
        (told,) = await store.ended(NOW_MS, 10)
        assert told == Ended.of(TENANT, again)
        assert (told.gpu_model, told.kind, told.memory_bytes, told.whole) == ("L4", "k", 2**40, False)

    async def test_decisions_come_back_as_they_were(self, store: Store) -> None:
        workload = await owned(store, 1)
        assert list(await store.decisions(workload.id)) == []
        decision = rich_decision(workload)
        moved = transition_to(workload, W.PLACING)
        assert await applied(store, replace(moved, attempts=(new_attempt(workload),), decisions=(decision,)))
        other = replace(decision, epoch=2, known=(), offers=())
        more = replace(transition_to(moved.workload, W.WAITING), attempts=(new_attempt(workload, epoch=2),))
        assert await applied(store, replace(more, decisions=(other,)))
        assert list(await store.decisions(workload.id)) == [decision, other]
        assert list(await store.decisions("nothing")) == []

    async def test_tokens(self, store: Store) -> None:
        old = Token(id="t1", digest="d1", name="n", tenant=TENANT, scopes=("read", "write"), created_ms=1, expires_ms=9)
        new = replace(old, id="t2", scopes=(), created_ms=2, expires_ms=None)
        for token in (old, new):
            await store.add_token(token)
        assert await store.token("t1") == old
        assert await store.token("t3") is None
        assert list(await store.tokens()) == [new, old]
        assert await store.revoke_token("t1", 5)
        assert await store.revoke_token("t1", 6)
        assert not await store.revoke_token("t3", 5)
        assert await store.token("t1") == replace(old, revoked_ms=5)
        with pytest.raises(StoreError):
            await store.add_token(new)

    async def test_orphans(self, store: Store) -> None:
        handle = Handle(provider="p", key="k", native_id="n1", created_ms=1, price_usd_per_hour=Decimal("0.50"))
        old = Orphan(
            handle=handle, reason=OrphanReason.TWIN, state=OrphanState.LISTED, first_seen_ms=1, last_seen_ms=2,
            price_usd_per_hour=Decimal("0.50"),
        )  # fmt: skip
        new = replace(old, handle=replace(handle, provider="q", native_id="n2"), first_seen_ms=3)
        assert list(await store.put_orphans([old, new])) == [True, True]
        assert list(await store.put_orphans([])) == []
        assert list(await store.orphans()) == [new, old]
        assert list(await store.orphans(provider="p")) == [old]
        assert await store.orphan(old.id) == old
        assert await store.orphan("or_0") is None
        asked = requested(old, "somebody", 5)
        assert list(await store.put_orphans([asked])) == [True]
        # Whoever read it before it was asked for does not undo that.
        assert list(await store.put_orphans([replace(old, sightings=2)])) == [False]
        assert await store.orphan(old.id) == asked
        gone = closed(asked, "seen no more", 9)
        assert list(await store.put_orphans([gone])) == [True]
        assert list(await store.orphans()) == [new]
        assert list(await store.orphans(closed_since_ms=10)) == [new]
        assert list(await store.orphans(closed_since_ms=9)) == [new, gone]

    # Life of the store

    async def test_listeners_hear_of_commits(self, store: Store) -> None:
        heard: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listener(workload_ids: frozenset[str]) -> None:
            assert asyncio.get_running_loop() is loop
            heard.put_nowait(workload_ids)

        stop = store.watch(listener)
        workload = await owned(store, 1)
        assert await asyncio.wait_for(heard.get(), 5) == {workload.id}
        assert await asyncio.wait_for(heard.get(), 5) == {workload.id}
        assert await applied(store, transition_to(workload, W.PLACING))
        assert await asyncio.wait_for(heard.get(), 5) == {workload.id}
        stop()
        stop()
        await accepted(store, 2)
        assert heard.empty()

    async def test_what_was_handed_in_is_finished_before_closing(self, store: Store, opener: Opener) -> None:
        pending = [asyncio.ensure_future(store.accept(acceptance_of(new_workload(number)))) for number in range(50)]
        await asyncio.wait_for(pending[0], 10)
        await store.close()
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        created = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        assert len(created) + len(refused) == 50
        again = await opener()
        assert (await again.counts())[W.ACCEPTED] == len(created)
        await again.close()

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreError):
            await accepted(store, 1)
        with pytest.raises(StoreError):
            await store.counts()

    async def test_all_is_there_after_reopening(self, store: Store, opener: Opener) -> None:
        identity = await store.deployment_id()
        workload = await owned(store, 1)
        await store.close()
        again = await opener()
        assert await again.deployment_id() == identity != ""
        assert (await loaded(again, workload.id)).workload == workload
        await again.close()

    async def test_a_secret_is_made_once_for_everybody(self, store: Store, opener: Opener) -> None:
        other = await opener()
        both = await asyncio.gather(*(one.secret("quotes") for one in (store, other, store, other)))
        assert len(set(both)) == 1
        assert len(both[0]) == 32
        assert await store.secret("something else") != both[0]
        await store.close()
        assert await other.secret("quotes") == both[0]
        await other.close()

    async def test_a_caller_that_goes_away_harms_nobody(self, store: Store) -> None:
        gone = asyncio.ensure_future(store.accept(acceptance_of(new_workload(1))))
        await asyncio.wait({gone}, timeout=0)
        gone.cancel()
        await accepted(store, 2)
        assert (await loaded(store, new_workload(2).id)).workload.lease == Lease()
