"""The life of the supervisor process: one per data folder, detached, listening, gone when nobody needs it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
import traceback

from placet.runner.records import Layout
from placet.runner.recovery import recover
from placet.runner.verbs import Desk
from placet.runner.wire import Connection, listen
from placet.runner.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

IDLE_EXIT_S = 600.0
CHECK_S = 5.0
STRAYS_S = 2.0
PRUNE_AGAIN_S = 3600.0
READY = b"ready\n"
TAKEN = b"taken\n"


class Service:
    """Accepts controllers and decides when to leave."""

    def __init__(self, world: World, lock: int, idle_exit_s: float) -> None:
        self._world = world
        self._lock = lock
        self._idle_exit_s = idle_exit_s
        self._idle_since_s = time.monotonic()
        self.desk = Desk(world)
        self._listener: socket.socket | None = None
        self._told = False

    def open(self) -> None:
        """Recover, then listen."""
        recover(self._world, self.desk.keeper)
        self._listener = listen(self._world.layout.supervisor, "sock")
        self._world.loop.watch(self._listener.fileno(), self._accept)
        self._world.loop.after_turn(self._turn_ended)
        self._world.layout.keep_reserve()
        self._world.loop.later(min(CHECK_S, self._idle_exit_s), self._check)
        self._world.loop.later(STRAYS_S, self._world.groups.remove_strays)
        self._world.loop.later(PRUNE_AGAIN_S, self._prune)
        signal.signal(signal.SIGTERM, self._told_to_end)

    def run(self) -> None:
        """Serve until nobody needs it."""
        self._world.loop.run()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._world.layout.socket)
            self._listener.close()
        self._world.groups.close()

    def _told_to_end(self, number: int, frame: object) -> None:
        """The machine goes down, or somebody wants this process gone; the signal has woken the loop as well."""
        del number, frame
        self._told = True

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            channel, _ = self._listener.accept()
        except OSError:
            return
        connection = Connection(self._world.loop, channel, self.desk.request, self.desk.connections.remove)
        self.desk.connections.append(connection)

    def _turn_ended(self) -> None:
        if self._told:
            self._told = False
            self.desk.keeper.end_all("the supervisor was told to end", None)
        self.desk.flush()
        if self.desk.keeper.retiring and not self.desk.keeper.live_count:
            self._world.loop.stop()

    def _check(self) -> None:
        keeper = self.desk.keeper
        now_s = time.monotonic()
        self._world.layout.keep_reserve()
        if not self._holds_folder():
            # The data folder was deleted or replaced: nobody can reach us any more.
            keeper.end_all("the data folder was deleted", 0.0)
        if self.desk.connections or keeper.live_count or keeper.environments.busy:
            self._idle_since_s = now_s
        elif now_s - self._idle_since_s >= self._idle_exit_s:
            self._world.loop.stop()
        self._world.loop.later(min(CHECK_S, self._idle_exit_s), self._check)

    def _prune(self) -> None:
        self.desk.keeper.prune_checkpoints()
        self._world.loop.later(PRUNE_AGAIN_S, self._prune)

    def _holds_folder(self) -> bool:
        try:
            named = os.stat(self._world.layout.lock)
        except OSError:
            return False
        held = os.fstat(self._lock)
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def main(arguments: list[str] | None = None) -> int:
    """Start detached, unless another supervisor has the folder; say on standard output which of the two it is."""
    given = _options(sys.argv[1:] if arguments is None else arguments)
    layout = Layout(os.path.realpath(given["--data"]))
    os.umask(0o077)
    layout.create()
    answer = os.dup(1)
    os.set_inheritable(answer, False)
    if not _detach(layout):
        return 0
    lock = _take_lock(layout)
    if lock is None:
        os.write(answer, TAKEN)
        return 0
    try:
        world = World(layout, "--no-groups" not in given, "--no-sandbox" not in given)
        service = Service(world, lock, float(given.get("--idle-exit-s", IDLE_EXIT_S)))
        service.open()
        # Whoever started us may be gone already.
        with contextlib.suppress(OSError):
            os.write(answer, READY)
        os.close(answer)
        service.run()
    except BaseException:
        _log(traceback.format_exc())
        raise
    return 0


def _options(arguments: list[str]) -> dict[str, str]:
    """``--name=value`` and ``--name``: ``--data=FOLDER``, ``--idle-exit-s=SECONDS``, ``--no-groups``, ``--no-sandbox``.

    A parser from the library would cost every fork the memory it takes.
    """
    given = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        given[name] = value
    if not given.get("--data"):
        raise SystemExit("usage: supervisor.py --data=FOLDER [--idle-exit-s=SECONDS] [--no-groups] [--no-sandbox]")
    return given


def _detach(layout: Layout) -> bool:
    """Become a session of its own that no terminal and no parent can take down; true in the process that lives on."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    # What our starter ignored, as a shell does for what it runs in the background, is not for programs to inherit.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)
    return True


def _take_lock(layout: Layout) -> int | None:
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode("ascii"))
    return lock


def _log(text: str) -> None:
    os.write(2, text.encode("utf-8", "replace"))
