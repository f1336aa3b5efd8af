"""The examples are valid, their pins agree, and they do what their pages say, on a whole server."""

import json
import runpy
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from placet.contract.parse import Parsed, parse
from placet.sdk.specs import from_file
from tests.support.served import BASE, Served, served
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
REHEARSAL = EXAMPLES / "rehearsal"
SPECS = sorted([*EXAMPLES.glob("*/workload.yaml"), *REHEARSAL.glob("*.yaml")])
PINNED = sorted(path.parent for path in EXAMPLES.glob("*/requirements.in"))


def folder_name(path: Path) -> str:
    if path.is_dir():
        return path.name
    return path.parent.name if path.stem == "workload" else f"{path.parent.name}-{path.stem}"


def test_there_are_examples() -> None:
    assert {"hello", "classify-files", "rehearsal", "train-digits"} <= {path.parent.name for path in SPECS}


@pytest.mark.parametrize("spec", SPECS, ids=folder_name)
def test_the_spec_is_accepted_without_a_warning(spec: Path) -> None:
    parsed = parse(spec.read_bytes(), now_ms=0)
    assert isinstance(parsed, Parsed), parsed
    assert parsed.warnings == ()


@pytest.mark.parametrize("folder", PINNED, ids=folder_name)
def test_the_spec_lists_what_is_pinned(folder: Path) -> None:
    is_current = cast("Callable[[Path], bool]", runpy.run_path(str(EXAMPLES / "pin.py"))["is_current"])
    assert is_current(folder), "run examples/pin.py"
    assert all("--hash=sha256:" in line for line in requirements_of(folder))


def requirements_of(folder: Path) -> tuple[str, ...]:
    parsed = parse((folder / "workload.yaml").read_bytes(), now_ms=0)
    assert isinstance(parsed, Parsed), parsed
    return parsed.spec.runtime.requirements


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("examples") / "data") as running:
        yield running


def run(server: Served, example: str) -> Any:
    """The result of an example, submitted as the command line does it."""
    reply = server.http.post(BASE, json=from_file(EXAMPLES / example / "workload.yaml"))
    assert reply.status_code == 201, reply.text
    return server.wait(reply.json()["id"])


def output(server: Served, result: Any, path: str) -> bytes:
    """The bytes of a delivered output."""
    found = server.http.get(f"{BASE}/{result['workload_id']}/artifacts").json()["items"]
    return server.http.get(next(one["href"] for one in found if one["path"] == path)).read()


def test_hello_greets(server: Served) -> None:
    result = run(server, "hello")
    assert result["state"] == "succeeded", result
    assert output(server, result, "greeting.txt") == b"Hello, world!\n"


@pytest.mark.slow
@pytest.mark.timeout(300)  # it may have to download the network's packages
def test_files_are_classified(server: Served) -> None:
    result = run(server, "classify-files")
    assert (result["state"], result["delivery"]) == ("succeeded", "complete"), result
    lines = output(server, result, "predictions.jsonl").decode().splitlines()
    predictions = {line["path"]: line for line in map(json.loads, lines)}
    assert {predictions[f"odd/{name}"]["label"] for name in ("fibonacci.py", "holiday.jpg")} == {"python"}
    assert predictions["odd/picture.png"] | {"score": 1.0} == {
        "path": "odd/picture.png",
        "label": "png",
        "score": 1.0,
        "group": "image",
        "size": (EXAMPLES / "classify-files" / "data" / "picture.png").stat().st_size,
    }
    assert predictions["project/placet/app.py"]["label"] == "python"
    summary = json.loads(output(server, result, "summary.json"))
    assert summary["files"] == len(lines)
    assert {found["path"] for found in summary["surprises"]} >= {"odd/holiday.jpg", "odd/notes.txt", "odd/archive.zip"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_training_goes_on_after_its_crash(server: Served) -> None:
    result = run(server, "train-digits")
    assert result["state"] == "succeeded", result
    assert [attempt["exit_code"] for attempt in result["attempts"]] == [75, 0]
    metrics = json.loads(output(server, result, "metrics.json"))
    assert metrics["resumed_from_epoch"] == 5
    assert [epoch["epoch"] for epoch in metrics["history"]] == list(range(1, 13))
    assert metrics["test_accuracy"] > 0.95
    assert output(server, result, "model.npz").startswith(b"PK")


@pytest.fixture(scope="module")
def rehearsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the settings of the rehearsals."""
    settings = tomllib.loads((REHEARSAL / "placet.toml").read_text())
    with served(tmp_path_factory.mktemp("rehearsal") / "data", **settings) as running:
        yield running


def rehearse(server: Served, name: str) -> str:
    reply = server.http.post(BASE, json=from_file(REHEARSAL / f"{name}.yaml"))
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def kinds(server: Served, workload_id: str, kind: str) -> list[str]:
    events = server.http.get(f"{BASE}/{workload_id}/events?limit=200").json()["items"]
    return [event["message"] for event in events if event["kind"] == kind]


@pytest.mark.parametrize(
    ("name", "states", "causes"),
    [
        ("lost-reply", ["collected"], [None]),
        ("capacity", ["refused", "refused", "collected"], ["no_capacity", "no_capacity", None]),
        ("preemption", ["collected", "collected"], ["preempted", None]),
        ("host-lost", ["lost", "collected"], ["attempt_lost", None]),
    ],
)
def test_a_rehearsal_ends_as_its_page_says(
    rehearsing: Served, name: str, states: list[str], causes: list[str | None]
) -> None:
    workload_id = rehearse(rehearsing, name)
    result: Any = rehearsing.wait(workload_id)
    assert (result["state"], result["simulated"]) == ("succeeded", True), result
    assert [attempt["state"] for attempt in result["attempts"]] == states
    assert [attempt["cause"] for attempt in result["attempts"]] == causes
    assert len(kinds(rehearsing, workload_id, "intent.sent")) == len(states), "nothing was ordered twice"
    assert (float(result["cost"]["wasted_usd"]) == 0) == (name in ("lost-reply", "capacity"))
    if name == "capacity":
        assert result["attempts"][0]["offer"] != result["attempts"][1]["offer"]


def test_a_stop_that_is_ignored_is_rehearsed(rehearsing: Served) -> None:
    workload_id = rehearse(rehearsing, "stop-ignored")

    def shown() -> Any:
        return rehearsing.http.get(f"{BASE}/{workload_id}").json()

    wait_until(lambda: shown()["state"] == "running", 20, "it to run")
    rehearsing.http.post(f"{BASE}/{workload_id}/cancel")
    wait_until(lambda: shown()["attempt_list"][0]["state"] == "stopping", 10, "it to be stopping")
    assert shown()["state"] == "running"
    result: Any = rehearsing.wait(workload_id)
    assert (result["state"], result["attempts"][0]["state"]) == ("cancelled", "stopped")
