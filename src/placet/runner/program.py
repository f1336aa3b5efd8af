"""Turns a prepared attempt into the command line, environment and bounds of its program. It starts nothing."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

from placet.runner import sandbox
from placet.runner.processes import MARKER, threads_of_user
from placet.runner.spawn import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from placet.runner.attempt import Attempt
    from placet.runner.world import World

INNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inner.py")
PRIVATE_TMP = sandbox.PRIVATE_TMP


def make_folders(world: World, attempt: Attempt) -> None:
    """The folders a program is promised."""
    for name in attempt.folders:
        # A spare folder has its work folder already, empty.
        with contextlib.suppress(FileExistsError):
            os.mkdir(attempt.path(name), 0o700)
    if attempt.launch.checkpoints:
        os.makedirs(checkpoints(world, attempt), mode=0o700, exist_ok=True)
        os.utime(checkpoints(world, attempt))


def checkpoints(world: World, attempt: Attempt) -> str:
    """Shared by the attempts of a workload that says it resumes; else the work folder."""
    if attempt.launch.checkpoints:
        return world.layout.checkpoints + "/" + attempt.launch.workload_id
    return attempt.path("work")


def _place(attempt: Attempt, name: str) -> str:
    """One of its folders; the work folder stands in for those that a plain attempt does not have."""
    return attempt.path(name if name in attempt.folders else "work")


def describe(world: World, attempt: Attempt, stdout: int, stderr: int, interpreter: str) -> Program:
    """The program to start; ``interpreter`` is the python of the prepared environment, or empty."""
    launch = attempt.launch
    cwd = launch.workdir or attempt.path("work")
    argv = list(launch.command)
    if launch.python is not None:
        script = launch.python.script or attempt.path("script.py")
        argv = [interpreter, script, *launch.python.args]
    env = _environment(world, attempt)
    if attempt.sandboxed and world.bubblewrap is not None:
        argv = _sandboxed(world, attempt, cwd, argv, interpreter)
    program = Program(argv, env, cwd if not attempt.sandboxed else attempt.folder, stdout, stderr)
    program.limits = _limits(world, attempt)
    return program


def _environment(world: World, attempt: Attempt) -> dict[str, str]:
    launch = attempt.launch
    inside = attempt.sandboxed
    devices = world.capacity.devices_of(attempt.key)
    visible = ",".join(device.id for device in devices)
    env = {
        "PATH": world.settings.path,
        "HOME": attempt.path("work"),
        "TMPDIR": PRIVATE_TMP if inside else _place(attempt, "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible or "none",
        "PLACET_WORKLOAD_ID": launch.workload_id,
        "PLACET_ATTEMPT": str(launch.epoch),
        "PLACET_INPUTS": "/inputs" if inside else _place(attempt, "inputs"),
        "PLACET_OUTPUTS": "/outputs" if inside else _place(attempt, "outputs"),
        "PLACET_CHECKPOINTS": checkpoints(world, attempt),
    }
    env.update(launch.env)
    env[MARKER] = attempt.key
    return env


def _sandboxed(world: World, attempt: Attempt, cwd: str, argv: list[str], interpreter: str) -> list[str]:
    hidden = _hidden(world, attempt)
    view = sandbox.Sandbox(cwd, attempt.path("tmp"), attempt.path("outputs"), hidden)
    work = attempt.path("work")
    view.writable = [work, checkpoints(world, attempt)]
    view.readable = [os.path.dirname(INNER), os.path.realpath(sys.executable), sys.base_prefix]
    if interpreter:
        view.readable.append(os.path.dirname(os.path.dirname(interpreter)))
    if attempt.launch.python is not None:
        # The script's own folder holds what it imports; an inline script stands beside the work folder.
        script = attempt.launch.python.script
        view.readable.append(os.path.dirname(script) if script else attempt.path("script.py"))
    view.readable = [path for path in view.readable if sandbox.is_within(path, [PRIVATE_TMP, *hidden])]
    # Files that the command line names are seen though the private folder stands where they are.
    view.readable += [word for word in attempt.launch.command if _is_named_file(word, hidden)]
    if cwd != work:
        view.writable.append(cwd)
    for item in attempt.launch.inputs:
        source = item.source if item.kind == "path" else attempt.path("inputs", item.name)
        view.inputs.append((item.name, os.path.realpath(source)))
    inner = [os.path.realpath(sys.executable), "-I", "-S", INNER, "{channel}"]
    return sandbox.command_line(world.bubblewrap or "", view, argv, inner)


def _hidden(world: World, attempt: Attempt) -> list[str]:
    """Our own folder, and those of the servers: their tokens, databases and sockets."""
    named = [os.path.realpath(path) for path in (world.layout.data, *attempt.launch.hidden)]
    return [path for path in dict.fromkeys(named) if path != "/" and os.path.isdir(path)]


def _is_named_file(word: str, hidden: list[str]) -> bool:
    """A file in the shared temporary folder, and not one of ours: naming it must not open the data folder."""
    shared = word.startswith(PRIVATE_TMP + "/") and os.path.isfile(os.path.realpath(word))
    return shared and not sandbox.is_within(word, hidden)


def _limits(world: World, attempt: Attempt) -> list[tuple[int, int]]:
    """Bounds by rlimit: those for which no control group stands in."""
    limits: list[tuple[int, int]] = []
    bounds = attempt.launch.limits
    if bounds.disk_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, bounds.disk_bytes))
    if bounds.memory_bytes is not None and "memory" not in world.groups.kinds:
        limits.append((resource.RLIMIT_AS, bounds.memory_bytes))
    if "pids" not in world.groups.kinds and os.getuid() != 0:
        # This limit counts everything of the user, wherever it was started.
        limits.append((resource.RLIMIT_NPROC, bounds.processes + threads_of_user()))
    return limits


def held_by(world: World, attempt: Attempt) -> list[str]:
    """Which mechanism holds each bound, for the evidence."""
    bounds = attempt.launch.limits
    kinds = world.groups.kinds
    words = ["kill:cgroup" if world.groups.usable else "kill:session+subreaper+marker"]
    words.append("processes:cgroup" if "pids" in kinds else "processes:rlimit" if os.getuid() else "processes:none")
    if bounds.memory_bytes is not None:
        words.append("memory:cgroup" if "memory" in kinds else "memory:rlimit_as")
    if bounds.cpu_cores is not None:
        words.append("cpu:cgroup" if "cpu" in kinds else "cpu:none")
    if bounds.disk_bytes is not None:
        words.append("disk:rlimit_fsize+scan")
    if attempt.launch.inputs or attempt.launch.outputs:
        words.append("paths:bubblewrap" if attempt.sandboxed else "paths:environment (inputs are not write-protected)")
    return words
