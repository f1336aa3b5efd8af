"""The real engine and store over a scripted provider: every way through the line, and every way to be cut off in it."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.artifacts.files import FileArtifacts
from placet.domain.allocations import Handle, Launch
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.records import EventKind
from placet.domain.spec import Constraints, Output, Repeat, Resources, RetryPolicy
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.decide import decide
from placet.engine.facts import Situation, World
from placet.engine.intake import Conflict, Submission, Submitted
from placet.engine.market import Market
from placet.engine.queries import Queries, QueryPorts
from placet.engine.rhythm import LOOK_AGAIN_MS
from placet.ports.artifacts import ObjectStat
from placet.stages.stopping import TAKEN, StopStage, stop_of
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.worlds import TENANT, always, control_plane, process, start

W, A = WorkloadState, AttemptState
ONCE_MORE = RetryPolicy(attempts=2, infrastructure_attempts=2, backoff_s=Decimal("0.01"))


async def test_a_workload_runs_once_and_succeeds(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(logs=(("stdout", b"hello\n"),)))) as plane:
        workload_id = await plane.submit()
        record = await plane.finished(workload_id)
        assert record.workload.state is W.SUCCEEDED
        assert plane.provider.ran == [(workload_id, 1)]
        await plane.until(workload_id, lambda record: record.workload.wake_ms is None, "released")
        assert plane.provider.allocations[record.attempts[0].key].released
        page = await plane.queries.logs(TENANT, workload_id, epoch=None, stream="stdout", offset=0, limit=100)
        assert page is not None
        assert page.data == b"hello\n"
        assert page.sealed


class LooksTooEarly(FileArtifacts):
    """Where a log is found only at the second look, as when it is being moved there at the first."""

    looked = False

    async def stat(self, location: str) -> ObjectStat | None:
        self.looked, early = True, not self.looked
        return None if early else await super().stat(location)


@pytest.mark.parametrize("follow", [False, True])
async def test_a_log_that_is_moved_while_it_is_looked_for_is_found(tmp_path: Path, follow: bool) -> None:
    async with control_plane(tmp_path, always(Script(logs=(("stdout", b"hello\n"),)))) as plane:
        workload_id = await plane.submit()
        await plane.finished(workload_id)
        await plane.until(workload_id, lambda record: record.workload.wake_ms is None, "released")
        market, providers = Market({}), {plane.provider.name: plane.provider}
        artifacts = LooksTooEarly(tmp_path / "artifacts")
        queries = Queries(
            QueryPorts(store=plane.store, artifacts=artifacts, providers=providers, clock=SystemClock(), offers=market)
        )
        if follow:
            pieces = queries.follow_logs(TENANT, workload_id, epoch=1, stream="stdout", offset=0)
            assert b"".join([piece.data async for piece in pieces]) == b"hello\n"
        else:
            page = await queries.logs(TENANT, workload_id, epoch=1, stream="stdout", offset=0, limit=100)
            assert page is not None
            assert (page.data, page.sealed) == (b"hello\n", True)


async def test_the_result_has_every_key_and_its_own_digest(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script())) as plane:
        workload_id = await plane.submit()
        await plane.finished(workload_id)
        document = json.loads(await plane.queries.result(TENANT, workload_id) or "")
        assert document["state"] == W.SUCCEEDED
        assert document["digest"].startswith("sha256:")
        assert [attempt["epoch"] for attempt in document["attempts"]] == [1]


async def test_equal_keys_are_one_workload_and_other_bodies_conflict(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script())) as plane:
        ids = await asyncio.gather(*(plane.submit(key="k") for _ in range(20)))
        assert len(set(ids)) == 1
        other = await plane.intake.submit(Submission(tenant=TENANT, spec=process("false"), key="k", actor="test"))
        assert other == Conflict(workload_id=ids[0])
        elsewhere = await plane.intake.submit(Submission(tenant="other", spec=process("false"), key="k", actor="test"))
        assert isinstance(elsewhere, Submitted)
        assert not elsewhere.existed


async def test_a_failing_program_is_tried_as_often_as_asked(tmp_path: Path) -> None:
    script = Script(cause=Cause.EXIT_CODE, exit_code=7)
    async with control_plane(tmp_path, always(script)) as plane:
        workload_id = await plane.submit(process(retry=ONCE_MORE))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.FAILED
        assert record.workload.failure is not None
        assert record.workload.failure.exit_code == 7
        assert plane.provider.ran == [(workload_id, 1), (workload_id, 2)]


async def test_at_most_once_is_never_run_again(tmp_path: Path) -> None:
    script = Script(cause=Cause.KILLED, exit_code=None)
    policy = replace(ONCE_MORE, attempts=1, infrastructure_attempts=5)
    async with control_plane(tmp_path, always(script)) as plane:
        workload_id = await plane.submit(process(retry=policy, repeat=Repeat.AT_MOST_ONCE))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.FAILED
        assert plane.provider.ran == [(workload_id, 1)]


async def test_a_missing_required_output_is_no_success(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(missing=("model",)))) as plane:
        workload_id = await plane.submit(process(outputs=(Output(name="model", path="model.bin"),)))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.FAILED
        assert record.workload.compute_done
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.OUTPUT_MISSING


async def test_a_lost_reply_is_looked_up_and_adopted(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(lose_reply=True))) as plane:
        workload_id = await plane.submit()
        record = await plane.finished(workload_id)
        assert record.workload.state is W.SUCCEEDED
        assert plane.provider.ran == [(workload_id, 1)]


async def test_a_lost_request_is_proven_absent_before_the_next_attempt(tmp_path: Path) -> None:
    def first_is_lost(launch: Launch) -> Script:
        return Script(lose_request=launch.tag.epoch == 1)

    async with control_plane(tmp_path, first_is_lost) as plane:
        workload_id = await plane.submit(process(retry=ONCE_MORE))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.SUCCEEDED
        assert [attempt.state for attempt in record.attempts] == [A.REFUSED, A.COLLECTED]
        waited_ms = record.attempts[1].created_ms - record.attempts[0].created_ms
        assert waited_ms >= 500
        assert 3 <= record.attempts[0].absent_reads <= 2 + waited_ms / LOOK_AGAIN_MS, "looks are spaced"
        assert plane.provider.ran == [(workload_id, 2)]


async def test_a_vanished_allocation_is_lost_only_after_the_absence_rule(tmp_path: Path) -> None:
    def first_holds(launch: Launch) -> Script:
        return Script(hold=launch.tag.epoch == 1)

    async with control_plane(tmp_path, first_holds) as plane:
        workload_id = await plane.submit(process(retry=ONCE_MORE))
        record = await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
        plane.provider.vanish(record.attempts[0].key)
        plane.reconciler.touched(workload_id)
        record = await plane.until(workload_id, lambda record: len(record.attempts) == 2, "a second attempt")
        assert record.attempts[0].state is A.LOST
        waited_ms = record.attempts[1].created_ms - record.attempts[0].created_ms
        assert 3 <= record.attempts[0].absent_reads <= 2 + waited_ms / LOOK_AGAIN_MS, "looks are spaced"
        assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED


async def test_cancel_stops_what_runs_and_says_so_once(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold=True))) as plane:
        workload_id = await plane.submit()
        await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
        outcomes = await asyncio.gather(*(plane.intake.cancel(TENANT, workload_id, "test") for _ in range(5)))
        assert sum(outcome.changed for outcome in outcomes if outcome is not None) == 1
        record = await plane.finished(workload_id)
        assert record.workload.state is W.CANCELLED
        assert record.attempts[0].state is A.STOPPED
        late = await plane.intake.cancel(TENANT, workload_id, "test")
        assert late is not None
        assert late.already_final


async def test_cancel_of_what_waits_needs_no_provider(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script()), slots=0) as plane:
        workload_id = await plane.submit()
        record = await plane.until(workload_id, lambda record: record.workload.state is W.WAITING, "waiting")
        assert "slots" in record.workload.reason
        await plane.intake.cancel(TENANT, workload_id, "test")
        assert (await plane.finished(workload_id)).workload.state is W.CANCELLED
        assert plane.provider.ran == []


async def test_freed_capacity_wakes_what_waits(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script()), slots=2) as plane:
        ids = [await plane.submit() for _ in range(30)]
        for workload_id in ids:
            assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert sorted(plane.provider.ran) == sorted((workload_id, 1) for workload_id in ids)


async def test_a_deadline_ends_what_runs(tmp_path: Path) -> None:
    deadline_ms = SystemClock().now_ms() + 2000
    async with control_plane(tmp_path, always(Script(hold=True))) as plane:
        workload_id = await plane.submit(process(constraints=Constraints(deadline_ms=deadline_ms)))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.EXPIRED
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.DEADLINE


@pytest.mark.parametrize("kind", ["running", "asked"])
async def test_a_killed_server_adopts_what_runs(tmp_path: Path, kind: str) -> None:
    provider = ScriptedProvider(SystemClock(), always(Script(hold=kind == "running")))
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    first = await start(url, tmp_path, provider, worker="first")
    workload_id = await first.submit()
    if kind == "running":
        await first.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
    else:
        await first.until(workload_id, lambda record: bool(record.attempts), "an attempt")
    await first.kill()
    second = await start(url, tmp_path, provider, worker="second")
    if kind == "running":
        await second.until(
            workload_id, lambda record: record.workload.lease.owner == "second", "taken over by the second"
        )
        provider.let_go((await second.record(workload_id)).attempts[0].key)
    record = await second.finished(workload_id)
    assert record.workload.state is W.SUCCEEDED
    assert provider.ran == [(workload_id, 1)]
    await second.reconciler.stop()
    await second.store.close()


async def test_the_account_answers_all_nine(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold=True))) as plane:
        workload_id = await plane.submit()
        await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
        account = await plane.queries.account(TENANT, workload_id)
        assert account is not None
        assert len(account.answers) == 9
        answers = {str(answer.question): str(answer.answer) for answer in account.answers}
        assert answers["started"] == "yes"
        assert answers["safe_to_retry"] == "no"
        assert all(answer.events for answer in account.answers)


async def test_every_attempt_can_be_explained_and_replayed(tmp_path: Path) -> None:
    script = Script(cause=Cause.EXIT_CODE, exit_code=7)
    async with control_plane(tmp_path, always(script)) as plane:
        workload_id = await plane.submit(process(retry=ONCE_MORE))
        await plane.finished(workload_id)
        explanation = await plane.queries.explanation(TENANT, workload_id, replay=True)
        assert explanation is not None
        assert [one.decision.epoch for one in explanation.explained] == [1, 2]
        for one in explanation.explained:
            attempt = explanation.record.attempts[one.decision.epoch - 1]
            assert one.decision.ranked[0].offer_id == attempt.placement.offer_id
            assert one.replay is not None
            assert one.replay.differences == ()
        unasked = await plane.queries.explanation(TENANT, workload_id, replay=False)
        assert unasked is not None
        assert unasked.explained[0].replay is None
        assert await plane.queries.explanation("other", workload_id, replay=False) is None


async def test_after_running_out_of_memory_the_next_attempt_asks_for_more(tmp_path: Path) -> None:
    asked: list[int | None] = []

    def short_of_memory(launch: Launch) -> Script:
        asked.append(launch.demand.memory_bytes)
        enough = (launch.demand.memory_bytes or 0) >= 200 * 2**20
        return Script() if enough else Script(cause=Cause.OUT_OF_MEMORY, exit_code=None)

    spec = process(resources=Resources(memory_bytes=100 * 2**20), retry=replace(ONCE_MORE, attempts=4))
    async with control_plane(tmp_path, short_of_memory) as plane:
        workload_id = await plane.submit(spec)
        assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert asked == [100 * 2**20, 150 * 2**20, 225 * 2**20]
        document = json.loads(await plane.queries.result(TENANT, workload_id) or "")
        assert any("attempt 2 ran out of memory" in why for why in document["placement"]["why"])
        events = await plane.queries.events(TENANT, workload_id, 0, 200)
        assert any("attempt 1 ran out of memory" in event.message for event in events or ())
        explanation = await plane.queries.explanation(TENANT, workload_id, replay=True)
        assert explanation is not None
        assert all(one.replay is not None and not one.replay.differences for one in explanation.explained)


async def test_without_more_memory_to_be_had_the_end_says_what_was_missing(tmp_path: Path) -> None:
    most = 10**12  # what the scripted provider offers
    spec = process(resources=Resources(memory_bytes=most), retry=replace(ONCE_MORE, attempts=4))
    async with control_plane(tmp_path, always(Script(cause=Cause.OUT_OF_MEMORY, exit_code=None))) as plane:
        assert plane.provider.offers()[0].memory_bytes == most
        record = await plane.finished(await plane.submit(spec))
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.NO_OFFER
        assert "attempt 1 ran out of memory" in record.workload.failure.message
        assert len(record.attempts) == 1


async def test_one_that_vanished_is_lost_and_all_that_vanished_at_once_are_doubted_first(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold=True))) as plane:
        ids = [await plane.submit() for _ in range(5)]
        keys = {}
        for workload_id in ids:
            record = await plane.until(
                workload_id,
                lambda record: record.workload.state is W.RUNNING and record.attempts[0].handle is not None,
                "running",
            )
            keys[workload_id] = record.attempts[0].key
        alone, *others = ids
        plane.provider.vanish(keys[alone])
        await plane.until(alone, lambda record: record.attempts[0].state is AttemptState.LOST, "lost")
        for workload_id in others:
            plane.provider.vanish(keys[workload_id])
        for workload_id in others:
            record = await plane.until(workload_id, lambda record: record.attempts[0].absent_reads > 6, "doubted")
            assert record.attempts[0].state is AttemptState.RUNNING
            assert plane.provider.ran.count((workload_id, 1)) == 1


async def test_while_the_clock_is_not_to_be_trusted_nothing_is_ended_by_it(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold=True))) as plane:
        deadline_ms = SystemClock().now_ms() + 3_600_000
        limits = Constraints(deadline_ms=deadline_ms, runtime_s=Decimal(60))
        workload_id = await plane.submit(process(constraints=limits))
        record = await plane.until(
            workload_id,
            lambda record: record.workload.state is W.RUNNING and record.attempts[0].handle is not None,
            "running",
        )

        def after_the_deadline(hands_off: str) -> AttemptState:
            world = World(
                now_ms=deadline_ms + 1,
                deployment="d",
                worker="w1",
                offers=lambda: OfferTable.of([]),
                places=frozenset(),
                cards={plane.provider.name: plane.provider.card},
                hands_off=hands_off,
            )
            return decide(Situation(record=record, world=world)).record.attempts[0].state

        assert after_the_deadline("the clock jumped") is AttemptState.RUNNING
        assert after_the_deadline("") is AttemptState.STOPPING


async def test_a_stop_that_was_taken_and_does_nothing_is_told_as_taken_once(tmp_path: Path) -> None:
    class Deaf(ScriptedProvider):
        async def cancel(self, handle: Handle, grace_s: float) -> None:
            del handle, grace_s

    provider = Deaf(SystemClock(), always(Script(hold=True)))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit()
    await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
    await plane.intake.cancel(TENANT, workload_id, actor="test")
    record = await plane.until(
        workload_id, lambda record: any(intent.evidence == TAKEN for intent in record.intents), "taken"
    )
    stop = stop_of(record, SystemClock().now_ms())
    assert stop is not None
    assert (stop.stage, record.attempts[0].state) == (StopStage.DELIVERED, A.STOPPING)
    provider.let_go(record.attempts[0].key)
    record = await plane.until(workload_id, lambda record: record.attempts[0].released_ms is not None, "released")
    stop = stop_of(record, SystemClock().now_ms())
    assert stop is not None
    assert stop.stage is StopStage.CONFIRMED
    kinds = [event.kind for event in await plane.store.events(workload_id)]
    assert kinds.count(EventKind.STOP_TAKEN) == 1
    await plane.kill()
