"""Faults of submission and identity: lost and repeated requests, answers that say nothing, names of others."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Handle, Launch
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.intake import Conflict, Submission, Submitted
from placet.testing.scripted import Script, ScriptedProvider
from placet.testing.world.serving import World
from tests.support.faulty import always, at, every, kill_servers, lived, wish, wishes
from tests.support.missing import not_built
from tests.support.worlds import always as scripted
from tests.support.worlds import control_plane, process, start

W, A = WorkloadState, AttemptState


def test_fault_SUB_01() -> None:
    seen = lived(when={"lost_reply": at(0)}, then={6.0: kill_servers})
    assert (seen.sent(), len(seen.machines()), seen.starts()) == (1, 1, 1)
    assert seen.workload().state is W.SUCCEEDED


def test_fault_SUB_02() -> None:
    # The oracle counts every acknowledgement of one wish as another workload if their ids differ.
    seen = lived([wish(copies=5)], when={"store_slow": always}, sizes={"store_slow": 4.0}, faults_s=60.0)
    assert len(seen.records) == 1
    assert seen.starts() == 1


def test_fault_SUB_03() -> None:
    seen = lived([wish(copies=3)], when={"lost_reply": at(0)})
    assert (seen.sent(), len(seen.machines())) == (1, 1)


def test_fault_SUB_05() -> None:
    seen = lived(wishes(40, apart_s=0.01), when={"lost_reply": every(13)}, faults_s=30.0)
    assert seen.states == {W.SUCCEEDED}
    assert len(seen.records) == 40
    assert all(len(seen.machines(name)) == 1 for name in seen.records)


def test_fault_SUB_06() -> None:
    def none_is_over(world: World) -> None:
        states = {state for state, _ in world.disk.database.states(world.oracle.wishes).values()}
        assert states, "nothing was accepted"
        assert not any(state.final for state in states), states

    seen = lived(
        wishes(8, apart_s=0.1, infrastructure_attempts=3), when={"no_capacity": always}, then={599.0: none_is_over}
    )
    assert seen.states == {W.SUCCEEDED}
    assert seen.asked["no_capacity"] < 8 * 60, "submission slows down"


@pytest.mark.parametrize("native_id", ["", "  "])
async def test_fault_SUB_07(tmp_path: Path, native_id: str) -> None:
    class Blank(ScriptedProvider):
        async def submit(self, launch: Launch) -> Handle:
            return replace(await super().submit(launch), native_id=native_id)

    provider = Blank(SystemClock(), scripted(Script()))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit()
    record = await plane.finished(workload_id)
    assert record.workload.state is W.SUCCEEDED
    assert [attempt.handle.native_id.strip() != "" for attempt in record.attempts if attempt.handle] == [True]
    assert provider.ran == [(workload_id, 1)]
    await plane.kill()


def test_fault_SUB_08() -> None:
    seen = lived(when={"lost_reply": at(0), "lag": always}, sizes={"lag": 50.0}, card="keyless_slow")
    assert (seen.sent(), len(seen.machines()), seen.starts()) == (1, 1, 1)
    assert asyncio.run(_looks_after_a_plain_refusal()) == []


async def _looks_after_a_plain_refusal() -> list[str]:
    looked: list[str] = []

    class Looks(ScriptedProvider):
        async def find(self, key: str) -> list[Handle]:  # type: ignore[override]  # a list is a sequence
            looked.append(key)
            return []

    with tempfile.TemporaryDirectory() as folder:
        provider = Looks(SystemClock(), scripted(Script(invalid=True)))
        plane = await start(f"sqlite:///{folder}/placet.db", Path(folder), provider)
        assert (await plane.finished(await plane.submit())).workload.state is W.FAILED
        await plane.kill()
    return looked


@not_built("a provider that is reached through its vendor's SDK")
def test_fault_SUB_10() -> None: ...


async def test_fault_SUB_12(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(lose_reply=True))) as plane:
        record = await plane.finished(await plane.submit())
        assert record.workload.state is W.SUCCEEDED
        assert [attempt.state for attempt in record.attempts] == [A.COLLECTED]


def test_fault_SUB_13() -> None:
    def stays_away(world: World) -> None:
        kill_servers(world)

    seen = lived(
        [wish(runs_s=5.0)],
        when={"lost_reply": at(0)},
        then={second: stays_away for second in (2.0, 3.0, 4.5, 6.0, 8.0, 12.0, 20.0)},
    )
    assert seen.workload().state is W.SUCCEEDED
    assert (seen.sent(), seen.starts()) == (1, 1)


async def test_fault_SUB_15(tmp_path: Path) -> None:
    """Something of this name is there, and it is another's: neither adopted nor touched."""

    class Foreign(ScriptedProvider):
        async def find(self, key: str) -> list[Handle]:  # type: ignore[override]  # a list is a sequence
            return [Handle(provider=self.name, key=key, native_id="theirs", created_ms=1, nonce="another")]

    provider = Foreign(SystemClock(), lambda launch: Script(lose_request=launch.tag.epoch == 1))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit(process())
    record = await plane.until(
        workload_id,
        lambda record: bool(record.attempts) and record.attempts[0].state is not A.INTENDED,
        "told",
    )
    assert all(attempt.handle is None or attempt.handle.native_id != "theirs" for attempt in record.attempts)
    await plane.kill()


async def test_fault_SUB_17(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(hold=True))) as plane:
        first_id = await plane.submit(key="k")
        other = await plane.intake.submit(Submission(tenant="other", spec=process(), key="k", actor="test"))
        assert isinstance(other, Submitted)
        assert other.workload.id != first_id
        changed = await plane.intake.submit(Submission(tenant="tenant", spec=process("false"), key="k", actor="test"))
        assert isinstance(changed, Conflict)
        cancelled = await plane.intake.cancel("tenant", first_id, "k")
        assert cancelled is not None
        assert cancelled.changed
        assert (await plane.finished(first_id)).workload.state is W.CANCELLED
        kept = await plane.queries.get("other", other.workload.id)
        assert kept is not None
        assert not kept.workload.final
        await plane.intake.cancel("other", other.workload.id, "test")


def test_fault_SUB_18() -> None:
    seen = lived(
        [wish()], when={"held_send": at(0), "held_write": at(2)}, sizes={"held_send": 120.0}, workers=2, faults_s=900.0
    )
    assert seen.workload().state is W.SUCCEEDED
    assert seen.starts() == 1
