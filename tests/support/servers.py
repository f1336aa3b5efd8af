"""Real server processes that can be killed, stopped and restarted, and the marks that real programs leave."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from placet.sdk import places
from placet.sdk.client import Client
from placet.sdk.location import answers
from tests.support.local import state_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 30
AT_WORK_MOST_S = 0.9
STARTING_MOST_S = 0.4
STARTING_SHARE = 0.2
# Imports take longer than all the rest of a start: done once, and every server is a fork of the result.
NURSERY = """
import json, os, signal, sys, time, traceback
from placet import failpoints
from placet.app import Serving, run_server
from placet.config import load_settings

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdout.write("ready\\n")
sys.stdout.flush()
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid:
        sys.stdout.write(f"{pid}\\n")
        sys.stdout.flush()
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for descriptor, replaced in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(descriptor, replaced)
    os.environ.update(order["environment"])
    failpoints.arm(os.environ.get(failpoints.VARIABLE))  # the imports were done without it
    if "clock" in order:
        true_ns = time.time_ns
        time.time_ns = lambda: true_ns() + 1_000_000_000 * int(open(order["clock"]).read() or 0)
    os.chdir(os.path.dirname(order["log"]))  # by which it is known whose it is
    code = 1
    try:
        run_server(load_settings(), Serving(socket_only=True))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
"""
# Short leases and quick looks, so that a takeover takes about a second.
BRISK = {
    "PLACET_ENGINE__BEAT_SECONDS": "0.2",
    "PLACET_ENGINE__LEASE_SECONDS": "1",
    "PLACET_ENGINE__POLL_SECONDS": "1",
    "PLACET_LOCAL__SUPERVISOR_IDLE_SECONDS": "2",
    "PLACET_LOCAL__SANDBOX": "none",
}


class Nursery:
    """Forks servers on demand; each is a process of its own that nobody waits for."""

    def __init__(self) -> None:
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=ROOT,
            env={**self._environment, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._said() == "ready"
        self._lock = threading.Lock()

    def fork(self, log: Path, environment: Mapping[str, str], clock: Path | None = None) -> int:
        """The process number of a new server; ``clock`` holds by how many seconds its wall clock is off."""
        order = {"log": str(log), "environment": dict(environment), **({"clock": str(clock)} if clock else {})}
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._said())

    def close(self) -> None:
        self._process.communicate()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@dataclass(kw_only=True)
class ServerProcess:
    """One server on a data folder of its own; it can die in any way and come back."""

    nursery: Nursery
    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    clock: Path | None = None
    pid: int = 0

    @property
    def socket(self) -> Path:
        return places.socket_path(self.data_dir)

    @property
    def alive(self) -> bool:
        """Until its number is free: before that its last thread may still hold the socket."""
        return self.pid != 0 and state_of(self.pid) is not None

    @property
    def log(self) -> str:
        """What it has written since the first start."""
        with suppress(FileNotFoundError):
            return self._log_path.read_text(errors="replace")
        return ""

    @property
    def _log_path(self) -> Path:
        return self.data_dir.parent / f"{self.data_dir.name}.log"

    def launch(self) -> None:
        """Start without waiting for anything."""
        assert not self.alive
        environment = {**BRISK, **self.settings, "PLACET_DATA_DIR": str(self.data_dir)}
        self.pid = self.nursery.fork(self._log_path, environment, self.clock)

    def wait_ready(self) -> None:
        """Wait until its socket answers."""

        def ready() -> bool:
            if not self.alive:
                raise AssertionError(f"the server ended by itself:\n{self.log[-4000:]}")
            return answers(self.socket) and places.token_path(self.data_dir).exists()

        wait_until(ready, READY_WITHIN_S, f"a server on {self.socket}; its log:\n{self.log[-4000:]}")

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self._signal(signal.SIGKILL)
        wait_until(lambda: not self.alive, 10, "the server to be dead")

    def kill_sometime(self, chance: random.Random) -> None:
        """Kill it at a drawn moment, mostly at work and now and then on its way up, and start it again at once."""
        if chance.random() < STARTING_SHARE:
            pause_s = chance.uniform(0, STARTING_MOST_S)
        else:
            self.wait_ready()
            pause_s = chance.uniform(0, AT_WORK_MOST_S)
        pass_time(pause_s)
        self.kill()
        self.launch()

    def freeze(self) -> None:
        """SIGSTOP: it believes that no time passes."""
        self._signal(signal.SIGSTOP)
        wait_until(lambda: state_of(self.pid) == "T", 5, "the server to be stopped")

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """SIGTERM and wait: the proper end."""
        self._signal(signal.SIGTERM)
        wait_until(lambda: not self.alive, 30, "the server to end")

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of this server alone, which starts nothing by itself."""
        with Client(data_dir=self.data_dir, start=False) as client:
            yield client


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One for all tests, for its imports take seconds."""
    made = Nursery()
    yield made
    made.close()


@contextmanager
def servers(
    nursery: Nursery, folder: Path, *settings: Mapping[str, str], start: bool = True
) -> Iterator[list[ServerProcess]]:
    """Started servers, one for each of the settings; at the end nothing of them or of theirs is left running."""
    with ExitStack() as stack:
        stack.callback(kill_everything_of, folder)
        made = [
            ServerProcess(nursery=nursery, data_dir=folder / f"server-{number}", settings=each)
            for number, each in enumerate(settings, 1)
        ]
        for server in made if start else ():
            server.launch()
        for server in made if start else ():
            server.wait_ready()
        yield made


def pass_time(duration_s: float) -> None:
    """Let the servers go on by themselves: for drawing a moment at random, never for waiting for something."""
    over = threading.Event()
    timer = threading.Timer(duration_s, over.set)
    timer.start()
    wait_until(over.is_set, duration_s + 10, "the time to pass")
    timer.join()


def processes_of(folder: Path, *words: str) -> dict[int, str]:
    """Living processes that name the folder in their command line, environment or working folder."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        base = Path("/proc", entry)
        try:
            line = base.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(base / "cwd")
            surroundings = base.joinpath("environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) not in f"{line}\n{where}\n{surroundings}" or state_of(int(entry)) in (None, "Z", "X"):
            continue
        if all(word in line for word in words):
            found[int(entry)] = line
    return found


def supervisors_of(folder: Path) -> list[int]:
    """The supervisors that serve this folder."""
    return sorted(processes_of(folder, "supervisor.py", f"--data={folder} "))


def kill_everything_of(folder: Path) -> None:
    """By number, and only what names the test's own folder; who starts others goes before them."""

    def gone() -> bool:
        servers_first = processes_of(folder, "run_server") or processes_of(folder, "supervisor.py")
        for pid in servers_first or processes_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not processes_of(folder)

    wait_until(gone, 10, f"the end of all processes of {folder}")


@dataclass(kw_only=True)
class Marks:
    """What programs do to the world outside their folders: lines in a file, and a lock held while they live.

    A program that finds the lock of its workload held by another tells of it: that is a second live copy.
    """

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "marks"

    def script(self, body: str) -> list[str]:
        """A command that marks its start, does ``body``, and marks its end if it gets there."""
        lock = f"{self.folder}/$PLACET_WORKLOAD_ID.lock"
        me = "$PLACET_WORKLOAD_ID $PLACET_ATTEMPT"
        lines = [
            f'exec 9>>"{lock}"',
            f'flock -n 9 || echo "second {me}" >> {self.file}',
            f'echo "start {me}" >> {self.file}',
            body,
            f'echo "end {me}" >> {self.file}',
        ]
        return ["/bin/sh", "-c", "\n".join(lines)]

    def held(self, workload_id: str) -> bool:
        """Does anything of that workload live now?"""
        with Path(self.folder, f"{workload_id}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def lines(self) -> list[tuple[str, str, int]]:
        """All marks in the order in which they were made."""
        if not self.file.exists():
            return []
        told = [line.split() for line in self.file.read_text().splitlines()]
        return [(kind, workload_id, int(epoch)) for kind, workload_id, epoch in told]

    def count(self, kind: str) -> Counter[tuple[str, int]]:
        """How often each attempt left that mark."""
        return Counter((workload_id, epoch) for what, workload_id, epoch in self.lines() if what == kind)

    def check(self) -> None:
        """No attempt ran twice, and no two attempts of a workload at the same time."""
        seconds = [line for line in self.lines() if line[0] == "second"]
        assert not seconds, f"two live copies: {seconds}"
        for kind in ("start", "end"):
            repeated = {attempt: times for attempt, times in self.count(kind).items() if times > 1}
            assert not repeated, f"more than one {kind}: {repeated}"
        assert self.count("end").keys() <= self.count("start").keys()
        newest: dict[str, int] = {}
        for kind, workload_id, epoch in self.lines():
            assert epoch >= newest.get(workload_id, 0), f"{kind} of attempt {epoch} of {workload_id} after a later one"
            newest[workload_id] = epoch


def make_marks(folder: Path) -> Marks:
    """A folder for marks beside the servers' folders."""
    path = folder / "outside"
    path.mkdir()
    return Marks(folder=path)
