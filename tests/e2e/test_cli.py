"""The command line as a person and a script use it: real processes, one data folder, exit codes that tell."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.cli import supervisor
from placet.cli.commands.table import COMMANDS, GROUPS
from placet.cli.main import run
from placet.contract.words import LogStream, Scope, WorkloadState
from tests.support.served import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("cli") / "data") as running:
        yield running


@dataclass(frozen=True)
class Ended:
    """How one command line ended."""

    returncode: int
    stdout: str
    stderr: str


class Shell:
    """Runs command lines against one data folder, in one working folder, in this process for speed."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.patch = patch
        self._capture = capture

    def __call__(self, *arguments: str, given: str = "") -> Ended:
        self.patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        self._capture.readouterr()
        code = run(list(arguments))
        told = self._capture.readouterr()
        return Ended(code, told.out, told.err)

    def document(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON document on stdout."""
        ended = self(*arguments, "--json") if "--" not in arguments else self("--json", *arguments)
        assert ended.returncode == code, (ended.stdout, ended.stderr)
        return json.loads(ended.stdout)


@pytest.fixture
def shell(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLACET_CONFIG", "")  # none; --config sets it in this process, and the patch takes it back
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, monkeypatch, capsys)


def process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "placet", *arguments], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture(scope="module")
def done(server: Served) -> str:
    workload_id = server.submit(
        "sh",
        "-c",
        "echo out; printf 'red: \\033[31mred\\n' >&2; echo hello > \"$PLACET_OUTPUTS/a\"",
        name="cli-life",
        labels={"team": "cli"},
        outputs=[{"name": "a", "path": "/outputs/a"}],
    )
    assert server.wait(workload_id)["state"] == "succeeded"
    return workload_id


def test_looking_at_a_workload(shell: Shell, done: str) -> None:
    assert [one["id"] for one in shell.document("ls", "--label", "team=cli")] == [done]
    assert shell.document("show", done)["state"] == "succeeded"
    assert len(shell.document("account", "cli-life")["answers"]) == 9
    explained = shell.document("explain", "cli-life", "--replay")
    assert [made["replay"] for made in explained["decisions"]] == [{"equal": True, "differences": []}]
    assert shell.document("result", done[:20])["workload_id"] == done
    lines = shell("events", done, "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == sorted(json.loads(line)["seq"] for line in lines)
    assert shell.document("offers")["items"][0]["provider"] == "local"


def on_terminal(*arguments: str, **environment: str) -> bytes:
    """What a process writes on a terminal, to its end."""
    leader, follower = os.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "FORCE_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "placet", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env={**kept, "TERM": "xterm-256color", **environment},
    ) as running:
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # how the system says that the last one has closed a terminal
            while piece := os.read(leader, 65536):
                shown += piece
        os.close(leader)
        running.wait(timeout=50)
    return shown


@pytest.mark.parametrize("arguments", [("ls",), ("show", "cli-life"), ("token", "create", "x")])
def test_no_escapes_where_nobody_wants_them(shell: Shell, done: str, arguments: tuple[str, ...]) -> None:
    assert b"\x1b[" in on_terminal(*arguments)
    for plain in (
        on_terminal(*arguments, NO_COLOR="1"),
        on_terminal(*arguments, TERM="dumb"),
        on_terminal("--no-color", *arguments),
        on_terminal(*arguments, NO_COLOR="1", FORCE_COLOR="1"),
    ):
        assert plain
        assert b"\x1b" not in plain


def test_words_for_people(shell: Shell, done: str) -> None:
    listed = shell("ls").stdout.splitlines()
    assert listed[0].split("\t")[:3] == ["id", "name", "state"]
    assert "succeeded" in shell("show", done).stdout
    assert "accepted" in shell("account", done).stdout
    told = shell("explain", done, "--replay").stdout
    assert "replayed over all offers: the same" in told
    assert "with objective speed" in told
    assert "sha256" in shell("result", done).stdout


def test_logs_go_where_they_came_from(shell: Shell, done: str) -> None:
    both = shell("logs", done)
    assert both.stdout == "out\n"
    assert both.stderr == "red: \x1b[31mred\n"
    assert shell("logs", done, "--stream", "stderr").stdout == "red: \x1b[31mred\n"
    followed = shell("logs", "-f", done)
    assert followed.stdout == "out\n"
    pieces = [json.loads(line) for line in shell("logs", done, "--json").stdout.splitlines()]
    assert "out\n" in [piece["text"] for piece in pieces if piece["stream"] == "stdout"]


def test_artifacts(shell: Shell, done: str) -> None:
    assert [one["path"] for one in shell.document("artifacts", "ls", done)] == ["a"]
    saved = shell.document("artifacts", "get", done, "--output", "found")
    assert Path(shell.folder, saved[0]["file"]).read_text() == "hello\n"


def test_submit_wait_retry_cancel(shell: Shell) -> None:
    submitted = shell.document("submit", "--name", "again", "--", "sh", "-c", "exit 3")
    assert shell("wait", submitted["id"]).returncode == 1
    retried = shell.document("retry", "again")
    assert retried["retry_of"] == submitted["id"]
    result = shell.document("wait", retried["id"], code=1)
    assert result["cause"]["exit_code"] == 3
    long = shell.document("submit", "--", "sleep", "60")["id"]
    timed_out = shell("wait", long, "--timeout", "0.2")
    assert (timed_out.returncode, "wait_timeout" in timed_out.stderr) == (8, True)
    assert shell.document("result", long, code=7)["error"]["code"] == "not_final"
    assert shell.document("cancel", long)["changed"]
    assert shell("wait", long).returncode == 3


def test_one_key_is_one_workload(shell: Shell) -> None:
    first = shell.document("submit", "--key", "k1", "--", "true")
    again = shell.document("submit", "--key", "k1", "--", "true")
    assert (first["id"], first["existed"], again["existed"]) == (again["id"], False, True)
    other = shell.document("submit", "--key", "k1", "--", "false", code=7)
    assert other["error"]["code"] == "idempotency_conflict"


def test_dry_run_and_estimate(shell: Shell) -> None:
    assert shell.document("submit", "--dry-run", "--", "true")["accepted"]
    refused = shell("submit", "--dry-run", "--gpu-memory", "24GB", "--", "true")
    assert (refused.returncode, "fix:" in refused.stdout) == (2, True)
    assert shell.document("estimate", "--", "true")["plan"]["ranked"][0]["offer"]["provider"] == "local"
    assert shell("estimate", "--gpus", "8", "--", "true").returncode == 2


def test_tokens(shell: Shell) -> None:
    made = shell.document("token", "create", "ci", "--scope", "workload:read", "--expires-days", "1")
    assert made["token"].startswith("plct_")
    listed = shell.document("token", "ls")
    assert made["token"] not in json.dumps(listed)
    assert made["id"] in [one["id"] for one in listed]
    shell.patch.setenv("PLACET_TOKEN", made["token"])
    assert shell("ls").returncode == 0
    assert shell.document("token", "ls", code=7)["error"]["code"] == "forbidden"
    shell.patch.delenv("PLACET_TOKEN")
    assert shell.document("token", "revoke", made["id"])["revoked_at"]
    shell.patch.setenv("PLACET_TOKEN", made["token"])
    assert shell.document("ls", code=7)["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("show", "nope"), 7, "not_found"),
        (("show", "wl_" + "0" * 29), 7, "not_found"),
        (("show",), 2, "usage"),
        (("nope",), 2, "usage"),
        (("ls", "--limit", "many"), 2, "usage"),
        (("ls", "--state", "bogus"), 2, "usage"),
        (("ls", "--name", "x" * 64), 2, "bad_request"),
        (("ls", "--label", "novalue"), 2, "usage"),
        (("logs", "last", "--stream", "bogus"), 2, "usage"),
        (("logs", "last", "--stream", "all"), 2, "usage"),
        (("token", "create", "x", "--scope", "bogus"), 2, "usage"),
        (("run", "--on-interrupt", "bogus", "--", "true"), 2, "usage"),
        (("submit", "--key", "", "--", "true"), 2, "bad_idempotency_key"),
        (("submit", "--key", "é", "--", "true"), 2, "bad_idempotency_key"),
        (("submit", "--key", "two\nlines", "--", "true"), 2, "bad_idempotency_key"),
        (("submit",), 2, "usage"),
        (("submit", "none.yaml"), 2, "file"),
        (("submit", "none.yaml", "--name", "x"), 2, "usage"),
        (("submit", "--label", "novalue", "--", "true"), 2, "usage"),
        (("submit", "--cpu", "lots", "--", "true"), 2, "invalid_spec"),
        (("ls", "--url", "http://placet.example"), 6, "bad_location"),
        (("ls", "--url", "http://[::1"), 6, "bad_location"),
        (("ls", "--url", "https://placet.example:none"), 6, "bad_location"),
        (("server", "--config", "none.toml"), 2, "bad_settings"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_every_error_has_a_code_and_no_traceback(
    shell: Shell, arguments: tuple[str, ...], code: int, told: str
) -> None:
    words = shell(*arguments)
    assert (words.returncode, words.stdout) == (code, "")
    assert f"[{told}]" in words.stderr
    assert "Traceback" not in words.stderr
    document = shell.document(*arguments, code=code)
    assert document["error"]["code"] == told


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (("token", "revoke", "nope"), "`placet token ls` lists them"),
        (("submit", "--env", "FOO", "--", "true"), 'write --env FOO=VALUE; to hand on your own, --env FOO="$FOO"'),
        (("submit", "--env", "=x", "--", "true"), "write --env NAME=VALUE"),
        (("submit", "--label", "x", "--", "true"), "write for example --label team=research"),
        (("logs", "last", "--attempt", "99"), "check the id and the epoch"),
        (("submit", "none.yaml"), "check the path; a relative one counts from the working folder"),
        (("submit", "."), "name a file, not a folder"),
        (("submit", "--gpus", "1"), "give a command"),
        (("ls", "--url", "http://placet.example"), "use https"),
        (("ls", "--url", "placet.example"), "write for example https://placet.example"),
        (("submit", "--timeout", "999999999999999h", "--", "true"), "write at most 366d"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_to_do_fits_the_mistake(shell: Shell, done: str, arguments: tuple[str, ...], fix: str) -> None:
    assert f"  fix: {fix}" in shell(*arguments).stderr


EVERY_COMMAND = [
    *[(entry.name,) for entry in COMMANDS],
    *[(group.name, entry.name) for group in GROUPS for entry in group.commands],
]


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_an_argument_that_is_not_text_is_refused(shell: Shell, command: tuple[str, ...]) -> None:
    word = os.fsdecode(b"a\xff")
    for arguments in (
        (*command, word), (*command, "--name", word), (*command, f"--label={word}"), (*command, "--", word),
        ("--data-dir", word, *command), ("--url", word, *command), (word, *command),
    ):  # fmt: skip
        words = shell(*arguments)
        assert (words.returncode, words.stdout) == (2, "")
        assert "[usage]" in words.stderr
        assert "a\\udcff" in words.stderr


def test_an_output_that_is_not_there_is_no_silent_server(shell: Shell, done: str) -> None:
    words = shell("artifacts", "get", done, "nosuch")
    assert (words.returncode, words.stdout) == (7, "")
    assert "there is no output 'nosuch'  [no_such_output]" in words.stderr


def test_a_token_that_is_none_is_refused_as_such(shell: Shell) -> None:
    for token in ("é", "a\nb", "plct_" + "0" * 16):
        shell.patch.setenv("PLACET_TOKEN", token)
        told = shell.document("ls", code=7)["error"]
        assert (told["code"], told["fix"][:18]) == ("unauthorized", "check PLACET_TOKEN")


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("ls", "--state", "bogus"), [state.value for state in WorkloadState]),
        (("logs", "last", "--stream", "bogus"), list(LogStream)),
        (("token", "create", "x", "--scope", "bogus"), list(Scope)),
    ],
)
def test_a_word_outside_a_closed_list_is_told_the_list(
    shell: Shell, arguments: tuple[str, ...], allowed: list[str]
) -> None:
    told = shell(*arguments).stderr
    assert "'bogus' is not one of" in told
    assert all(word in told for word in allowed)


OF_WORKLOADS = "show logs events account explain result redeliver wait cancel retry resolve"
OF_OTHERS = "validate create revoke get link test backup restore add rm messages resend replay pause resume rotate set"
NEEDED = dict.fromkeys((*OF_WORKLOADS.split(), *OF_OTHERS.split()), "x") | {"init": "-"}


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_settings_that_cannot_be_read_are_refused_by_every_command(shell: Shell, command: tuple[str, ...]) -> None:
    (shell.folder / "words.toml").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (shell.folder / "wrong.toml").write_text("[server]\nport = 'many'\n")
    given = (
        [NEEDED["get"]] if command == ("artifacts", "ls") else [NEEDED[command[-1]]] if command[-1] in NEEDED else []
    )
    given = [*given, "x"] if command == ("webhook", "resend") else given
    given = [] if command[0] == "budget" or command == ("provider", "messages") else given
    for named, why in (
        ("none.toml", "there is no such file"),
        (".", "this is not a file"),
        ("words.toml", "at line 1"),
        ("wrong.toml", "server.port"),
    ):
        flagged = shell(*command, *given, "--config", named)
        shell.patch.setenv("PLACET_CONFIG", named)
        told = shell(*command, *given)
        shell.patch.delenv("PLACET_CONFIG")
        for ended in (flagged, told):
            assert (ended.returncode, ended.stdout) == (2, "")
            assert "[bad_settings]" in ended.stderr
            assert why in ended.stderr
            assert "check --config and PLACET_CONFIG" in ended.stderr


def test_settings_that_can_be_read_hinder_nobody(shell: Shell, done: str) -> None:
    (shell.folder / "good.toml").write_text("[server]\nport = 0\n")
    assert shell("show", "last", "--config", "good.toml").returncode == 0
    shell.patch.setenv("PLACET_CONFIG", "good.toml")
    assert shell("show", "last").returncode == 0


def test_mistakes_in_a_file_come_with_their_lines(shell: Shell) -> None:
    (shell.folder / "bad.yaml").write_text("runtime:\n  type: process\n  command: [x]\nresources:\n  cpu_coers: 1\n")
    told = shell("submit", "bad.yaml")
    assert told.returncode == 2
    assert "line 5: resources.cpu_coers" in told.stderr


def test_the_first_spec_is_valid_and_runs(shell: Shell) -> None:
    assert shell("init").returncode == 0
    assert shell("init").returncode == 2
    assert shell("validate", "workload.yaml").returncode == 0
    ran = shell("run", "workload.yaml", "--quiet")
    assert ran.returncode == 0, ran.stderr


def test_validate_tells_of_all_files(shell: Shell) -> None:
    (shell.folder / "good.json").write_text('{"runtime": {"type": "process", "command": ["true"]}}')
    (shell.folder / "bad.yaml").write_text("runtime: {type: proces}\n")
    told = shell.document("validate", "good.json", "bad.yaml", code=2)
    assert [one["valid"] for one in told] == [True, False]
    assert shell("validate", "-", given='{"runtime": {"type": "process", "command": ["true"]}}').returncode == 0


def test_doctor_says_hello_to_the_supervisor(shell: Shell, done: str, tmp_path: Path) -> None:
    def told(data: Path) -> dict[str, str]:
        found = shell.document("doctor", "--data-dir", str(data))["findings"]
        return next(one for one in found if one["name"] == "supervisor")

    here = told(Path(os.environ["PLACET_DATA_DIR"]))
    assert here["state"] == "ok"
    assert re.match(rf"version {placet.__version__}, protocol 1, [0-9]+ attempts live, [0-9]+ kept", here["found"])
    elsewhere = tmp_path / "data"
    assert told(elsewhere)["state"] == "off"
    home = elsewhere / "local" / "supervisor"
    home.mkdir(parents=True)
    (home / "lock").write_text("4242\n")
    shell.patch.setattr(supervisor, "ANSWER_WITHIN_S", 0.1)
    with answering(home, b"") as listening:
        silent = told(elsewhere)
        listening.close()
    assert (silent["state"], "no answer within 0.1 s" in silent["found"]) == ("warning", True)
    assert "process 4242" in silent["fix"]
    assert told(elsewhere)["state"] == "off"  # the socket is there, and nobody behind it


@pytest.mark.parametrize(
    ("answer", "state", "found"),
    [
        (
            b'{"hint": "capacity"}\n{"id": 1, "ok": {"protocol": 1, "live": 2}}\n',
            "warning",
            "version unknown, protocol 1",
        ),
        (b'{"id": 1, "refused": {"code": "unknown_verb"}}\n', "warning", "what listens there is no supervisor"),
        (b"HTTP/1.1 400 Bad Request\r\n", "warning", "its answer cannot be read"),
    ],
)
def test_doctor_is_not_misled_by_strangers(shell: Shell, tmp_path: Path, answer: bytes, state: str, found: str) -> None:
    home = tmp_path / "data" / "local" / "supervisor"
    home.mkdir(parents=True)
    shell.patch.setattr(supervisor, "ANSWER_WITHIN_S", 5.0)
    with answering(home, answer):
        told = shell.document("doctor", "--data-dir", str(tmp_path / "data"))["findings"]
    one = next(one for one in told if one["name"] == "supervisor")
    assert one["state"] == state
    assert found in one["found"]


@contextlib.contextmanager
def answering(home: Path, answer: bytes) -> Iterator[socket.socket]:
    """Somebody who listens where a supervisor would, says this to the first who comes, and no more."""
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(home):
        listening.bind("sock")
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                caller, _ = listening.accept()
                with caller:
                    caller.recv(1000)
                    caller.sendall(answer)
                    caller.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with contextlib.chdir("/"):
            yield listening
        thread.join(timeout=10)


@pytest.mark.parametrize(
    ("sandbox", "works", "state", "found"),
    [
        ("auto", True, "off", "only with inputs, or outputs below /outputs, is a program shut in; others may read"),
        ("auto", False, "off", "no program is shut in; each may read the data folder and its token"),
        ("none", True, "off", "no program is shut in; each may read the data folder and its token"),
        ("bubblewrap", True, "ok", "every program is shut in"),
        ("bubblewrap", False, "missing", "no program is started"),
    ],
)
def test_doctor_says_what_programs_may_read(shell: Shell, sandbox: str, works: bool, state: str, found: str) -> None:
    program = shell.folder / "bwrap"
    program.write_text(f"#!/bin/sh\nexit {0 if works else 1}\n")
    program.chmod(0o700)
    shell.patch.setenv("PATH", str(shell.folder), prepend=os.pathsep)
    shell.patch.setenv("PLACET_LOCAL__SANDBOX", sandbox)
    told = {one["name"]: one for one in shell.document("doctor")["findings"]}["isolation"]
    assert told["state"] == state
    assert told["found"].startswith(found)


def test_doctor_and_schema_need_no_server(shell: Shell) -> None:
    found = {one["name"]: one for one in shell.document("doctor")["findings"]}
    assert found["python"]["state"] == found["server"]["state"] == "ok"
    assert shell.document("schema")["$schema"]


@pytest.mark.parametrize(
    ("arguments", "told"), [(("--host", "0.0.0.0"), "cannot_serve"), (("--socket-only",), "already_served")]
)
def test_a_server_that_may_not_be(shell: Shell, arguments: tuple[str, ...], told: str) -> None:
    ended = process("server", *arguments)
    assert (ended.returncode, ended.stdout) == (7, "")
    assert f"[{told}]" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_version_and_help_are_there(shell: Shell) -> None:
    assert process("--version").stdout.startswith("placet ")
    shown = shell("--help").stdout
    assert all(f"\n{panel}:\n" in shown for panel in ("Run", "Look", "Plan", "Operate"))
    assert "\n  account " in shown
    for group in ((), ("token",)):
        asked, bare = shell(*group, "--help"), shell(*group)
        assert (bare.returncode, bare.stdout, bare.stderr) == (0, asked.stdout, "")
    assert "Describe it here" in shell("run", "--help").stdout
    shell.patch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # whatever shell runs the tests
    assert shell("--show-completion", "bash").returncode == 0


def test_a_reader_who_leaves_is_no_error(shell: Shell) -> None:
    line = f"{sys.executable} -m placet schema | head -c 1"
    piped = subprocess.run(["sh", "-c", line], capture_output=True, timeout=50, check=False)
    assert (piped.stdout, piped.stderr) == (b"{", b"")


@pytest.fixture(scope="module")
def failed(server: Served) -> str:
    workload_id = server.submit("false")
    assert server.wait(workload_id)["state"] == "failed"
    return workload_id


TOO_MUCH = ("--cpu", "100000", "--", "true")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("result", "FAILED"), 1),
        (("wait", "FAILED"), 1),
        (("explain", "FAILED"), 0),
        (("show", "nosuch"), 7),
        (("validate", "wrong.json"), 2),
        (("offers", "--for", "much.json"), 2),
        (("submit", "--dry-run", *TOO_MUCH), 2),
        (("estimate", *TOO_MUCH), 2),
        (("run", *TOO_MUCH), 2),
        (("doctor",), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_a_reader_who_leaves_does_not_change_the_exit_code(
    shell: Shell, failed: str, form: tuple[str, ...], arguments: tuple[str, ...], code: int
) -> None:
    (shell.folder / "wrong.json").write_text("{}")
    much = {"runtime": {"type": "process", "command": ["true"]}, "resources": {"cpu_cores": 100_000}}
    (shell.folder / "much.json").write_text(json.dumps(much))
    reading, writing = os.pipe()
    os.close(reading)
    words = [failed if word == "FAILED" else word for word in arguments]
    with os.fdopen(writing, "wb") as pipe:
        command = [sys.executable, "-m", "placet", *form, *words]
        assert subprocess.run(command, stdout=pipe, stderr=pipe, timeout=50, check=False).returncode == code


def test_a_quote_is_made_held_and_refused(shell: Shell) -> None:
    described = ("--timeout", "1m", "--", "true")
    quote = shell.document("estimate", *described)["quote"]
    assert shell.document("submit", "--quote", quote["quote"], *described)["state"] == "accepted"
    assert shell("run", "--quote", quote["quote"], *described).returncode == 0
    told = shell("estimate", *described).stdout
    assert "expected\tp10\tp50\tp90" in told
    assert "quote, valid until 20" in told
    other = shell.document("submit", "--quote", quote["quote"], "--timeout", "2m", "--", "true", code=2)
    assert other["error"]["code"] == "quote_spec_changed"
    dry = shell.document("submit", "--dry-run", "--quote", "q1_nothing", *described, code=2)
    assert [problem["code"] for problem in dry["problems"]] == ["bad_quote"]


def test_a_refusal_says_what_would_help(shell: Shell) -> None:
    described = ("--memory", "900TB", "--", "true")
    told = shell("estimate", *described)
    assert told.returncode == 2
    assert "what would make it feasible:" in told.stdout
    error = shell.document("submit", *described, code=2)["error"]
    [way] = error["relaxations"]
    assert [change["field"] for change in way["changes"]] == ["resources.system_memory_gb"]
    assert "ask for" in error["problems"][0]["fix"]
    assert shell.document("submit", "--dry-run", *described, code=2)["relaxations"] == [way]


def test_validate_and_dry_run_say_the_same_of_a_deadline(shell: Shell, tmp_path: Path) -> None:
    text = '{"runtime": {"type": "process", "command": ["true"]}, "constraints": {"deadline": "2020-01-01T00:00:00Z"}}'
    file = tmp_path / "late.json"
    file.write_text(text)
    (checked,) = shell.document("validate", str(file), code=2)
    dry = shell.document("submit", "--dry-run", str(file), code=2)
    [first], [second] = checked["errors"], dry["problems"]
    assert first["code"] == second["code"] == "deadline_passed"
    assert {**first, "line": None, "what": ""} == {**second, "line": None, "what": ""}


def test_calibration_holds_estimates_against_what_became_of_them(shell: Shell, tmp_path: Path) -> None:
    assert shell("run", "--timeout", "1m", "--", "true").returncode == 0
    view = shell.document("calibration")
    assert view["forecast"] >= 1
    assert view["considered"] >= view["forecast"]
    every, local = view["rows"][:2]
    assert (every["provider"], local["provider"]) == ("", "local")
    assert local["start_s"]["count"] >= 1
    assert 0 <= local["start_s"]["below_p90"] <= 1
    told = shell("calibration").stdout.splitlines()
    assert told[1].startswith("provider\tclass\tworkloads\tcost_p50\tcost_p90\tstart_p50")
    assert any(line.startswith("local\ton_demand cpu\t") for line in told)
    file = tmp_path / "calibration.png"
    assert shell("calibration", "--plot", str(file)).returncode == 0
    assert file.read_bytes().startswith(b"\x89PNG")
