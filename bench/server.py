"""A real server process on a data folder of its own, as a user starts one, with what it and its supervisor cost."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.http import Door, in_turn
from bench.machine import Memory, cpu_ms, memory, processes_naming

READY_PATH = "/v1/ready"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
PAUSE_S = 0.005


@dataclass(frozen=True, kw_only=True)
class Server:
    """One that answers; ``ready_s`` is from starting the process to its first readiness."""

    pid: int
    data: Path
    door: Door
    ready_s: float

    def supervisors(self) -> list[int]:
        """Processes of the data folder that are neither the server nor a program: there is one or none."""
        return [pid for pid in processes_naming(str(self.data)) if pid != self.pid and _is_supervisor(pid)]

    def processes(self) -> dict[str, int]:
        """Process ids by name."""
        found = {"server": self.pid}
        for pid in self.supervisors():
            found["supervisor"] = pid
        return found

    def cpu_ms(self) -> float:
        """Server, supervisor, and the programs that ended under it."""
        return cpu_ms(self.processes().values())

    def memory(self) -> dict[str, Memory]:
        return {name: memory(pid) for name, pid in self.processes().items()}


@contextmanager
def running(database_url: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Starts a server and its data folder, waits until it is ready, and leaves nothing behind."""
    data = Path(tempfile.mkdtemp(prefix="placet-bench-"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    environment |= {"PLACET_LOG__LEVEL": "warning"} | dict(settings or {})
    if database_url:
        environment["PLACET_DATABASE_URL"] = database_url
    command = [sys.executable, "-m", "placet", "server", "--data-dir", str(data), "--socket-only"]
    began = perf_counter()
    with (data / "bench.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/")
    try:
        door = _ready(process, data)
        yield Server(pid=process.pid, data=data, door=door, ready_s=perf_counter() - began)
    finally:
        _stop(process, data)
        shutil.rmtree(data, ignore_errors=True)


def _ready(process: "subprocess.Popen[bytes]", data: Path) -> Door:
    socket, token = data / "server.sock", data / "token"
    deadline = perf_counter() + START_WITHIN_S
    while perf_counter() < deadline:
        if process.poll() is not None:
            break
        try:
            door = Door(address=str(socket), token=token.read_text().strip())
            if next(in_turn(door, [door.request("GET", READY_PATH)])).status == 200:
                return door
        except (FileNotFoundError, ConnectionError):
            pass
        time.sleep(PAUSE_S)
    raise RuntimeError(f"the server did not get ready:\n{(data / 'bench.log').read_text(errors='replace')[-3000:]}")


def _stop(process: "subprocess.Popen[bytes]", data: Path) -> None:
    """The server politely; then, at once, whatever it left running on this throw-away data folder."""
    process.terminate()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    deadline = perf_counter() + STOP_WITHIN_S
    while (left := processes_naming(str(data))) and perf_counter() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def _is_supervisor(pid: int) -> bool:
    try:
        return b"runner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
