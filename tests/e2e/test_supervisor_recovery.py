"""The supervisor is killed, its folder vanishes, nobody needs it any more: what is left, and what is said of it."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.domain.allocations import Launch, Phase
from placet.domain.errors import OutcomeUnknown, Unavailable
from placet.domain.failures import Cause
from placet.testing.conformance.provider import Listener, ended, in_phase, read
from placet.testing.conformance.waiting import eventually
from tests.support.local import LocalWorld, alive, launch_of, outputs, process_spec, shell
from tests.support.waiting import wait_until


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    world = LocalWorld(folder=tmp_path / "local")
    yield world
    await world.close()


@pytest.mark.parametrize("grouped", [True, False])
async def test_a_killed_supervisor_leaves_nothing_alive_and_the_right_cause(tmp_path: Path, grouped: bool) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"use_groups": grouped})
    try:
        listener = Listener()
        provider = await world.connect(listener)
        done = await provider.submit(launch_of(shell("echo result > out; echo said", outputs=outputs(o="out")), "done"))
        before = await ended(provider, done)
        handle = await provider.submit(launch_of(shell("echo begun; sleep 600 & sleep 600"), "lost"))
        await in_phase(provider, handle, Phase.RUNNING)
        wait_until(lambda: world.path("lost", "logs", "stdout").exists(), 10, "the first line")
        assert alive("PLACET_ATTEMPT_KEY=lost")
        first = world.kill_supervisor()

        # The connection comes back by itself, to a new supervisor, and says what became of everything.
        async def told() -> bool:
            return any(seen.key == "lost" and seen.cause is Cause.LOST for seen in listener.seen)

        await eventually(told, 20, "word of the loss")
        assert world.supervisor_pid() not in (None, first)
        assert alive("PLACET_ATTEMPT_KEY=lost") == []
        seen = await ended(provider, handle)
        assert dict(seen.evidence)["ran"] == "unknown"
        assert seen.exit_code is None
        assert not seen.computed
        assert b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0)) == b"begun\n"
        after = await ended(provider, done)
        assert (after.computed, after.outputs, after.logs) == (before.computed, before.outputs, before.logs)
        assert after.ended_ms == before.ended_ms
        assert after.incarnation == before.incarnation
    finally:
        await world.close()


async def test_what_never_had_its_permit_surely_did_not_run(world: LocalWorld) -> None:
    provider = await world.connect(Listener(grants=None))
    handle = await provider.submit(launch_of(process_spec("/bin/true"), "waiting"))
    await in_phase(provider, handle, Phase.AWAITING_PERMIT)
    world.kill_supervisor()
    seen = await ended(provider, handle)
    assert seen.cause is Cause.LOST
    assert dict(seen.evidence)["ran"] == "no"


async def test_an_exit_record_is_collected_by_the_next_supervisor(world: LocalWorld) -> None:
    provider = await world.provider()
    spec = shell("echo result > out; exit 0", outputs=outputs(result="out"))
    handle = await provider.submit(launch_of(spec, "collect"))
    await ended(provider, handle)
    await provider.close()
    world.kill_supervisor()
    # As if the kill had come between the exit record and the collection.
    world.path("collect", "outputs.json").unlink()
    again = await world.connect(Listener())
    seen = await ended(again, handle)
    assert seen.computed
    assert seen.collected
    assert [(found.name, found.size_bytes) for found in seen.outputs] == [("result", 7)]


async def test_half_written_records_are_as_none(world: LocalWorld) -> None:
    provider = await world.provider()
    handle = await provider.submit(launch_of(process_spec("/bin/true"), "torn"))
    await ended(provider, handle)
    await provider.close()
    world.kill_supervisor()
    exit_record = world.path("torn", "exit.json")
    exit_record.write_bytes(exit_record.read_bytes()[:40])
    half_launch = world.folder / "attempts" / "half"
    half_launch.mkdir()
    (half_launch / "launch.json").write_text('{"launch": {"key": "ha')
    again = await world.connect(Listener())
    assert (await ended(again, handle)).cause is Cause.LOST
    assert list(await again.find("half")) == []
    assert not half_launch.exists()


async def test_two_controllers_see_one_truth_and_one_supervisor(world: LocalWorld) -> None:
    first, second = await world.connect(Listener()), await world.connect(Listener())
    handle = await first.submit(launch_of(shell("exit 4"), "shared"))
    assert (await ended(second, handle)).exit_code == 4
    await first.close()
    assert [each.key async for each in second.owned("dep-under-test")] == ["shared"]


async def test_owned_comes_in_pages(world: LocalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.adapters.providers.local import provider as module

    monkeypatch.setattr(module, "PAGE", 3)
    provider = await world.connect(Listener(grants=None))
    keys = [f"page-{number}" for number in range(10)]
    for key in keys:
        await provider.submit(launch_of(process_spec("/bin/true"), key))
    assert [each.key async for each in provider.owned("dep-under-test")] == keys


async def test_the_supervisor_leaves_when_nobody_needs_it(tmp_path: Path) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"supervisor_idle_s": 0.2})
    provider = await world.provider()
    await ended(provider, await provider.submit(launch_of(process_spec("/bin/true"), "only")))
    pid = world.supervisor_pid()
    assert pid is not None
    await provider.close()
    wait_until(lambda: not world.is_supervisor(pid), 15, "the supervisor to leave")
    assert not (world.folder / "supervisor" / "sock").exists()
    # And the next connection finds what it left.
    again = await world.connect(Listener())
    assert [each.key async for each in again.owned("dep-under-test")] == ["only"]
    await world.close()


async def test_a_running_attempt_outlives_its_controller(world: LocalWorld) -> None:
    provider = await world.provider()
    handle = await provider.submit(launch_of(shell("mkfifo fifo; read line < fifo; exit 6"), "outlives"))
    await in_phase(provider, handle, Phase.RUNNING)
    await provider.close()
    again = await world.connect(Listener())
    await in_phase(again, handle, Phase.RUNNING)
    fifo = world.path("outlives", "work", "fifo")
    wait_until(fifo.exists, 10, "the pipe")
    fifo.write_text("go on\n")
    assert (await ended(again, handle)).exit_code == 6


async def test_deleting_the_data_folder_ends_everything(tmp_path: Path) -> None:
    world = LocalWorld(folder=tmp_path / "local")
    provider = await world.provider()
    handle = await provider.submit(launch_of(process_spec("/bin/sleep", "600"), "orphan"))
    await in_phase(provider, handle, Phase.RUNNING)
    pid = world.supervisor_pid()
    assert pid is not None
    await provider.close()
    shutil.rmtree(world.folder)
    wait_until(lambda: not world.is_supervisor(pid), 25, "the supervisor to leave")
    assert alive("PLACET_ATTEMPT_KEY=orphan") == []


async def test_records_are_on_disk_before_they_are_reported(world: LocalWorld) -> None:
    listener = Listener()
    provider = await world.connect(listener)
    handle = await provider.submit(launch_of(shell("exit 5"), "recorded"))
    await ended(provider, handle)
    record = json.loads(world.path("recorded", "exit.json").read_bytes())
    assert record["exit_code"] == 5
    assert record["cause"] == "exited"
    assert record["nonce"] == "nonce-of-recorded"
    assert record["logs"]["stdout"]["sealed"] is True
    assert os.listdir(world.path("recorded")).count("exit.json.new") == 0


@pytest.mark.parametrize("after_hints", [1, 5, 12, 20, 28])
async def test_killed_at_any_moment_nothing_runs_twice_and_nothing_is_forgotten(
    world: LocalWorld, tmp_path: Path, after_hints: int
) -> None:
    listener = Listener()
    provider = await world.connect(listener)
    (tmp_path / "traces").mkdir()
    script = "echo begun >> {}; sleep 0.05; echo ended >> {}"
    launches = []
    for number in range(15):
        trace = tmp_path / "traces" / str(number)
        launches.append(launch_of(shell(script.format(trace, trace)), f"any-{number}"))
    sending = [asyncio.ensure_future(provider.submit(launch)) for launch in launches]

    async def far_enough() -> bool:
        return len(listener.seen) + len(listener.asked) >= after_hints

    await eventually(far_enough, 20, "hints")
    world.kill_supervisor()
    answers = await asyncio.gather(*sending, return_exceptions=True)
    for launch, answer in zip(launches, answers, strict=True):
        assert not isinstance(answer, BaseException) or isinstance(answer, (OutcomeUnknown, Unavailable))

        async def known(launch: Launch = launch) -> bool:
            try:
                return bool(await provider.find(launch.key)) or bool(await provider.submit(launch))
            except (OutcomeUnknown, Unavailable):
                return False

        await eventually(known, 20, "the new supervisor")
        seen = await ended(provider, (await provider.find(launch.key))[0])
        trace = tmp_path / "traces" / launch.key.removeprefix("any-")
        words = lines_of(trace)
        assert words.count("begun") <= 1
        if seen.computed:
            assert words == ["begun", "ended"]
        else:
            assert seen.cause is Cause.LOST
            assert dict(seen.evidence)["ran"] != "no" or not words
    assert alive("PLACET_ATTEMPT_KEY=any-") == []


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_told_to_end_it_gives_grace_and_says_so(world: LocalWorld) -> None:
    provider = await world.connect(Listener())
    polite = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    handle = await provider.submit(launch_of(shell(polite), "told"))
    await in_phase(provider, handle, Phase.RUNNING)
    wait_until(lambda: world.path("told", "logs", "stdout").exists(), 10, "the trap to be set")
    pid = world.supervisor_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    seen = await ended(provider, handle)
    assert (seen.cause, seen.exit_code, seen.computed) == (Cause.LOST, 0, False)
    assert world.path("told", "logs", "stdout").read_text() == "ready\nsaved\n"
    wait_until(lambda: world.supervisor_pid() != pid, 10, "it to end")
