"""Starts one program: fork, set up in the child, exec; a failure before the program begins is reported with its proof.

The child tells which step failed and why over a pipe that the exec closes; end of file on it without a word means
that the program has begun.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import stat
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

OOM_SCORE_ADJUSTMENT = b"500"
# Ignored by this process or by its Python, which a program would inherit.
IGNORED_HERE = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT)
STEPS = ("session", "groups", "limits", "folder", "streams", "exec")


class Program:
    """What to start and within which bounds. ``groups`` are open ``cgroup.procs`` descriptors."""

    __slots__ = ("argv", "cwd", "env", "groups", "kept", "limits", "report", "stderr", "stdout")

    def __init__(self, argv: Sequence[str], env: dict[str, str], cwd: str, stdout: int, stderr: int) -> None:
        self.argv = list(argv)
        self.env = env
        self.cwd = cwd
        self.stdout = stdout
        self.stderr = stderr
        self.groups: Sequence[int] = ()
        self.limits: list[tuple[int, int]] = []
        self.report = -1
        self.kept = -1


class Spawner:
    """Forks; what every child needs is prepared once."""

    def __init__(self) -> None:
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._files = (soft, hard)
        # The supervisor holds a handful of descriptors per attempt.
        self._own_files = (hard, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._own_files)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._places = _local_devices()
        self._score = _Score()
        # What exists now is not touched by collections any more, so forked children copy less of it.
        gc.collect()
        gc.freeze()

    def start(self, program: Program) -> int:
        """The pid of the new process. ``program.report`` is written to when it cannot begin. Raises ``OSError``."""
        self._score.lift()
        try:
            pid = os.fork()
            if pid == 0:
                self._become(program)
        finally:
            self._score.restore()
        return pid

    def find(self, program: Program) -> str | None:
        """The file that ``start_at_once`` would run, or ``None`` when it should not be used.

        It waits for the exec, so it is for files on the system's own disks: a dead network mount would stop the loop.
        """
        name = program.argv[0]
        folders = [""] if "/" in name else program.env.get("PATH", "").split(":")
        for folder in folders:
            path = folder + "/" + name if folder else os.path.join(program.cwd, name)
            try:
                facts = os.stat(path)
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o111:
                return path if facts.st_dev in self._places else None
        return None

    def start_at_once(self, program: Program, path: str) -> int:
        """The pid of the new process, which has begun: this process is not copied, its place is taken over.

        The caller has moved into the right groups. Raises ``OSError`` when the program cannot begin.
        """
        actions = [
            (os.POSIX_SPAWN_DUP2, source, target)
            for target, source in enumerate((self._null, program.stdout, program.stderr))
        ]
        try:
            os.chdir(program.cwd)
            self._score.lift()
            resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
            pid = os.posix_spawn(
                path, program.argv, program.env, file_actions=actions, setsid=True, setsigdef=IGNORED_HERE
            )
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._own_files)
            os.chdir("/")
            self._score.restore()
        return pid

    def _become(self, program: Program) -> None:
        step = 0
        try:
            gc.disable()
            os.setsid()
            step = 1
            for descriptor in program.groups:
                os.write(descriptor, b"0")
            step = 2
            resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
            for kind, bound in program.limits:
                resource.setrlimit(kind, _within(kind, bound))
            step = 3
            os.chdir(program.cwd)
            step = 4
            os.dup2(self._null, 0)
            os.dup2(program.stdout, 1)
            os.dup2(program.stderr, 2)
            if program.kept >= 0:
                os.set_inheritable(program.kept, True)
            step = 5
            for ignored in IGNORED_HERE:
                signal.signal(ignored, signal.SIG_DFL)
            os.execvpe(program.argv[0], program.argv, program.env)  # noqa: S606 - starting programs is the purpose
        except BaseException as error:  # noqa: BLE001 - nothing may leave a forked child but its exit
            number = error.errno if isinstance(error, OSError) and error.errno else 0
            os.write(program.report, f"E {number} {STEPS[step]}\n".encode("ascii"))
        finally:
            os._exit(127)


def fork_call(call: Callable[[], None]) -> int:
    """The pid of a forked child that makes the call and exits 0, or 1 after an exception. Raises ``OSError``."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            # Above all the lock and the socket: a child that outlives us must not hold them.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            call()
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may leave a forked child but its exit
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(status)
    return pid


class _Score:
    """How ready the kernel is to kill a process when the machine runs out of memory: programs first, this one last.

    What is started inherits the present score, so it is lifted for that moment only.
    """

    def __init__(self) -> None:
        self._file = -1
        try:
            self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own = os.read(self._file, 32).strip()
            if int(self._own) < int(OOM_SCORE_ADJUSTMENT):
                self.lift()
                self.restore()
                return
        except (OSError, ValueError):
            pass  # the score cannot be moved here: it stays as it is
        self._file = -1

    def lift(self) -> None:
        if self._file >= 0:
            os.pwrite(self._file, OOM_SCORE_ADJUSTMENT, 0)

    def restore(self) -> None:
        if self._file >= 0:
            os.pwrite(self._file, self._own, 0)


def _within(kind: int, bound: int) -> tuple[int, int]:
    hard: int | None = resource.getrlimit(kind)[1]
    if hard is not None and hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    return bound, bound


def _local_devices() -> set[int]:
    found = set()
    for place in ("/", "/usr", "/bin", "/opt", "/usr/local"):
        try:
            found.add(os.stat(place).st_dev)
        except OSError:
            continue
    return found
