"""Cached Python environments: built once per set of pinned requirements, shared by every attempt that needs it.

An environment is built under a temporary name and renamed when it is complete, so a folder without the temporary
mark is whole. Its build log is one file; every waiting attempt sees it as its own ``install`` stream through a hard
link.
"""

from __future__ import annotations

import contextlib
import os

from placet.runner import causes, failpoints
from placet.runner.faults import said
from placet.runner.loop import signalled
from placet.runner.records import encode, remove_tree, wall_ms, write_record
from placet.runner.spawn import Program, fork_call
from placet.runner.streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any, Callable, Dict

    from placet.runner.attempt import Attempt
    from placet.runner.groups import Group
    from placet.runner.launch import Python
    from placet.runner.world import World

    Json = Dict[str, Any]
    # Called with the interpreter, or with an empty one and the reason.
    Answer = Callable[[str, str], None]

LOG_BYTES_MAX = 16 * 1024 * 1024
TAIL_BYTES = 4000
KEPT_DAYS = 30
# Words by which the tool says that it could not reach an index at all; evidence for a retry, not a cause by itself.
NETWORK_WORDS = (
    "failed to fetch",
    "error sending request",
    "dns error",
    "connection refused",
    "connection reset",
    "timed out",
    "network is unreachable",
    "temporary failure in name resolution",
)


class Build:
    """One environment in the making and the attempts that wait for it."""

    def __init__(self, folder: str, number: int, python: Python) -> None:
        self.folder = folder
        self.temporary = f"{folder}.building-{os.getpid()}-{number}"
        self.log = self.temporary + ".log"
        self.python = python
        self.waiting: dict[Attempt, Answer] = {}
        self.stream: Stream | None = None
        self.group: Group | None = None
        self.pid = 0
        self.report = -1
        self.steps: list[list[str]] = []
        self.over_time = False
        self.killed = False
        self.timer: Any = None


class Environments:
    """Gives out interpreters, building what is missing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._builds: dict[str, Build] = {}
        self._count = 0

    @property
    def busy(self) -> bool:
        """Whether something is being built."""
        return bool(self._builds)

    def need(self, attempt: Attempt, answer: Answer) -> None:
        """Call ``answer`` with the interpreter of the environment, now or when it is built."""
        python = attempt.launch.python
        settings = self._world.settings
        if python is None or (not settings.uv and not python.requirements):
            answer(settings.python, "" if settings.python else "no interpreter was configured")
            return
        if not settings.uv:
            answer("", "requirements need uv, which was not found")
            return
        try:
            self._need(attempt, python, answer)
        except OSError as error:
            answer("", f"cannot prepare an environment: {said(error)}")

    def _need(self, attempt: Attempt, python: Python, answer: Answer) -> None:
        folder = os.path.join(self._world.layout.environments, self._digest(python))
        interpreter = os.path.join(folder, "bin", "python")
        if folder not in self._builds and os.path.exists(os.path.join(folder, "ready.json")):
            os.utime(os.path.join(folder, "ready.json"))
            answer(interpreter, "")
            return
        build = self._builds.get(folder)
        if build is None:
            self._count += 1
            build = Build(folder, self._count, python)
            self._begin(build)
            self._builds[folder] = build
        build.waiting[attempt] = answer
        attempt.install = build.stream
        self._show_log(build, attempt)

    def leave(self, attempt: Attempt) -> None:
        """The attempt waits no more; a build that nobody waits for is ended."""
        for build in list(self._builds.values()):
            if build.waiting.pop(attempt, None) is None:
                continue
            self._seal(build, attempt)
            if not build.waiting:
                # Whoever comes now gets a build of its own and not the end of this one.
                self._builds.pop(build.folder, None)
                self._kill(build)

    def remove_unfinished(self) -> None:
        """Remove what an earlier supervisor did not finish, and what nobody used for a long time."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._world.layout.environments):
                path = os.path.join(self._world.layout.environments, name)
                if name.endswith(".log"):
                    os.unlink(path)
                elif ".building-" in name or _unused_days(path) > KEPT_DAYS:
                    remove_tree(path)

    def _digest(self, python: Python) -> str:
        import hashlib

        settings = self._world.settings
        recipe = [python.version or settings.python, list(python.requirements), settings.uv]
        return hashlib.sha256(encode(recipe)).hexdigest()[:32]

    def _begin(self, build: Build) -> None:
        world = self._world
        python = build.python
        os.makedirs(build.temporary, mode=0o700)
        requirements = os.path.join(build.temporary, "requirements.txt")
        with open(requirements, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in python.requirements))
        uv = world.settings.uv
        wanted = python.version or world.settings.python
        venv = os.path.join(build.temporary, "env")
        build.steps = [[uv, "venv", "--relocatable", "--no-project", "--no-config", "--python", wanted, venv]]
        if python.requirements:
            interpreter = os.path.join(venv, "bin", "python")
            build.steps.append([uv, "pip", "install", "--no-config", "--python", interpreter, "-r", requirements])
            if all("--hash=" in line for line in python.requirements):
                build.steps[-1].append("--require-hashes")
        build.stream = Stream(world.loop, causes.INSTALL, build.log, LOG_BYTES_MAX, lambda: None)
        with open(build.stream.path, "wb"):
            pass
        build.group = world.groups.acquire(None, None, 4096)
        build.timer = world.loop.later(world.settings.build_limit_s, lambda: self._over_time(build))
        self._step(build)

    def _step(self, build: Build) -> None:
        stream = build.stream
        if stream is None:
            return
        world = self._world
        end = stream.open()
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        env = {
            "PATH": world.settings.path,
            "HOME": build.temporary,
            "LANG": "C.UTF-8",
            "UV_CACHE_DIR": os.path.join(world.layout.cache, "uv"),
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_LINK_MODE": "hardlink",
            **world.settings.build_env,
        }
        program = Program(build.steps.pop(0), env, build.temporary, end, end)
        program.groups = build.group.join if build.group else ()
        program.report = write_end
        build.report = read_end
        try:
            build.pid = world.spawner.start(program)
        except OSError as error:
            failure = f"cannot start uv: {said(error)}"
            self._world.loop.later(0.0, lambda: self._finish(build, failure))
            return
        finally:
            os.close(end)
            os.close(write_end)
        world.loop.child(build.pid, lambda status, usage: self._step_ended(build, status, usage))

    def _step_ended(self, build: Build, status: int, usage: resource.struct_rusage) -> None:
        del usage
        build.pid = 0
        if build.group is not None:
            build.group.kill()
        with contextlib.suppress(OSError):
            failure = os.read(build.report, 64).decode("ascii", "replace")
            if failure:
                status = 127 << 8
        os.close(build.report)
        if build.stream is not None:
            build.stream.drain()
            build.stream.close()
        code, signal = signalled(status)
        if build.over_time:
            self._finish(build, f"took longer than {self._world.settings.build_limit_s:g} s")
        elif build.killed:
            self._finish(build, "nobody waited for it any more")
        elif code == 0 and build.steps:
            self._step(build)
        elif code == 0:
            self._finish(build, self._publish(build))
        else:
            how = f"exit code {code}" if code is not None else f"signal {signal}"
            self._finish(build, f"uv ended with {how}: {_tail(build.log)}")

    def _publish(self, build: Build) -> str:
        venv = os.path.join(build.temporary, "env")
        ready = {"requirements": list(build.python.requirements), "made_ms": wall_ms()}
        try:
            write_record(os.path.join(venv, "ready.json"), ready)
            if not os.path.exists(os.path.join(build.folder, "ready.json")):
                remove_tree(build.folder)
                failpoints.before("runner.environment")
                os.rename(venv, build.folder)
                failpoints.after("runner.environment")
        except OSError as error:
            return f"cannot keep the environment: {said(error)}"
        return ""

    def _finish(self, build: Build, failure: str) -> None:
        build.timer.cancel()
        if self._builds.get(build.folder) is build:
            del self._builds[build.folder]
        if build.group is not None and not build.group.members():
            self._world.groups.give_back(build.group)
        # A failed build may have left a large tree.
        with contextlib.suppress(OSError):
            pid = fork_call(lambda: remove_tree(build.temporary))
            self._world.loop.child(pid, lambda _status, _usage: None)
        for attempt, answer in list(build.waiting.items()):
            self._seal(build, attempt)
            answer("" if failure else os.path.join(build.folder, "bin", "python"), failure)
        with contextlib.suppress(OSError):
            os.unlink(build.log)

    def _show_log(self, build: Build, attempt: Attempt) -> None:
        path = attempt.path("logs", causes.INSTALL)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(OSError):
            os.link(build.log, path)

    def _seal(self, build: Build, attempt: Attempt) -> None:
        """For this attempt the log ends here."""
        attempt.install = None
        if build.stream is not None:
            attempt.logs[causes.INSTALL] = {**build.stream.account(), "sealed": True}

    def _over_time(self, build: Build) -> None:
        build.over_time = True
        self._kill(build)

    def _kill(self, build: Build) -> None:
        # From here on nothing of it may be published, however well its present step ends.
        build.killed = True
        if build.group is not None:
            build.group.kill()
        if build.pid:
            with contextlib.suppress(OSError):
                os.killpg(build.pid, 9)


def is_network_trouble(failure: str) -> bool:
    """Whether the tool said that it could not reach an index."""
    text = failure.lower()
    return any(word in text for word in NETWORK_WORDS)


def _tail(path: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()
    return ""


def _unused_days(path: str) -> float:
    try:
        return (wall_ms() / 1000 - os.stat(os.path.join(path, "ready.json")).st_mtime) / 86400
    except OSError:
        return 0.0
