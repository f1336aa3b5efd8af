"""What trips somebody who is new: settings not in effect, a lost database, pipes, a full disk, nothing to get."""

import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.cli import following
from placet.cli.commands.promises import lacks
from placet.cli.exits import MEANINGS
from placet.cli.following import LogScreen
from placet.cli.main import run
from placet.contract.logs import LogPieceView
from placet.contract.providers import CardView
from placet.runner.faults import said
from placet.sdk import places, specs
from placet.sdk.errors import SpecError
from tests.support.served import Served, served

ROOT = Path(__file__).resolve().parents[2]
SPEC = '{"runtime": {"type": "process", "command": ["true"]}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("newcomer") / "data") as running:
        yield running


@pytest.fixture(autouse=True)
def here(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLACET_CONFIG", "")
    monkeypatch.chdir(tmp_path)


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    run(["doctor", "--json"])
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}


def test_settings_that_a_running_server_did_not_read_are_told(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[engine]\nbeat_seconds = 3\n")
    monkeypatch.setenv("PLACET_CONFIG", str(other))
    assert run(["ls"]) == 0
    told = capsys.readouterr()
    assert "other.toml is not in effect" in told.err
    assert "when it is started again" in told.err
    # The file that it did read, and a server elsewhere, are no reason for a word.
    monkeypatch.setenv("PLACET_CONFIG", str(server.data.parent / "placet.toml"))
    assert run(["ls"]) == 0
    assert "not in effect" not in capsys.readouterr().err
    monkeypatch.setenv("PLACET_CONFIG", str(other))
    run(["--url", "http://127.0.0.1:1", "ls"])
    assert "not in effect" not in capsys.readouterr().err


def test_a_database_that_is_gone_is_found(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(capsys)["database"]["state"] == "ok"
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    monkeypatch.setenv("PLACET_DATA_DIR", str(data))
    assert "first use" in findings(capsys)["database"]["found"]
    places.token_path(data).write_text("plct_x")
    lost = findings(capsys)["database"]
    assert (lost["state"], "orphan" in lost["means"]) == ("missing", True)
    (data / "placet.db").write_text("not a database at all")
    assert findings(capsys)["database"]["means"] == "it is no SQLite database"
    assert run(["doctor"]) == 1


def test_a_database_deleted_below_a_server_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "data") as running:
        monkeypatch.setenv("PLACET_DATA_DIR", str(running.data))
        (running.data / "placet.db").rename(tmp_path / "away.db")
        found = findings(capsys)["database"]
        (tmp_path / "away.db").rename(running.data / "placet.db")
    assert "works on a file that was deleted" in found["means"]


def test_doctor_reads_the_contract_cards(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    local = findings(capsys)["provider local"]
    assert "process" in local["found"]
    card = server.http.get("/v1/providers").json()["items"][0]["card"]
    assert (local["state"] == "ok") == (not list(lacks(CardView(**card))))
    poor = CardView(
        **{**card, "late_create_s": None, "lists_completely": False, "fence": False, "exit_code": False,
           "forgets_after_s": 60, "restarts_by_itself": True}
    )  # fmt: skip
    assert len(list(lacks(poor))) == 6 + len(list(lacks(CardView(**card))))


def test_a_pipe_without_a_writer_ends_and_one_with_a_writer_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(specs, "PIPE_WITHIN_S", 0.05)
    assert run(["validate", str(pipe)]) == 2
    told = capsys.readouterr()
    assert "pipe into which nobody writes" in told.err
    monkeypatch.setattr(specs, "PIPE_WITHIN_S", 20)
    writer = threading.Thread(target=lambda: pipe.write_text(SPEC))
    writer.start()
    assert run(["validate", str(pipe)]) == 0
    writer.join()


def test_an_endless_file_is_read_to_a_bound() -> None:
    assert len(specs.read_document(Path("/dev/zero"))) == specs.DOCUMENT_MAX_BYTES
    with pytest.raises(IsADirectoryError):
        specs.read_document(Path("/"))
    with pytest.raises(SpecError):
        specs.from_file(Path("/dev/null"))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "its spec declares none"),
        ({"outputs": [{"name": "a", "path": "a", "required": True}]}, "placet account"),
    ],
)
def test_nothing_to_get_is_an_error_that_says_why(
    server: Served, more: dict[str, object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    workload_id = server.submit("true", **more)
    server.wait(workload_id)
    assert run(["artifacts", "get", workload_id]) == 7
    told = capsys.readouterr().err
    assert "no_outputs" in told
    assert why in told


def test_the_page_has_every_exit_code() -> None:
    page = (ROOT / "docs/how-to/command-line.md").read_text()
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == [int(code) for code in MEANINGS]


def test_a_full_disk_is_told_without_the_folders_of_the_installation() -> None:
    told = said(OSError(errno.ENOSPC, "No space left on device", "/srv/placet/local/attempts/a/work"))
    assert "no space is left" in told
    assert "/srv" not in told
    assert said(OSError(errno.EACCES, "x", "/srv/placet")) == "Permission denied"


def _piece(stream: str, text: str) -> LogPieceView:
    return LogPieceView(epoch=1, stream=stream, offset=0, next_offset=len(text), text=text)


@pytest.mark.parametrize(("one_place", "err"), [(True, "\nbad"), (False, "bad")])
def test_a_line_that_was_not_ended_is_ended_before_the_other_stream(
    one_place: bool, err: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, error = (io.TextIOWrapper(io.BytesIO()) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(following, "_same_place", lambda *_: one_place)
    screen = LogScreen(stdout_is_taken=False)
    for stream, text in (("stdout", "go"), ("stdout", "od"), ("stderr", "bad")):
        screen.show(_piece(stream, text))
    assert isinstance(out.buffer, io.BytesIO)
    assert isinstance(error.buffer, io.BytesIO)
    assert (out.buffer.getvalue(), error.buffer.getvalue()) == (b"good", err.encode())


def test_both_streams_in_one_file_are_seen_to_be_so(server: Served, tmp_path: Path) -> None:
    workload_id = server.submit("sh", "-c", "printf good; printf bad >&2")
    server.wait(workload_id)
    with (tmp_path / "both").open("wb") as both:
        subprocess.run([sys.executable, "-m", "placet", "logs", workload_id], stdout=both, stderr=both, check=True)
    assert (tmp_path / "both").read_bytes() == b"good\nbad"
    apart = subprocess.run([sys.executable, "-m", "placet", "logs", workload_id], capture_output=True, check=True)
    assert (apart.stdout, apart.stderr) == (b"good", b"bad")


def test_a_command_whose_streams_are_closed_does_its_work_and_shows_no_traceback(tmp_path: Path) -> None:
    """As a daemon may start it."""
    program, data = str(Path(sys.executable).with_name("placet")), str(tmp_path / "data")
    for line, code in (("ls --json >&-", 0), ("validate nothing.yaml >&-", None), ("ls <&- >&- 2>&-", 0)):
        command = f"exec {program} --data-dir {data} {line}"
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr
        assert code is None or done.returncode == code, (line, done)


def test_what_could_not_be_an_output_is_named_and_they_are_not_called_complete(tmp_path: Path) -> None:
    make = 'cd "$PLACET_OUTPUTS"; mkdir d; echo x > d/fine.txt; ln -s fine.txt d/latest; mkfifo d/pipe'
    with served(tmp_path / "data") as server:
        workload_id = server.submit("/bin/sh", "-c", make, outputs=[{"name": "all", "path": "/outputs/d/**"}])
        result = server.wait(workload_id)
        assert (result["state"], result["delivery"]) == ("succeeded", "partial")
        told = server.http.get(f"/v1/workloads/{workload_id}/events").json()["items"]
        (outputs,) = [event["message"] for event in told if event["kind"] == "delivery.outputs"]
        assert "partial, 1 file" in outputs
        assert "d/latest" in outputs
        assert "d/pipe" in outputs
