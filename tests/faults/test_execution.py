"""Faults of running: machines taken away, programs begun twice, exit codes that lie, limits that nobody keeps."""

from dataclasses import replace
from pathlib import Path

from placet.domain.allocations import PermitRequest, Phase
from placet.domain.failures import Cause, Failure
from placet.domain.spec import Constraints, Output, Repeat
from placet.domain.states import AttemptState, WorkloadState
from placet.stages.limits import exceeded
from placet.stages.tracking import track
from placet.testing.scripted import CARD, Script
from placet.testing.world.serving import World
from tests.support.faulty import at, dark, lived, wish
from tests.support.missing import not_built
from tests.support.values import ATTEMPT, NOW_MS, SEEN, SPEC
from tests.support.worlds import always as scripted
from tests.support.worlds import control_plane, process

W, A = WorkloadState, AttemptState
RUNS = replace(ATTEMPT, state=A.RUNNING, started_ms=NOW_MS)
ENDED = replace(
    SEEN, phase=Phase.ENDED, exit_code=0, computed=True, collected=True, started_ms=NOW_MS, ended_ms=NOW_MS + 1000
)


def test_fault_EXEC_01() -> None:
    seen = lived([wish(infrastructure_attempts=1)], when={"preempted": at(0)})
    (attempt,) = seen.records["w0"].attempts
    assert attempt.failure is not None
    assert (attempt.failure.cause, attempt.exit_code) == (Cause.PREEMPTED, None)
    assert "preempted" in attempt.failure.message


@not_built("a provider that tries again by itself and keeps what went before")
def test_fault_EXEC_03() -> None: ...


def test_fault_EXEC_04() -> None:
    """What may run once is not placed where programs are begun again; what may run again is, and runs one at a time."""
    refused = lived([wish(repeat=Repeat.AT_MOST_ONCE)], when={"restarted": at(0)}, card="restarting")
    assert (refused.records, refused.sent()) == ({}, 0)
    seen = lived([wish()], when={"restarted": at(0)}, card="restarting")
    assert (len(seen.machines()), seen.workload().state) == (1, W.SUCCEEDED)


@not_built("secrets")
def test_fault_EXEC_05() -> None: ...


def test_fault_EXEC_06() -> None:
    """Its card promises that nothing is begun again; it is begun again all the same, and refused."""
    asked: list[bool] = []

    def boots_again(world: World) -> None:
        (machine,) = world.cloud.machines.values()
        assert machine.code_s is not None
        request = PermitRequest(key=machine.key, tag=replace(machine.launch.tag, epoch=0))
        for listener in world.cloud.listeners:
            listener.permit_wanted(request)
        asked.append(machine.granted)

    seen = lived([wish(runs_s=60.0)], then={40.0: boots_again})
    assert asked == [True]
    assert seen.starts() == 1


async def test_fault_EXEC_07(tmp_path: Path) -> None:
    answers: list[bool] = []
    async with control_plane(tmp_path, scripted(Script())) as plane:
        provider = plane.provider
        real = provider.answer_permit

        async def answered(request: PermitRequest, granted: bool, reason: str) -> None:
            answers.append(granted)
            await real(request, granted, reason)

        provider.answer_permit = answered  # type: ignore[method-assign]  # heard beside
        record = await plane.finished(await plane.submit())
        (held,) = provider.allocations.values()
        plane.reconciler.hints().permit_wanted(PermitRequest(key=held.launch.key, tag=held.launch.tag))
        await plane.until(record.workload.id, lambda seen: seen.attempts[0].released_ms is not None, "released")
        assert provider.ran == [(record.workload.id, 1)]
        assert answers.count(True) == 1
        assert held.released


def test_fault_EXEC_09() -> None:
    seen = lived([wish(outputs=1, writes_outputs=False, attempts=1)])
    assert seen.workload().state is W.FAILED
    assert seen.workload().failure is not None
    assert seen.workload().failure.cause is Cause.OUTPUT_MISSING


def test_fault_EXEC_10() -> None:
    """It was killed for its memory, and forgotten before anybody looked: news of it is enough; without, it is lost."""
    told = replace(ENDED, cause=Cause.OUT_OF_MEMORY, exit_code=137, computed=False)
    ended = track(RUNS, told, CARD, actor="w", now_ms=NOW_MS).attempt
    assert ended.failure is not None
    assert ended.failure.cause is Cause.OUT_OF_MEMORY
    seen = lived([wish(infrastructure_attempts=1)], when={"vanished": at(0), "report_lost": lambda number: number > 1})
    assert seen.workload().failure is not None
    assert seen.workload().failure.cause is Cause.LOST


def test_fault_EXEC_12() -> None:
    killed = replace(ENDED, cause=Cause.SIGNAL, exit_code=None, signal=9, computed=False)
    ended = track(RUNS, killed, CARD, actor="w", now_ms=NOW_MS).attempt
    assert (ended.signal, ended.exit_code) == (9, None)
    by_code = replace(ENDED, cause=Cause.EXIT_CODE, exit_code=137, computed=False)
    failure = track(RUNS, by_code, CARD, actor="w", now_ms=NOW_MS).attempt.failure
    assert isinstance(failure, Failure)
    assert failure.cause is Cause.EXIT_CODE


def test_fault_EXEC_15() -> None:
    limited = replace(SPEC, constraints=Constraints(runtime_s=SPEC.stop_grace_s))
    long_after = NOW_MS + 10 * int(SPEC.stop_grace_s * 1000)
    found = exceeded(RUNS, limited, RUNS.cost_usd, long_after)
    assert found is not None
    assert found.cause is Cause.TIMEOUT
    assert "control plane" in found.message


def test_fault_EXEC_16() -> None:
    """First it failed, then the same name runs again: what ended stays as it ended."""
    failed = track(
        RUNS, replace(ENDED, cause=Cause.EXIT_CODE, exit_code=1, computed=False), CARD, actor="w", now_ms=NOW_MS
    ).attempt
    again = track(failed, replace(SEEN, incarnation="2"), CARD, actor="w", now_ms=NOW_MS)
    assert again.attempt == failed


async def test_fault_EXEC_18(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script())) as plane:
        record = await plane.finished(await plane.submit())
        plane.provider.card = replace(plane.provider.card, visibility_s=60.0)
        plane.reconciler.hints().capacity()
        plane.reconciler.touched(record.workload.id)
        second = await plane.submit()
        await plane.finished(second)
        assert plane.provider.ran == [(record.workload.id, 1), (second, 1)]


def test_fault_EXEC_19() -> None:
    seen = lived([wish(runs_s=2000.0, repeat=Repeat.AT_MOST_ONCE)], before=dark(60.0, 3000.0), faults_s=3600.0)
    assert (seen.sent(), seen.starts(), seen.workload().state) == (1, 1, W.SUCCEEDED)


async def test_fault_EXEC_20(tmp_path: Path) -> None:
    """The provider makes what was done once more: it is refused its permit, and found and deleted."""
    async with control_plane(tmp_path, scripted(Script())) as plane:
        record = await plane.finished(await plane.submit())
        await plane.until(record.workload.id, lambda seen: seen.attempts[0].released_ms is not None, "released")
        (key,) = plane.provider.allocations
        held = plane.provider.allocations.pop(key)
        await plane.provider.submit(held.launch)
        second = await plane.submit()
        await plane.finished(second)
        assert plane.provider.ran == [(record.workload.id, 1), (second, 1)]


async def test_fault_EXEC_22(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(hold=True))) as plane:
        workload_id = await plane.submit(process(outputs=(Output(name="o", path="o", required=False),)))
        await plane.until(workload_id, lambda record: record.workload.state is W.RUNNING, "running")
        (key,) = plane.provider.allocations
        plane.provider.let_go(key)
        del plane.provider.allocations[key]
        assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
