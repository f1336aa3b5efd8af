"""Faults of outputs: uploads that break off, files that are missing, what an earlier attempt left."""

import hashlib
from pathlib import Path

from placet.domain.allocations import FoundOutput
from placet.domain.failures import Cause
from placet.domain.spec import Output
from placet.domain.states import WorkloadState
from placet.testing.scripted import Script
from placet.testing.world.clients import TENANT
from placet.testing.world.serving import World
from tests.support.faulty import always, at, first, lived, wish
from tests.support.missing import not_built
from tests.support.worlds import always as scripted
from tests.support.worlds import control_plane, process

W = WorkloadState
BUCKET = not_built("links to a bucket that machines elsewhere write to")


def test_fault_ART_01() -> None:
    seen = lived([wish(outputs=2)], when={"digest_mismatch": always}, faults_s=8000.0)
    assert seen.workload().state is W.FAILED
    assert seen.workload().failure is not None
    assert seen.workload().failure.cause is Cause.DELIVERY
    assert seen.workload().compute_done


def test_fault_ART_02() -> None:
    """It is taken away while its outputs are read: what was not kept is not called kept."""

    def take_away(world: World) -> None:
        for machine in world.cloud.machines.values():
            if machine.computed and machine.ended_s is None:
                world.cloud.delete(machine, asked=False)

    seen = lived(
        [wish(runs_s=10.0, outputs=6, infrastructure_attempts=1)],
        then={10.0 + tenth / 4: take_away for tenth in range(200)},
    )
    assert seen.workload().state is not W.SUCCEEDED or len(seen.machines()) > 1


def test_fault_ART_05() -> None:
    """The outputs of each attempt have an address of their own; the first one's is never the result's."""
    seen = lived([wish(outputs=1, runs_s=10.0)], when={"preempted": at(0)})
    assert seen.workload().state is W.SUCCEEDED
    kept = [place for place in seen.world.kept.objects if "/outputs/" in place]
    assert kept == [f"{TENANT}/{seen.workload().id}/2/outputs/out0"]


@not_built("a run of fifty thousand files within the time of the suite")
def test_fault_ART_06() -> None: ...


@BUCKET
def test_fault_ART_08() -> None: ...


@BUCKET
def test_fault_ART_09() -> None: ...


@BUCKET
def test_fault_ART_11() -> None: ...


def test_fault_ART_13() -> None:
    """There is no room for the outputs for ten minutes: they wait where they are, and nothing is done again."""

    def full(world: World) -> None:
        world.kept._full_s = (0.0, 600.0)

    seen = lived([wish(outputs=1)], before=full, faults_s=900.0)
    assert (seen.workload().state, seen.starts(), len(seen.machines())) == (W.SUCCEEDED, 1, 1)
    assert (seen.workload().finished_ms or 0) - seen.workload().created_ms > 590_000
    # What breaks off is told as computed and not delivered; it is its owner's to deliver again, and nothing is rerun.
    broken = lived([wish(outputs=1)], when={"upload_cut": first(2)})
    assert (broken.workload().compute_done, broken.starts()) == (True, 1)
    assert broken.workload().failure is not None
    assert broken.workload().failure.cause is Cause.DELIVERY


def test_fault_ART_14() -> None:
    seen = lived([wish(outputs=4, writes_outputs=False)])
    assert seen.workload().state is W.FAILED
    assert seen.workload().failure is not None
    assert seen.workload().failure.cause is Cause.OUTPUT_MISSING


async def test_fault_ART_15(tmp_path: Path) -> None:
    file = tmp_path / "o"
    file.write_bytes(b"x")
    found = FoundOutput(name="o", path="o", size_bytes=1, sha256=hashlib.sha256(b"x").hexdigest(), location=str(file))
    spec = process(outputs=(Output(name="o", path="o"), Output(name="needed", path="needed")))
    async with control_plane(tmp_path, scripted(Script(outputs=(found,), missing=("needed",)))) as plane:
        record = await plane.finished(await plane.submit(spec))
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.OUTPUT_MISSING
        assert [one.name for one in await plane.store.artifacts(record.workload.id)] == ["o"]
