"""Where a machine has no Python, a plain program runs all the same, and what cannot be done is said."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from placet.runner.portable import bootstrap
from placet.runner.portable.drop import ORDER, SECRETS, SECRETS_PLAIN
from tests.support.missing import missing
from tests.support.waiting import wait_until

TOOLS = ("cat", "cmp", "date", "grep", "ln", "mkdir", "mv", "rm", "setsid", "sh", "sleep", "tr", "uname", "wc")
LAUNCH = {"key": "k-1", "nonce": "n0nce", "deployment": 'a "dep"', "workload_id": "wl_1", "epoch": 2}


class Machine:
    """One attempt's folder, and a path on which there is no Python."""

    def __init__(self, folder: Path, **launch: object) -> None:
        if Path("/usr/libexec/platform-python").exists():
            missing("this machine always has a Python, at a place of its own")
        self.folder, self.tools = folder / "attempt", folder / "tools"
        self.folder.mkdir()
        self.tools.mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            assert found is not None
            (self.tools / name).symlink_to(found)
        (folder / "bootstrap.sh").write_text(bootstrap.TEXT)
        document = {**LAUNCH, **launch}
        (self.folder / ORDER).write_text(json.dumps({"launch": document}))
        (self.folder / bootstrap.PLAIN).write_text(bootstrap.plain({"launch": document, "report_env": ["PATH"]}))

    def start(self) -> "subprocess.Popen[bytes]":
        line = ["/bin/sh", str(self.folder.parent / "bootstrap.sh"), "none.pyz", str(self.folder)]
        return subprocess.Popen(line, env={"PATH": str(self.tools)}, stderr=subprocess.PIPE)

    def run(self) -> int:
        process = self.start()
        process.communicate(timeout=30)
        return process.returncode

    def permit(self, granted: bool = True) -> None:
        (self.folder / "permit.json").write_text(json.dumps({"nonce": "n0nce", "granted": granted, "reason": ""}))

    @property
    def status(self) -> Mapping[str, object]:
        found: Mapping[str, object] = json.loads((self.folder / "status.json").read_text())
        return found

    def text(self, stream: str) -> str:
        return (self.folder / "run" / "logs" / stream).read_text()


def test_a_plain_program_runs(tmp_path: Path) -> None:
    script = 'echo "$GREETING from $PWD"; echo "$TOKEN" >&2; exit 7'
    machine = Machine(tmp_path, command=["sh", "-c", script], env={"GREETING": "it's $(me)"})
    (machine.folder / SECRETS_PLAIN).write_text("\n".join(bootstrap.exports({"TOKEN": "hush 'hush'"})))
    (machine.folder / SECRETS).write_text("{}")
    machine.permit()
    assert machine.run() == 7
    assert machine.text("stdout") == f"it's $(me) from {machine.folder}/run/work\n"
    assert machine.text("stderr") == "hush 'hush'\n"
    status = machine.status
    assert (status["phase"], status["cause"], status["exit_code"], status["deployment"]) == (
        "ended",
        "exited",
        7,
        'a "dep"',
    )
    assert json.loads((machine.folder / "run" / "exit.json").read_text()) == status
    claim = json.loads((machine.folder / "claim.json").read_text())
    assert claim["reported"] == {"PATH": str(machine.tools)}
    assert not (machine.folder / SECRETS).exists()
    assert not (machine.folder / SECRETS_PLAIN).exists()


def test_it_does_not_run_twice(tmp_path: Path) -> None:
    machine = Machine(tmp_path, command=["sh", "-c", "echo begun"])
    machine.permit()
    assert machine.run() == 0
    assert machine.run() == 94
    assert machine.text("stdout") == "begun\n"


def test_without_a_permit_nothing_runs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, command=["sh", "-c", "echo begun"])
    machine.permit(granted=False)
    assert machine.run() == 93
    assert machine.status["cause"] == "permit_refused"
    assert not (machine.folder / "run" / "logs" / "stdout").exists()


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"inputs": [{"name": "x"}]}, "inputs"), ({"outputs": [{"name": "x"}]}, "outputs"), ({"python": {}}, "")],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    tmp_path: Path, changes: Mapping[str, object], what: str
) -> None:
    machine = Machine(tmp_path, command=["sh", "-c", "echo begun"], **changes)
    machine.permit()
    code = machine.run()
    if not what:
        assert code == 0, "an empty wish is none"
        return
    assert code == 93
    assert machine.status["cause"] == "environment"
    assert what in str(machine.status["detail"])


def test_it_is_stopped_by_a_file(tmp_path: Path) -> None:
    machine = Machine(tmp_path, command=["sh", "-c", "echo $$; exec sleep 600"], limits={"grace_s": 1})
    machine.permit()
    process = machine.start()
    wait_until(lambda: (machine.folder / "status.json").exists() and machine.status["phase"] == "running", 20, "run")
    wait_until(lambda: machine.text("stdout"), 20, "its number")
    (machine.folder / "stop.json").write_text("{}")
    process.communicate(timeout=30)
    assert machine.status["cause"] == "stopped"
    assert not os.path.exists(f"/proc/{machine.text('stdout').strip()}/cwd")


def test_it_ends_at_its_time_limit(tmp_path: Path) -> None:
    machine = Machine(tmp_path, command=["sh", "-c", "trap '' TERM; sleep 600"], limits={"runtime_s": 1, "grace_s": 1})
    machine.permit()
    assert machine.run() == 93
    assert machine.status["cause"] == "timeout"


@pytest.mark.parametrize(
    ("command", "cause", "signal"),
    [
        (["/no/such/program"], "start_failed", None),
        (["sh", "-c", "kill -SEGV $$"], "signalled", 11),
        (["sh", "-c", "kill -KILL $$"], "killed", 9),
    ],
)
def test_other_ends(tmp_path: Path, command: list[str], cause: str, signal: int | None) -> None:
    machine = Machine(tmp_path, command=command)
    machine.permit()
    machine.run()
    assert (machine.status["cause"], machine.status["signal"], machine.status["exit_code"]) == (cause, signal, None)
