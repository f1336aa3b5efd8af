"""Secrets end to end: set, named, given, masked, and found nowhere else (SECURITY.md's canary)."""

import base64
import html
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from placet.app import CannotServe, Serving, run_server, serve_embedded
from tests.support.engines import IMAGE, Engine
from tests.support.served import Served, served, settings_in
from tests.support.waiting import wait_until

CANARY = "ca\"na%ry'<first> é/line 0123456789 of many\nthe-second=&line$of+the canary 9876543210"
SECRETS = "/v1/secrets"

PRINTS = """
import base64, json, os, sys, time, urllib.parse
value = os.environ["CANARY"]
data = value.encode()
for text in (value, json.dumps(value), repr(value), data.hex(), urllib.parse.quote(value, safe="")):
    print(text)
for before in (b"", b"x", b"xy"):
    print(base64.b64encode(before + data).decode(), base64.urlsafe_b64encode(before + data).decode())
sys.stdout.flush()
for at in range(len(data)):
    sys.stderr.buffer.write(data[at : at + 1])
    sys.stderr.flush()
print("done", len(value))
sys.exit(int(os.environ.get("WORD", "0")))
"""


def needles(value: str) -> dict[str, bytes]:
    """The forms in which a value could be lying somewhere."""
    found: dict[str, bytes] = {}
    for number, piece in enumerate((value, *value.split("\n"))):
        data = piece.encode()
        forms = {
            "raw": data,
            "json": json.dumps(piece)[1:-1].encode(),
            "percent": quote(piece, safe="").encode(),
            "plus": quote_plus(piece).encode(),
            "html": html.escape(piece).encode(),
            "shell": shlex.quote(piece)[1:-1].encode(),
            "repr": repr(piece)[1:-1].encode(),
            "hex": data.hex().encode(),
        }
        for before in range(3):
            whole = base64.b64encode(bytes(before) + data)[(0, 2, 3)[before] :][: len(data)].rstrip(b"=")[:-2]
            forms[f"base64 {before}"] = whole
            forms[f"base64 for URLs {before}"] = whole.replace(b"+", b"-").replace(b"/", b"_")
        found.update({f"{name} of {number}": form for name, form in forms.items()})
    return found


def put(server: Served, name: str, value: str) -> dict[str, object]:
    reply = server.http.put(f"{SECRETS}/{name}", json={"value": value})
    assert reply.status_code == 200, reply.text
    view: dict[str, object] = reply.json()
    return view


def crawl(server: Served) -> Iterator[tuple[str, bytes]]:
    """Every reply of the API that can be had by reading."""
    listed = server.http.get("/v1/workloads").json()["items"]
    paths = ["/v1/workloads", SECRETS, "/v1/tokens", "/v1/offers", "/v1/providers", "/v1/ledger", "/v1/webhooks"]
    paths += ["/v1/budgets", "/v1/orphans", "/v1/calibration", "/metrics", "/openapi.json", "/v1/openapi.json"]
    for one in listed:
        base = f"/v1/workloads/{one['id']}"
        below = ("", "/events", "/result", "/attempts", "/artifacts", "/explanation", "/account", "/ledger", "/spec")
        paths += [base + each for each in below]
        paths += [f"{base}/logs?stream={stream}" for stream in ("stdout", "stderr", "install")]
    for path in paths:
        reply = server.http.get(path)
        yield path, reply.content + str(reply.headers).encode()


def test_a_canary_is_found_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    places: dict[str, bytes] = {}
    with served(data, log={"level": "debug"}) as server:
        assert put(server, "canary", CANARY)["version"] == 1
        command = ("python3", "-c", PRINTS)
        good = server.submit(*command, secrets={"CANARY": "canary"}, name="good")
        bad = server.submit(*command, secrets={"CANARY": "canary"}, environment={"WORD": "3"}, retry={"attempts": 2})
        late = {"maximum_runtime_seconds": 1}
        held = "import os, time; print(os.environ['CANARY'], flush=True); time.sleep(60)"
        stopped = server.submit("python3", "-c", held, secrets={"CANARY": "canary"}, constraints=late)
        assert server.wait(good)["state"] == "succeeded"
        assert server.wait(bad)["state"] == "failed"
        assert server.wait(stopped)["state"] == "failed"
        text = server.http.get(f"/v1/workloads/{good}/logs", headers={"accept": "application/octet-stream"}).content
        # It had the value, and its log is as long as what it wrote.
        assert text.endswith(f"done {len(CANARY)}\n".encode())
        assert text.count(b"*") > 5 * len(CANARY)
        assert put(server, "canary", CANARY + " again")["version"] == 2
        for body in ({"value": CANARY, "more": 1}, {"value": [CANARY]}, {"value": CANARY * 999}, {CANARY: 1}):
            refused = server.http.put(f"{SECRETS}/canary", json=body)
            assert refused.status_code == 400
            if CANARY not in body:
                places[f"refusal {len(places)}"] = refused.content
        places.update(crawl(server))
        assert len(places) > 30
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                places[str(path)] = path.read_bytes()
    assert any(name.endswith("placet.db") for name in places)
    assert any("stderr" in name and name.startswith(str(tmp_path)) for name in places)
    out, err = capfd.readouterr()
    places |= {"stdout of the server": out.encode(), "its log": err.encode()}
    found = [
        (name, where) for where, content in places.items() for name, form in needles(CANARY).items() if form in content
    ]
    assert found == []


def test_no_command_line_and_no_other_file_holds_the_value(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        put(server, "canary", CANARY)
        held = server.submit("sh", "-c", "echo up; exec sleep 60", secrets={"CANARY": "canary"})
        wait_until(lambda: server.http.get(f"/v1/workloads/{held}").json()["state"] == "running", 30, "it runs")
        first = CANARY.split("\n")[0].encode()
        lines = [line for line in map(_read, Path("/proc").glob("[0-9]*/cmdline")) if first in line]
        assert lines == []
        assert [path for path in (tmp_path / "data").rglob("*") if path.is_file() and first in path.read_bytes()] == []
        server.http.post(f"/v1/workloads/{held}/cancel")
        server.wait(held)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_secret_of_another_tenant_is_no_secret(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        put(server, "mine", "the value")
        body = {"runtime": {"type": "process", "command": ["true"]}, "secrets": {"A": "mine", "B": "none"}}
        refused = server.http.post("/v1/workloads", json=body)
        assert refused.status_code == 422
        [problem] = refused.json()["errors"]
        assert (problem["code"], problem["field"]) == ("secret_missing", "secrets.B")
        assert "placet secret set none" in problem["fix"]
        dry = server.http.post("/v1/estimate", json=body).json()
        assert [each["code"] for each in dry["problems"]] == ["secret_missing"]


def test_a_new_version_is_for_what_is_sent_from_now_on(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        lengths = []
        for value in ("first", "the second"):
            put(server, "word", value)
            ran = server.submit("sh", "-c", "echo ${#WORD}", secrets={"WORD": "word"})
            server.wait(ran)
            lengths.append(server.http.get(f"/v1/workloads/{ran}/logs", headers=RAW).text.strip())
        assert lengths == ["5", "10"]
        [listed] = server.http.get(SECRETS).json()["items"]
        assert (listed["name"], listed["version"]) == ("word", 2)
        assert server.http.delete(f"{SECRETS}/word").json() == {"name": "word", "changed": True}
        assert server.http.delete(f"{SECRETS}/word").json() == {"name": "word", "changed": False}
        assert server.http.get(SECRETS).json()["items"] == []


RAW = {"accept": "application/octet-stream"}


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 40_000, "é" * 20_000])
def test_what_fits_in_no_environment_is_refused(tmp_path: Path, value: str) -> None:
    with served(tmp_path / "data") as server:
        refused = server.http.put(f"{SECRETS}/word", json={"value": value})
        assert refused.status_code == 400
        assert not value or value not in refused.text
        assert server.http.put(f"{SECRETS}/a%20b", json={"value": "v"}).status_code == 400


def test_keys_are_rotated_by_a_restart_and_a_lost_one_stops_the_server(tmp_path: Path) -> None:
    data, keys = tmp_path / "data", tmp_path / "keys"
    old, new = (base64.b64encode(bytes([letter]) * 32).decode() for letter in b"on")
    keys.touch(mode=0o600)
    keys.write_text(old)
    settings = {"secrets": {"key_file": str(keys)}}
    with served(data, **settings) as server:
        first = put(server, "word", "sesame")["key_id"]
        assert not (data / "secret.key").exists()
    keys.write_text(f"{new}\n{old}\n")
    with served(data, **settings) as server:
        [listed] = server.http.get(SECRETS).json()["items"]
        assert listed["key_id"] != first
    keys.write_text(new)
    with served(data, **settings) as server:
        ran = server.submit("sh", "-c", "echo ${#WORD}", secrets={"WORD": "word"})
        assert server.wait(ran)["state"] == "succeeded"
        assert server.http.get(f"/v1/workloads/{ran}/logs", headers=RAW).text == "6\n"
    with pytest.raises(CannotServe, match="key for them is missing"), serve_embedded(settings_in(data)):
        pass
    keys.chmod(0o644)
    with pytest.raises(CannotServe, match="chmod 600"), serve_embedded(settings_in(data, **settings)):
        pass


def test_what_others_can_reach_needs_a_key_that_is_set(tmp_path: Path) -> None:
    exposed = {"host": "0.0.0.0", "port": 0, "allow_remote_without_tls": True}
    with pytest.raises(CannotServe, match=r"secrets\.key_file"):
        run_server(settings_in(tmp_path / "data", server=exposed), Serving())
    assert not (tmp_path / "data" / "placet.db").exists()


def test_what_a_container_writes_is_hidden_when_it_is_read(tmp_path: Path, docker_engine: Engine) -> None:
    with served(tmp_path / "data", providers={"container": {"enabled": True, "host": docker_engine.host}}) as server:
        put(server, "canary", CANARY)
        command = [
            "sh",
            "-c",
            'printf "%s\\n" "$CANARY"; printf %s "$CANARY" | base64 | tr -d "\\n"; echo; echo ${#CANARY}',
        ]
        runtime = {"type": "container", "image": IMAGE, "command": command}
        wait_until(lambda: "container" in server.http.get("/v1/offers").text, 30, "the engine is found")
        body = {"runtime": runtime, "secrets": {"CANARY": "canary"}}
        reply = server.http.post("/v1/workloads", json=body)
        assert reply.status_code == 201, reply.text
        ran = reply.json()["id"]
        assert server.wait(ran)["state"] == "succeeded"
        text = server.http.get(f"/v1/workloads/{ran}/logs", headers=RAW).content
        assert text.count(b"*") > 2 * len(CANARY.encode())
        assert int(text.split()[-1]) in (len(CANARY), len(CANARY.encode()))
        assert [name for name, form in needles(CANARY).items() if form in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    sought = needles(CANARY)
    assert [(path, name) for path in files for name, form in sought.items() if form in path.read_bytes()] == []
