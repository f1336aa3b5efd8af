"""What a program may try, and what holds it: the real supervisor, real processes, causes by proof."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.providers.local import Device
from placet.domain.allocations import Phase
from placet.domain.failures import Cause
from placet.runner.groups import STRAY_AGE_S, Groups
from placet.testing.conformance.provider import ended, in_phase, observe, released
from tests.support.local import LocalWorld, alive, launch_of, process_spec, resources, shell
from tests.support.missing import missing
from tests.support.waiting import wait_until

MB = 10**6
PYTHON = sys.executable
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], {})
    os._exit(0)
os.wait()
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    world = LocalWorld(folder=tmp_path / "local")
    yield world
    await world.close()


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    """Without control groups and without bubblewrap."""
    world = LocalWorld(folder=tmp_path / "local", options={"use_groups": False, "use_sandbox": False})
    yield world
    await world.close()


def need_group(kind: str, tmp_path: Path) -> None:
    groups = Groups(str(tmp_path))
    kinds = groups.kinds
    groups.close()
    if kind not in kinds:
        missing(f"this machine gives no control group for {kind}")


def own_score(pid: int | None) -> str:
    return Path(f"/proc/{pid or os.getpid()}/oom_score_adj").read_text()


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def own_groups(pid: int | None) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


async def test_a_fork_bomb_is_bounded_and_ends(world: LocalWorld, tmp_path: Path) -> None:
    need_group("pids", tmp_path)
    bomb = "b() { b | b & }; b; sleep 600"
    launch = launch_of(shell(bomb, resources=resources(processes=40)), "bomb", runtime_s=2)
    seen = await world.run(launch)
    assert seen.cause is Cause.TIMEOUT
    assert alive("PLACET_ATTEMPT_KEY=bomb") == []
    # The supervisor is as well as before.
    assert (await world.run(launch_of(process_spec("/bin/true"), "after"))).computed


async def test_out_of_memory_is_proven_by_the_kernel(world: LocalWorld, tmp_path: Path) -> None:
    need_group("memory", tmp_path)
    hog = "x = []\nwhile True: x.append(bytearray(8_000_000))"
    launch = launch_of(process_spec(PYTHON, "-c", hog, resources=resources(memory_bytes=64 * MB)), "hog")
    seen = await world.run(launch)
    assert seen.cause is Cause.OUT_OF_MEMORY
    assert int(dict(seen.evidence)["oom_kills"]) >= 1
    assert seen.signal == signal.SIGKILL
    assert seen.exit_code is None
    assert seen.usage.peak_memory_bytes is not None
    assert seen.usage.peak_memory_bytes <= 65 * MB


async def test_exit_code_137_is_no_proof_of_anything(world: LocalWorld) -> None:
    seen = await world.run(launch_of(shell("exit 137"), "code137"))
    assert seen.cause is Cause.EXIT_CODE
    assert seen.exit_code == 137
    assert seen.signal is None


async def test_a_kill_from_outside_is_called_so(world: LocalWorld) -> None:
    seen = await world.run(launch_of(shell("kill -9 $$"), "killed"))
    assert seen.cause is Cause.KILLED
    assert seen.signal == signal.SIGKILL
    assert seen.exit_code is None


async def test_another_signal_is_named(world: LocalWorld) -> None:
    seen = await world.run(launch_of(shell("kill -SEGV $$"), "segv"))
    assert seen.cause is Cause.SIGNAL
    assert seen.signal == signal.SIGSEGV
    assert "SIGSEGV" in seen.message


async def test_one_file_cannot_pass_the_disk_limit(world: LocalWorld) -> None:
    spec = shell("exec dd if=/dev/zero of=big bs=1M count=64", resources=resources(disk_bytes=4 * MB))
    seen = await world.run(launch_of(spec, "disk"))
    assert seen.cause is Cause.DISK_LIMIT
    assert world.path("disk", "work", "big").stat().st_size <= 4 * MB


async def test_many_files_cannot_pass_the_disk_limit_either(world: LocalWorld) -> None:
    script = "i=0; while :; do dd if=/dev/zero of=f$i bs=100k count=1 2>/dev/null; i=$((i+1)); done"
    seen = await world.run(launch_of(shell(script, resources=resources(disk_bytes=4 * MB)), "files"))
    assert seen.cause is Cause.DISK_LIMIT
    assert "4000000" in seen.message


@pytest.mark.parametrize(
    "script",
    [
        "head -c 64000000 /dev/zero > big; exit $?",  # the shell says 153 for its child
        "head -c 64000000 /dev/zero > big || exit 1",
        "trap '' XFSZ; head -c 64000000 /dev/zero > big",  # ignored: the write fails and head says 1
    ],
)
async def test_a_child_that_hits_the_disk_limit_is_no_fault_of_the_program(world: LocalWorld, script: str) -> None:
    seen = await world.run(launch_of(shell(script, resources=resources(disk_bytes=4 * MB)), "child"))
    assert (seen.cause, seen.signal) == (Cause.DISK_LIMIT, None)
    assert seen.exit_code
    assert "a file of 4000000 bytes" in seen.message


async def test_a_file_in_a_folder_of_the_users_is_cut_as_well(world: LocalWorld, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    spec = shell("head -c 64000000 /dev/zero > big || exit 1", resources=resources(disk_bytes=4 * MB))
    spec = replace(spec, runtime=replace(spec.runtime, working_directory=str(here)))
    seen = await world.run(launch_of(spec, "here"))
    assert (seen.cause, seen.exit_code) == (Cause.DISK_LIMIT, 1)
    assert (here / "big").stat().st_size == 4 * MB


async def test_many_files_of_a_program_that_fails_before_they_are_counted(world: LocalWorld) -> None:
    script = "for i in 1 2 3 4 5; do head -c 1000000 /dev/zero > f$i; done; exit 9"
    seen = await world.run(launch_of(shell(script, resources=resources(disk_bytes=4 * MB)), "quick"))
    assert (seen.cause, seen.exit_code) == (Cause.DISK_LIMIT, 9)
    assert seen.usage is not None
    assert seen.usage.disk_bytes is not None
    assert seen.usage.disk_bytes > 4 * MB


@pytest.mark.parametrize(
    "script",
    [
        "exit 153",
        "head -c 3900000 /dev/zero > big; exit 153",
    ],
)
async def test_the_exit_code_alone_proves_no_disk_limit(world: LocalWorld, script: str) -> None:
    seen = await world.run(launch_of(shell(script, resources=resources(disk_bytes=4 * MB)), "lies"))
    assert (seen.cause, seen.exit_code) == (Cause.EXIT_CODE, 153)


async def test_a_program_that_gets_over_its_disk_limit_succeeds(world: LocalWorld) -> None:
    script = "head -c 64000000 /dev/zero > big; exit 0"
    seen = await world.run(launch_of(shell(script, resources=resources(disk_bytes=4 * MB)), "over"))
    assert (seen.cause, seen.exit_code) == (None, 0)


async def test_a_daemon_dies_with_its_main_process(world: LocalWorld, tmp_path: Path) -> None:
    need_group("pids", tmp_path)  # it drops its mark, so that only a group still knows it
    mark = f"daemon-{os.getpid()}-grouped"
    seen = await world.run(launch_of(process_spec(PYTHON, "-c", DAEMON, mark), "daemon"))
    assert seen.computed
    assert alive(mark) == []
    assert int(dict(seen.evidence)["left_alive"]) >= 1


async def test_a_daemon_that_keeps_its_mark_dies_without_groups_too(bare: LocalWorld) -> None:
    mark = f"daemon-{os.getpid()}-bare"
    keeping = DAEMON.replace("os.environ.clear()", "pass").replace("sys.argv[1]], {})", "sys.argv[1]], os.environ)")
    seen = await bare.run(launch_of(process_spec(PYTHON, "-c", keeping, mark), "daemon"))
    assert seen.computed
    assert alive(mark) == []


@pytest.mark.parametrize("grouped", [True, False])
async def test_ignoring_sigterm_helps_for_the_grace_time_only(tmp_path: Path, grouped: bool) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"use_groups": grouped})
    try:
        provider = await world.provider()
        stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
        handle = await provider.submit(launch_of(shell(stubborn), "stubborn"))
        await in_phase(provider, handle, Phase.RUNNING)
        wait_until(lambda: world.path("stubborn", "logs", "stdout").exists(), 10, "the trap to be set")
        await provider.cancel(handle, 0.3)
        assert (await observe(provider, handle)).phase is Phase.STOPPING
        seen = await ended(provider, handle)
        assert seen.cause is Cause.STOPPED
        assert seen.signal == signal.SIGKILL
        assert alive("PLACET_ATTEMPT_KEY=stubborn") == []
    finally:
        await world.close()


async def test_a_program_may_end_well_within_the_grace_time(world: LocalWorld) -> None:
    provider = await world.provider()
    polite = "trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    handle = await provider.submit(launch_of(shell(polite), "polite"))
    await in_phase(provider, handle, Phase.RUNNING)
    wait_until(lambda: world.path("polite", "logs", "stdout").exists(), 10, "the trap to be set")
    await provider.cancel(handle, 20)
    seen = await ended(provider, handle)
    assert seen.cause is Cause.STOPPED
    assert seen.exit_code == 7
    assert seen.signal is None
    assert world.path("polite", "logs", "stdout").read_text() == "ready\nsaved\n"


async def test_running_too_long_is_its_own_cause(world: LocalWorld) -> None:
    seen = await world.run(launch_of(process_spec("/bin/sleep", "600"), "long", runtime_s=0.3))
    assert seen.cause is Cause.TIMEOUT
    assert seen.signal == signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/no/such/program",), "ENOENT"),
        (("/etc/passwd",), "EACCES"),
        (("no-such-program-on-the-path",), "ENOENT"),
    ],
)
async def test_what_cannot_begin_says_why(world: LocalWorld, command: tuple[str, ...], name: str) -> None:
    seen = await world.run(launch_of(process_spec(*command), "absent"))
    assert seen.cause is Cause.START_FAILED
    assert dict(seen.evidence)["start_errno"] == name
    assert dict(seen.evidence)["start_step"] == "exec"
    assert dict(seen.evidence)["ran"] == "no"
    assert seen.started_ms is None
    assert seen.exit_code is None


async def test_the_environment_is_built_from_nothing(world: LocalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_OF_THE_SERVER", "must-not-be-seen")
    spec = process_spec("/usr/bin/env", environment=(("OWN", "value"),))
    await world.run(launch_of(spec, "env"))
    lines = dict(line.split("=", 1) for line in world.path("env", "logs", "stdout").read_text().splitlines())
    assert "CANARY_OF_THE_SERVER" not in lines
    assert lines["OWN"] == "value"
    assert lines["LANG"] == "C.UTF-8"
    assert lines["CUDA_VISIBLE_DEVICES"] == ""
    assert lines["HOME"] == str(world.path("env", "work"))
    assert lines["PLACET_ATTEMPT"] == "1"
    assert {"PLACET_WORKLOAD_ID", "PLACET_INPUTS", "PLACET_OUTPUTS", "PLACET_CHECKPOINTS", "TMPDIR"} <= set(lines)


async def test_folders_are_private_and_nothing_is_left_open(world: LocalWorld) -> None:
    script = "umask; ls /proc/self/fd | wc -l; readlink /proc/self/fd/0"
    await world.run(launch_of(shell(script), "private"))
    assert world.path("private", "logs", "stdout").read_text().split()[::2] == ["0077", "/dev/null"]
    # Three streams and the folder that ls itself reads.
    assert world.path("private", "logs", "stdout").read_text().split()[1] == "4"
    for parts in ((), ("work",)):
        assert world.path("private", *parts).stat().st_mode & 0o777 == 0o700
    assert (world.folder / "supervisor" / "sock").stat().st_mode & 0o777 == 0o600


async def test_devices_are_assigned_and_never_shared(tmp_path: Path) -> None:
    devices = tuple(Device(index=index, id=f"GPU-{index}", model="T9", memory_bytes=24 * 10**9) for index in range(3))
    world = LocalWorld(folder=tmp_path / "local", options={"devices": devices})
    try:
        provider = await world.provider()
        offer = next(offer for offer in provider.offers() if offer.gpu is not None)
        assert offer.id == "local-gpu-t9"
        assert offer.gpu is not None
        assert offer.gpu.count == 3
        assert offer.free.gpus == 3
        script = "echo $CUDA_VISIBLE_DEVICES; sleep 600"
        needs = resources(gpu_count=2)
        first = await provider.submit(launch_of(shell(script, resources=needs), "gpus"))
        await in_phase(provider, first, Phase.RUNNING)
        wait_until(lambda: world.path("gpus", "logs", "stdout").exists(), 10, "the names of the devices")
        assert world.path("gpus", "logs", "stdout").read_text() == "GPU-0,GPU-1\n"
        from placet.domain.errors import NoCapacity

        with pytest.raises(NoCapacity):
            await provider.submit(launch_of(shell(script, resources=needs), "more"))
        await provider.cancel(first, 0)
        await ended(provider, first)
        assert (await world.run(launch_of(shell("exit 0", resources=needs), "more"))).computed
    finally:
        await world.close()


NVIDIA_SMI = """#!/bin/sh
echo "0, GPU-0, 9000"
echo "1, GPU-1, $(cat {folder}/used)"
echo "2, GPU-2, [N/A]"
echo asked >> {folder}/asked
"""


async def test_the_peak_of_gpu_memory_is_that_of_the_fullest_of_its_devices(tmp_path: Path) -> None:
    tool, used, asked = (tmp_path / name for name in ("nvidia-smi", "used", "asked"))
    tool.write_text(NVIDIA_SMI.format(folder=tmp_path))
    tool.chmod(0o755)
    used.write_text("20000")
    devices = tuple(Device(index=index, id=f"GPU-{index}", model="T9", memory_bytes=24 * 10**9) for index in range(3))
    path = f"{tmp_path}:{os.environ['PATH']}"
    world = LocalWorld(folder=tmp_path / "local", options={"devices": devices, "path": path})
    try:
        provider = await world.provider()
        script = shell("sleep 600", resources=resources(gpu_count=2))
        two = await provider.submit(launch_of(script, "two"))
        odd = await provider.submit(launch_of(shell("sleep 600", resources=resources(gpu_count=1)), "odd"))
        await in_phase(provider, two, Phase.RUNNING)
        await in_phase(provider, odd, Phase.RUNNING)
        wait_until(lambda: content(asked).count(b"asked") >= 1, 10, "the devices to be asked")
        used.write_text("500")
        # One that is asked again has taken in the answer before.
        wait_until(lambda: content(asked).count(b"asked") >= 2, 10, "the devices to be asked again")
        await provider.cancel(two, 0)
        await provider.cancel(odd, 0)
        assert (await ended(provider, two)).usage.gpu_peak_bytes == 20000 * 2**20
        # Its device does not say: that is not nothing used.
        assert (await ended(provider, odd)).usage.gpu_peak_bytes is None
    finally:
        await world.close()


async def test_release_deletes_everything(world: LocalWorld) -> None:
    provider = await world.provider()
    spec = shell("mkdir -p a/b; for i in 1 2 3; do echo x > a/b/$i; done; ln -s / a/root")
    handle = await provider.submit(launch_of(spec, "deleted"))
    await ended(provider, handle)
    await released(provider, handle)
    assert not world.path("deleted").exists()
    wait_until(lambda: not os.listdir(world.folder / "supervisor" / "trash"), 10, "the trash to be emptied")
    wait_until(lambda: os.path.exists("/etc/passwd"), 1, "what the link led to")


async def test_a_released_folder_is_used_again_and_holds_nothing_old(world: LocalWorld) -> None:
    provider = await world.provider()
    first = await provider.submit(launch_of(shell("echo first line of the first"), "first"))
    await ended(provider, first)
    inode = world.path("first").stat().st_ino
    await released(provider, first)
    seen = await world.run(launch_of(shell("echo second"), "second"))
    assert world.path("second").stat().st_ino == inode
    assert world.path("second", "logs", "stdout").read_text() == "second\n"
    assert seen.logs[0].bytes_total == 7
    assert os.listdir(world.path("second", "work")) == []


@pytest.mark.parametrize("limits", [{}, {"disk_bytes": 10 * MB}])
async def test_a_program_starts_with_clean_signals_and_limits(world: LocalWorld, limits: dict[str, int]) -> None:
    spec = shell(
        "grep -E 'SigIgn|SigBlk' /proc/self/status; ulimit -c; cat /proc/self/oom_score_adj",
        resources=resources(**limits),
    )
    await world.run(launch_of(spec, "clean"))
    said = world.path("clean", "logs", "stdout").read_text().split()
    # Two signals of the C library's own are ignored in everything that its posix_spawn starts.
    assert int(said[3], 16) & ~0x180000000 == 0
    assert said[:3] + said[4:] == ["SigBlk:", "0" * 16, "SigIgn:", "0", "500"]


async def test_the_supervisor_is_in_no_group_of_an_attempt(world: LocalWorld) -> None:
    for number in range(3):
        await world.run(launch_of(process_spec("/bin/true"), f"true-{number}"))
    pid = world.supervisor_pid()
    assert "placet-" not in own_groups(pid)
    assert own_score(pid) == own_score(None)


@pytest.mark.parametrize("limits", [{}, {"disk_bytes": 10 * MB}])
async def test_a_program_is_born_inside_its_group(world: LocalWorld, tmp_path: Path, limits: dict[str, int]) -> None:
    need_group("kill", tmp_path)
    await world.run(launch_of(shell("cat /proc/self/cgroup", resources=resources(**limits)), "born"))
    lines = world.path("born", "logs", "stdout").read_text().splitlines()
    assert any(line.startswith("0::") and "placet-" in line for line in lines)


async def test_secrets_are_not_written_to_disk(world: LocalWorld) -> None:
    spec = shell("echo $TOKEN | wc -c; sleep 600", environment=(("TOKEN", "canary-secret-value"),))
    provider = await world.provider()
    handle = await provider.submit(launch_of(spec, "secret"))
    await in_phase(provider, handle, Phase.RUNNING)
    wait_until(lambda: world.path("secret", "logs", "stdout").exists(), 10, "the first line")
    assert world.path("secret", "logs", "stdout").read_text() == "20\n"
    await provider.cancel(handle, 0)
    await ended(provider, handle)
    for folder, _, names in os.walk(world.folder):
        for name in names:
            path = Path(folder, name)
            assert b"canary-secret-value" not in content(path)


async def test_a_full_disk_delays_the_record_and_loses_nothing(world: LocalWorld) -> None:
    provider = await world.provider()
    handle = await provider.submit(launch_of(shell("mkfifo f; read x < f; exit 4"), "full"))
    await in_phase(provider, handle, Phase.RUNNING)
    fifo = world.path("full", "work", "f")
    wait_until(fifo.exists, 10, "the pipe")
    # A folder in the place of the new record: it cannot be written, as on a full disk.
    obstacle = world.path("full", "exit.json.new")
    obstacle.mkdir()
    fifo.write_text("go on\n")
    await in_phase(provider, handle, Phase.COLLECTING)
    assert (await observe(provider, handle)).exit_code is None
    obstacle.rmdir()
    seen = await ended(provider, handle)
    assert seen.exit_code == 4
    assert "record_delayed_by" in dict(seen.evidence)
    assert (await world.run(launch_of(process_spec("/bin/true"), "after"))).computed


async def test_a_program_that_fills_the_disk_still_has_its_end(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("only root may mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)], check=True)  # noqa: ASYNC221 - short
    world = LocalWorld(folder=disk / "local")
    try:
        seen = await world.run(launch_of(shell("cat /dev/zero > big; exit 3"), "greedy"))
        assert (seen.cause, seen.exit_code) == (Cause.EXIT_CODE, 3)
        # What it complained of had no room either, and that is told.
        assert next(seal.bytes_total for seal in seen.logs if seal.stream == "stderr") > 0
    finally:
        await world.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: ASYNC221 - short


def make_groups_old() -> None:
    """As if no group had been made or removed for a long time; on some kernels their folders always look so."""
    moment = time.time() - STRAY_AGE_S - 60
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if "cgroup" in line:
            for place in Path(line.split()[4]).glob("placet-*"):
                os.utime(place, (moment, moment))


async def test_groups_outlive_the_start_of_another_supervisor(world: LocalWorld, tmp_path: Path) -> None:
    """Between attempts a folder of groups is empty; whoever tidies up must see that its maker lives."""
    need_group("cpu", tmp_path)
    limited = resources(cpu_cores=Decimal(1))
    assert (await world.run(launch_of(shell("true", resources=limited), "before"))).computed
    make_groups_old()
    other = Groups(str(tmp_path))
    other.remove_strays()
    other.close()
    assert (await world.run(launch_of(shell("true", resources=limited), "after"))).computed
