"""Faults of cancelling: it comes too late, it changes nothing, what it stops is not there any more."""

from pathlib import Path

import pytest

from placet.domain.states import AttemptState, WorkloadState
from placet.engine import reconcile
from placet.engine.decide import decide
from placet.engine.facts import Situation, Step
from placet.testing.scripted import Script
from placet.testing.world.serving import World
from tests.sim.test_doubt import FIRST, NobodyKnows, in_doubt
from tests.support.faulty import always, first, lived, wish
from tests.support.worlds import TENANT, control_plane
from tests.support.worlds import always as scripted

W = WorkloadState


async def test_fault_CANCEL_03(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script())) as plane:
        workload_id = await plane.submit()
        await plane.finished(workload_id)
        outcome = await plane.intake.cancel(TENANT, workload_id, "test")
        assert outcome is not None
        assert outcome.already_final
        assert outcome.workload.state is W.SUCCEEDED


def test_fault_CANCEL_04() -> None:
    seen = lived([wish(runs_s=20.0, cancel_at_s=22.0)], when={"stop_ignored": always})
    assert seen.workload().final
    attempt = seen.records["w0"].attempts[0]
    assert attempt.computed == seen.machines()[0].computed
    assert attempt.exit_code == seen.machines()[0].seen.exit_code


def test_fault_CANCEL_06() -> None:
    held: list[bool] = []

    def look(world: World) -> None:
        (record,) = world.disk.database.records(sorted(world.oracle.wishes))
        if record.workload.final and any(each.deleted_s is None for each in world.cloud.machines.values()):
            held.append(record.workload.wake_ms is not None and record.attempts[0].released_ms is None)

    seen = lived(
        [wish(runs_s=900.0, cancel_at_s=30.0)],
        when={"release_slow": first(9)},
        sizes={"release_slow": 180.0},
        then={float(second): look for second in range(35, 200, 5)},
    )
    assert held
    assert all(held)
    assert seen.workload().state is W.CANCELLED


def test_fault_CANCEL_07() -> None:
    def by_hand(world: World) -> None:
        for machine in world.cloud.machines.values():
            world.cloud.delete(machine, asked=False)

    seen = lived([wish(runs_s=900.0, cancel_at_s=61.0)], then={60.0: by_hand})
    assert seen.workload().state is W.CANCELLED
    assert seen.records["w0"].attempts[0].released_ms is not None


async def test_fault_CANCEL_08(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision about one workload that fails by a fault of ours is that workload's trouble; the others go on."""
    poisoned: list[str] = []

    def fails_for_one(situation: Situation) -> Step:
        if situation.record.workload.id in poisoned:
            raise ZeroDivisionError("nobody thought of this")
        return decide(situation)

    monkeypatch.setattr(reconcile, "decide", fails_for_one)
    options = reconcile.ReconcileOptions(worker="w", observe_every_s=0.3)
    async with control_plane(tmp_path, scripted(Script()), options=options) as plane:
        troubled = await plane.submit()
        poisoned.append(troubled)
        for _ in range(2):
            assert (await plane.finished(await plane.submit())).workload.state is W.SUCCEEDED
        assert not (await plane.record(troubled)).workload.final
        poisoned.clear()
        assert (await plane.finished(troubled)).workload.state is W.SUCCEEDED


async def test_fault_CANCEL_09(tmp_path: Path) -> None:
    """Its owner's word ends the doubt; what may still be there is looked for and deleted from then on."""
    provider = NobodyKnows()
    plane, resolving, workload_id = await in_doubt(tmp_path, provider)
    await resolving.go_on(TENANT, workload_id, "token:1")
    record = await plane.finished(workload_id)
    lost = record.attempts[0]
    assert (lost.state, lost.released_ms) == (AttemptState.LOST, None)
    assert record.workload.wake_ms is not None
    assert len(provider.launches) == FIRST + 1
    await plane.kill()
