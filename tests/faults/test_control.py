"""Faults of the control plane: crashes, two owners, clocks, a store that is busy or full, news in any order."""

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path

from placet.domain.allocations import Phase
from placet.domain.records import Expect, Transition
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.intake import Submission, Submitted
from placet.stages.tracking import track
from placet.testing.scripted import CARD, Script
from placet.testing.world.serving import World
from tests.support.faulty import always, at, dark, every, kill_servers, lived, wish, wishes
from tests.support.missing import not_built
from tests.support.values import ATTEMPT, NOW_MS, SEEN
from tests.support.worlds import TENANT, control_plane, process
from tests.support.worlds import always as scripted

W = WorkloadState


def test_fault_CTRL_01() -> None:
    seen = lived(
        [wish(runs_s=120.0)],
        when={"held_write": at(2, 3, 5)},
        sizes={"held_write": 180.0},
        workers=2,
        faults_s=900.0,
    )
    assert (len(seen.machines()), seen.starts(), seen.workload().state) == (1, 1, W.SUCCEEDED)


def test_fault_CTRL_02() -> None:
    seen = lived([wish(runs_s=20.0)], when={"pause": every(25)}, sizes={"pause": 90.0}, workers=2, slots=1)
    assert (len(seen.machines()), seen.workload().state) == (1, W.SUCCEEDED)


async def test_fault_CTRL_07(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(hold=True))) as plane:
        workload_id = await plane.submit()
        record = await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
        workload = record.workload
        once = Transition(
            expect=Expect(revision=workload.revision, state=workload.state, lease=workload.lease),
            workload=replace(workload, revision=workload.revision + 1, reason="recovered"),
        )
        written = await plane.store.apply([once, once])
        assert list(written) == [True, False]
        plane.provider.let_go(record.attempts[0].key)


def test_fault_CTRL_08() -> None:
    seen = lived(
        wishes(3),
        when={"clock_offset": always, "pause": every(40)},
        sizes={"pause": 60.0, "clock_offset": 600_000.0},
        workers=2,
    )
    assert seen.states == {W.SUCCEEDED}
    assert all(seen.starts(name) == 1 for name in seen.records)


def test_fault_CTRL_09() -> None:
    """The first server's clock is five minutes ahead: nobody takes over what it holds."""
    seen = lived([wish(runs_s=200.0)], when={"clock_offset": at(0)}, sizes={"clock_offset": 300_000.0}, workers=2)
    assert len(seen.machines()) == 1
    assert seen.workload().lease.epoch == 1


@not_built("runners that call the server over a network")
def test_fault_CTRL_10() -> None: ...


@not_built("a transaction-pooling proxy before PostgreSQL on the machine of the tests")
def test_fault_CTRL_12() -> None: ...


def test_fault_CTRL_13() -> None:
    seen = lived(when={"store_busy": lambda number: 6 <= number < 60})
    assert (seen.sent(), len(seen.machines()), seen.workload().state) == (1, 1, W.SUCCEEDED)
    assert all(attempt.handle is not None for attempt in seen.records["w0"].attempts)


async def test_fault_CTRL_14(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script())) as plane:

        async def submit(number: int) -> str:
            outcome = await plane.intake.submit(
                Submission(tenant=TENANT, spec=process(), key=f"k{number}", actor="test")
            )
            assert isinstance(outcome, Submitted)
            return outcome.workload.id

        async def poll() -> None:
            for _ in range(20):
                await plane.store.events("wl_" + "0" * 29, limit=10)

        ids = await asyncio.gather(*(submit(number) for number in range(50)), *(poll() for _ in range(50)))
        assert len({one for one in ids if one is not None}) == 50


def test_fault_CTRL_15() -> None:
    """There is no room for a minute: nobody is told of an acceptance that is not there (I1), then it goes on."""

    def full(world: World) -> None:
        world.disk._full_s = (0.0, 60.0)

    seen = lived(wishes(3, apart_s=10.0), before=full)
    assert seen.states == {W.SUCCEEDED}
    assert all(record.workload.created_ms - 1_800_000_000_000 >= 60_000 for record in seen.records.values())


@not_built("a disk of its own for the tests of the runner that may be filled up")
def test_fault_CTRL_16() -> None: ...


def test_fault_CTRL_19() -> None:
    """It dies three times around the end of the program."""
    seen = lived(
        [wish(runs_s=10.0, outputs=1)], then={second: kill_servers for second in (16.0, 18.0, 20.0, 25.0, 31.0)}
    )
    assert (seen.starts(), seen.workload().state) == (1, W.SUCCEEDED)


def test_fault_CTRL_20() -> None:
    seen = lived(wishes(3, runs_s=20.0), slots=1, then={15.0: kill_servers, 45.0: kill_servers})
    assert seen.states == {W.SUCCEEDED}


def test_fault_CTRL_22() -> None:
    seen = lived(
        wishes(20, runs_s=600.0),
        then={40.0 + 45 * number: kill_servers for number in range(10)},
        faults_s=900.0,
    )
    assert seen.sent() <= 20
    assert all(len(seen.machines(name)) == 1 for name in seen.records)
    assert all(machine.stop_asked_s is None for machine in seen.world.cloud.machines.values())


def test_fault_CTRL_23() -> None:
    seen = lived(
        wishes(5),
        when={"slow_boot": always},
        sizes={"slow_boot": 180.0},
        then={20.0: kill_servers, 60.0: kill_servers, 100.0: kill_servers},
    )
    assert all(len(seen.machines(name)) == 1 for name in seen.records)
    assert seen.states == {W.SUCCEEDED}


def test_fault_CTRL_24() -> None:
    """A new server cannot reach the provider when it takes over: what runs is left alone."""
    seen = lived([wish(runs_s=300.0)], before=dark(40.0, 200.0), then={50.0: kill_servers})
    (machine,) = seen.machines()
    assert machine.stop_asked_s is None
    assert (seen.starts(), seen.workload().state) == (1, W.SUCCEEDED)


def test_fault_CTRL_25() -> None:
    seen = lived([wish(runs_s=300.0)], when={"report_lost": always})
    assert (len(seen.machines()), seen.starts(), seen.workload().state) == (1, 1, W.SUCCEEDED)


@not_built("the age of the oldest waiting item in the answer about health")
def test_fault_CTRL_26() -> None: ...


def test_fault_CTRL_30() -> None:
    """Looks fail for some: only they are looked at later."""
    seen = lived(wishes(10, runs_s=60.0), when={"read_error": every(4)})
    assert seen.states == {W.SUCCEEDED}
    assert all(len(seen.machines(name)) == 1 for name in seen.records)


def test_fault_CTRL_31() -> None:
    runs = replace(ATTEMPT, state=AttemptState.RUNNING, started_ms=NOW_MS)
    done = replace(
        SEEN, phase=Phase.ENDED, exit_code=0, computed=True, collected=True, started_ms=NOW_MS, ended_ms=NOW_MS + 1
    )
    news = (SEEN, done, replace(SEEN, phase=Phase.PREPARING))
    states = set()
    for order in itertools.permutations(news):
        attempt = runs
        for one in order:
            attempt = track(attempt, one, CARD, actor="w", now_ms=NOW_MS).attempt
        states.add((attempt.state, attempt.exit_code, attempt.computed))
    assert len(states) == 1


async def test_fault_CTRL_32(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(hold=True))) as plane:
        old = await plane.submit(process(name="same"))
        await plane.intake.cancel(TENANT, old, "test")
        new = await plane.submit(process(name="same"))
        assert old != new
        await plane.until(new, lambda record: record.workload.state is W.RUNNING, "running")
        assert (await plane.finished(old)).workload.state is W.CANCELLED
        plane.provider.let_go((await plane.record(new)).attempts[0].key)
        assert (await plane.finished(new)).workload.state is W.SUCCEEDED
