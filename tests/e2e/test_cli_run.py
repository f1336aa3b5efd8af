"""``placet run`` with no server anywhere: everything in one process, and what is left behind when it leaves early."""

import contextlib
import gc
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from placet.sdk import Client, places
from placet.sdk.location import answers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


class Place:
    """A fresh data folder and a working folder."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data = data
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PLACET_")},
            "PLACET_DATA_DIR": str(data),
            "PLACET_LOCAL__CGROUP": "off",
            "PLACET_LOCAL__SUPERVISOR_IDLE_SECONDS": "1",
            "PLACET_SERVER__IDLE_EXIT_SECONDS": "1",
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "placet", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr

    @property
    def socket(self) -> Path:
        return places.socket_path(self.data)

    def deserted(self) -> None:
        """Returns when no server is left."""
        wait_until(lambda: not answers(self.socket), 30, "the background server to end")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "folder"
    folder.mkdir()
    fresh = Place(tmp_path / "data", folder)
    yield fresh
    fresh.deserted()


def test_the_inline_form_runs_and_hands_back(place: Place) -> None:
    (place.folder / "work.py").write_text(
        "import os, pathlib, sys\n"
        "words = pathlib.Path(os.environ['PLACET_INPUTS'], 'data', 'words').read_text().split()\n"
        "print('read', len(words))\n"
        "print('to stderr', file=sys.stderr)\n"
        "pathlib.Path('out.jsonl').write_text('{}\\n' * len(words))\n"
    )
    (place.folder / "data").mkdir()
    (place.folder / "data" / "words").write_text("one two three")
    code, stdout, stderr = place.run(
        "run", "--memory", "1GB", "--input", "./data", "--output", "out.jsonl", "--", "python3", "work.py"
    )
    assert (code, stdout) == (0, "read 3\n"), stderr
    assert "to stderr\n" in stderr
    assert "succeeded" in stderr
    assert "out.jsonl  9 B" in stderr
    assert "placet: outputs: complete, 1 file of 9 B\n" in stderr
    assert not answers(place.socket)


def test_the_exit_code_and_the_document_tell_how_it_ended(place: Place) -> None:
    code, stdout, stderr = place.run("run", "--json", "--", "sh", "-c", "echo noise; exit 3")
    result = json.loads(stdout)
    assert (code, result["state"], result["cause"]["exit_code"]) == (1, "failed", 3)
    assert "noise" in stderr
    code, stdout, stderr = place.run("run", "--gpu-memory", "80GB", "--", "true")
    assert (code, stdout) == (2, "")
    assert "resources.minimum_gpu_memory_gb" in stderr


def test_an_interrupt_without_a_terminal_detaches_and_the_workload_goes_on(place: Place) -> None:
    process = place.start("run", "--name", "left", "--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo went")
    assert process.stderr is not None
    told = next(line for line in process.stderr if "running" in line)
    assert told
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "placet logs -f wl_" in stderr
    assert answers(place.socket), "a server in the background sees it through"
    code, stdout, _ = place.run("cancel", "left", "--json")
    assert (code, json.loads(stdout)["changed"]) == (0, True)
    assert place.run("wait", "left")[0] == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_may_cancel(place: Place, number: signal.Signals) -> None:
    process = place.start("run", "--on-interrupt", "cancel", "--", "sleep", "60")
    assert process.stderr is not None
    next(line for line in process.stderr if "running" in line)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert not answers(place.socket)


def test_a_reader_that_leaves_is_an_interrupt(place: Place) -> None:
    with place.start("run", "--name", "talker", "--", "yes") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        assert process.stderr is not None
        told = process.stderr.read()
    assert process.returncode == 5, told
    assert "placet cancel wl_" in told
    assert place.run("cancel", "talker")[0] == 0
    assert place.run("wait", "talker")[0] == 3


@pytest.mark.parametrize(("program", "code"), [("true", 0), ("false", 1)])
def test_a_reader_that_leaves_at_the_end_changes_nothing(place: Place, program: str, code: int) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        process = subprocess.Popen(
            [sys.executable, "-m", "placet", "run", "--", program],
            env=place.environment, cwd=place.folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        )  # fmt: skip
    with os.fdopen(reading) as lines:
        next(line for line in lines if re.match("placet: (succeeded|failed)", line))
    assert process.wait(60) == code
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        command = [sys.executable, "-m", "placet", "run", "--quiet", "--json", "--", program]
        ended = subprocess.run(
            command, env=place.environment, cwd=place.folder, stdout=pipe, stderr=pipe, timeout=60, check=False
        )
    assert ended.returncode == code


def test_a_reader_that_leaves_before_the_end_detaches_wherever_the_notes_go(place: Place) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        process = subprocess.Popen(
            [sys.executable, "-m", "placet", "run", "--name", "left", "--", "yes"],
            env=place.environment, cwd=place.folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        )  # fmt: skip
    with os.fdopen(reading) as lines:
        next(line for line in lines if line == "y\n")
    assert process.wait(60) == 5
    assert place.run("cancel", "left")[0] == 0
    assert place.run("wait", "left")[0] == 3


def test_on_a_terminal_an_interrupt_asks_and_foreign_colours_stay_out(place: Place) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "placet", "run", "--", "sh", "-c", r"printf '\033[31mred\033[0m'; sleep 60"],
        env=place.environment,
        cwd=place.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        shown = read_until(terminal, b"red")
        process.send_signal(signal.SIGINT)
        shown += read_until(terminal, b"[d] ")
        terminal.write(b"c\n")
        shown += read_until(terminal, b"cause    cancelled_by_user")
        shown += rest_of(terminal)  # who closes a terminal hangs up on what still writes to it
    assert process.wait(60) == 3
    assert b"\x1b[31m" not in shown


def rest_of(terminal: IO[bytes]) -> bytes:
    """Everything to the end; Linux reports that as an error once nobody holds the other side."""
    said = b""
    with contextlib.suppress(OSError):
        while piece := terminal.read(4096):
            said += piece
    return said


def read_until(terminal: IO[bytes], wanted: bytes) -> bytes:
    """What is shown up to the wanted words; the test's own time limit bounds it."""
    shown = b""
    while wanted not in shown:
        shown += terminal.read(4096)
    return shown


def test_a_server_on_tcp_needs_a_token_and_its_own_name(place: Place) -> None:
    process = place.start("server", "--port", "0")
    assert process.stderr is not None
    told = next(line for line in process.stderr if "serving" in line)
    url = re.search(r"http://127\.0\.0\.1:\d+", told)
    assert url, told
    token = (place.data / "token").read_text().strip()
    with Client(url[0], token) as client:
        assert client.submit(command=["true"]).wait(timeout_s=60).state == "succeeded"
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url[0], trust_env=False) as plain:
        assert plain.get("/v1/workloads").status_code == 401
        assert plain.get("/v1/workloads", headers=headers).status_code == 200
        assert plain.get("/v1/workloads", headers={**headers, "host": "evil.example"}).status_code == 403
        assert plain.get("/v1/workloads", headers={**headers, "origin": "https://evil.example"}).status_code == 403
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_two_at_once_share_one_server(place: Place) -> None:
    processes = [place.start("run", "--", "sh", "-c", f"sleep 0.5; echo {number}") for number in range(2)]
    ended = [(*process.communicate(timeout=90), process.returncode) for process in processes]
    assert [(stdout, code) for stdout, _, code in ended] == [("0\n", 0), ("1\n", 0)], ended


# httpcore leaves the socket of a failed connection to a unix path to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_starts_the_server_it_needs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in place.environment.items():
        if name.startswith("PLACET_"):
            monkeypatch.setenv(name, value)
    with Client() as client:
        workload = client.submit(command=["sh", "-c", "echo from a program > out.txt"], outputs=["out.txt"])
        assert workload.wait(timeout_s=60).state == "succeeded"
        assert workload.download("out.txt", place.folder / "got").read_text() == "from a program\n"
        place.deserted()
        assert client.get(workload.id).state == "succeeded", "a server that left is started again"
    gc.collect()  # here, where the warning is expected, and not in whatever test comes next


def test_a_deep_data_folder_has_a_short_socket(tmp_path: Path) -> None:
    place = Place(tmp_path / ("deep" * 30) / "data", tmp_path)
    code, stdout, stderr = place.run("run", "-q", "--", "echo", "deep")
    assert (code, stdout) == (0, "deep\n"), stderr
