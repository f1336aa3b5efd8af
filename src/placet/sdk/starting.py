"""Starts a server in the background where none answers: a process of its own that ends when it has nothing to do."""

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from placet.sdk import places
from placet.sdk.errors import Unreachable
from placet.sdk.location import answers

START_WITHIN_S = 30.0
LOG_NAME = "server.log"
# Less than this and a server cannot keep its first records.
SPACE_BYTES_MIN = 1024 * 1024

# Kept so that a long-lived client reaps the servers it started when they end.
_started: list["subprocess.Popen[bytes]"] = []


def ensure_server(data: Path, arguments: Sequence[str] = ()) -> None:
    """Returns when a server answers on the data folder's socket, starting one if need be.

    Two callers at once may both start one; the second process finds the first one's lock and ends.

    Raises:
        Unreachable: the process ended, or did not answer in time; the message has the end of its log.
    """
    path = places.socket_path(data)
    if answers(path):
        return
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = data / LOG_NAME
    process = _spawn(data, log, arguments)
    _started[:] = [*(other for other in _started if other.poll() is None), process]
    deadline = time.monotonic() + START_WITHIN_S
    pause_s = 0.01
    while not answers(path):
        ended = process.poll()
        # Code 0 is "another one is already there": its socket comes up any moment.
        if ended or time.monotonic() > deadline:
            raise _not_started(data, log)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)


def _not_started(data: Path, log: Path) -> Unreachable:
    """Why, as far as that can be known: on a full disk the log itself may have had no room."""
    free_bytes = _free_bytes(data)
    if free_bytes < SPACE_BYTES_MIN:
        return Unreachable(
            f"a background server could not be started: the disk of {data} is full ({free_bytes} bytes are free)",
            "free some space there, or name another data folder (PLACET_DATA_DIR)",
        )
    return Unreachable(
        f"a background server could not be started: {_end_of(log)}",
        f"mend that; {log} has the whole of it, and `placet doctor` tells what is here",
    )


def _free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


@atexit.register
def _leave_running() -> None:
    """A server outlives the program that started it on purpose; without this, its handle would complain of that."""
    for process in _started:
        if process.poll() is None:
            process.returncode = 0


def _spawn(data: Path, log: Path, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "placet",
        "server",
        "--socket-only",
        "--until-idle",
        "--data-dir",
        str(data),
        *arguments,
    ]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            env=_environment(),
        )


def _environment() -> dict[str, str]:
    """The client's own address and token are not the server's business; a relative path would mislead it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PLACET_URL", "PLACET_TOKEN")}
    if kept.get("PLACET_CONFIG"):
        kept["PLACET_CONFIG"] = str(places.config_path(kept))
    return kept


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2000))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    # The first line of a message says what is wrong, the last one only what to do about it.
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["it left no word"])[-1].removeprefix("error: ")
