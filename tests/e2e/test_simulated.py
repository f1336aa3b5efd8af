"""The simulated provider on a whole server: never chosen by accident, always marked, and not ended by a kill."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import run
from tests.support.served import BASE, Served, served
from tests.support.servers import Nursery, servers
from tests.support.waiting import wait_until

QUICK = {"runtime_seconds": "0.2", "startup_seconds": "0.1"}
NAMED = {"providers": {"allowed": ["simulated"]}}
GPU = {"minimum_gpu_memory_gb": 24}


def settings(**changes: object) -> dict[str, Any]:
    return {"providers": {"simulated": {"enabled": True, "defaults": QUICK, **changes}}, "engine": {"poll_seconds": 1}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # This machine costs more than anything that is simulated: whoever looks at prices alone would not stay here.
    folder = tmp_path_factory.mktemp("simulated") / "data"
    with served(folder, local={"price_per_hour": "50"}, **settings()) as running:
        yield running


def submit(server: Served, **fields: Any) -> str:
    body = {"runtime": {"type": "process", "command": ["true"]}, **fields}
    reply = server.http.post(BASE, json=body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def test_it_is_not_there_by_default(tmp_path: Path) -> None:
    with served(tmp_path / "data") as plain:
        assert [one["name"] for one in plain.http.get("/v1/providers").json()["items"]] == ["local"]


def test_what_does_not_name_it_never_goes_there(server: Served) -> None:
    result = server.wait(submit(server))
    assert (result["state"], result["placement"]["provider"], result["simulated"]) == ("succeeded", "local", False)
    refused = server.http.post(BASE, json={"runtime": {"type": "process", "command": ["true"]}, "resources": GPU})
    assert refused.json()["code"] == "invalid_spec"
    assert "simulated" not in refused.text, "nobody is led there by a suggestion"
    body = {"runtime": {"type": "process", "command": ["true"]}}
    for path in ("/v1/offers/match?drops=1000", "/v1/estimate"):
        assert "simulated-" not in server.http.post(path, json=body).text


def test_what_names_it_goes_there_and_is_marked_everywhere(server: Served) -> None:
    workload_id = submit(server, name="rehearsed", resources=GPU, constraints=NAMED)
    result = server.wait(workload_id)
    assert (result["state"], result["simulated"]) == ("succeeded", True)
    assert [attempt["simulated"] for attempt in result["attempts"]] == [True]
    shown = server.http.get(f"{BASE}/{workload_id}").json()
    assert shown["simulated"]
    assert shown["attempt_list"][0]["placement"]["simulated"]
    here = server.submit("true")
    listed = {one["id"]: one["simulated"] for one in server.http.get(BASE).json()["items"]}
    assert (listed[workload_id], listed[here]) == (True, False)
    marked = {one["provider"]: one["simulated"] for one in server.http.get("/v1/offers").json()["items"]}
    assert marked == {"local": False, "simulated": True}


def test_people_see_it_too(server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("PLACET_CONFIG", "")
    workload_id = submit(server, name="seen", constraints=NAMED)
    server.wait(workload_id)
    for command, word in (
        (("result", workload_id), "SIMULATED: no machine, no program and no money was real"),
        (("show", workload_id), "yes: no machine, no program"),
        (("ls", "--name", "seen"), "succeeded (simulated)"),
        (("offers",), "\tsimulated\t"),
        (("explain", workload_id), "\tsimulated (not real)\t"),
        (("provider", "ls"), "simulated\tsimulated\t"),
        (("provider", "show", "simulated"), "simulated: no machine, no program and no money is real"),
    ):
        capsys.readouterr()
        assert run(list(command)) == 0
        assert word in capsys.readouterr().out, command


def test_what_was_simulated_teaches_nothing_about_the_world(server: Served) -> None:
    command = {"runtime": {"type": "process", "command": ["sleep", "0.0"]}}
    for _ in range(3):
        server.wait(submit(server, **command, constraints=NAMED))

    def expected() -> Any:
        return server.http.post("/v1/estimate", json=command).json()["demand"]["runtime_s"]

    assert expected() is None
    server.wait(submit(server, **command))
    wait_until(lambda: expected() is not None, 10, "a run on this machine to be learnt from")
    assert all(row["provider"] != "simulated" for row in server.http.get("/v1/calibration").json()["rows"])


def test_the_configuration_can_let_it_be_chosen_by_all(tmp_path: Path) -> None:
    with served(tmp_path / "data", local={"enabled": False}, **settings(for_all=True)) as rehearsing:
        result = rehearsing.wait(submit(rehearsing))
        assert (result["state"], result["simulated"]) == ("succeeded", True)
        listed = rehearsing.http.get(BASE).json()["items"]
        assert [one["simulated"] for one in listed] == [True]


def test_where_there_is_nothing_else_what_does_not_name_it_waits(tmp_path: Path) -> None:
    with served(tmp_path / "data", local={"enabled": False}, **settings()) as rehearsing:
        workload_id = submit(rehearsing)
        wait_until(
            lambda: rehearsing.http.get(f"{BASE}/{workload_id}").json()["state"] == "waiting", 10, "the workload waits"
        )
        assert rehearsing.http.post(f"{BASE}/{workload_id}/cancel").status_code == 200


@pytest.mark.parametrize(
    ("options", "causes", "state"),
    [
        ({"refuse": "capacity"}, ["no_capacity", None], "succeeded"),
        ({"refuse": "quota"}, ["quota_exceeded", None], "succeeded"),
        ({"lost_reply": "after_effect"}, [None], "succeeded"),
        ({"lost_reply": "server_error"}, [None], "succeeded"),
        ({"empty_handle": True}, [None], "succeeded"),
        ({"late_create_seconds": 1.5}, [None], "succeeded"),
        ({"visibility_seconds": 1, "lost_reply": "after_effect"}, [None], "succeeded"),
        ({"lost_page_seconds": 1, "lost_reply": "after_effect"}, [None], "succeeded"),
        ({"unknown_state_seconds": 1}, [None], "succeeded"),
        ({"rate_limited_seconds": 0.5}, ["provider_error", None], "succeeded"),
        ({"runtime_seconds": 5, "preempt_after_seconds": 0.2}, ["preempted", "preempted"], "failed"),
        ({"start_fails": True}, ["start_failed"], "failed"),
        ({"exit_code": 4}, ["exit_code"], "failed"),
        ({"restart_after_seconds": 0.1}, [None], "succeeded"),
        ({"clock_offset_seconds": 600}, [None], "succeeded"),
        ({"price_factor": 3}, [None], "succeeded"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_fault_ends_as_it_should(
    server: Served, options: dict[str, Any], causes: list[str | None], state: str
) -> None:
    if state == "failed":
        options = {**options, "faulty_attempts": 9}
    fields = {
        "constraints": NAMED,
        "provider_options": {"simulated": options},
        "retry": {"infrastructure_attempts": 2, "backoff_seconds": 0.05},
    }
    result = server.wait(submit(server, **fields))
    assert result["state"] == state, result
    assert [attempt["cause"] for attempt in result["attempts"]] == causes
    assert server.http.get("/v1/providers").json()["items"][1]["free"] == 11, "nothing is left"


def test_a_stop_that_is_ignored_is_asked_for_until_it_is_heard(server: Served) -> None:
    options = {"runtime_seconds": 600, "stops_ignored": 1}
    fields: dict[str, Any] = {"constraints": NAMED, "provider_options": {"simulated": options}}
    workload_id = submit(server, **fields, stop_grace_seconds=0)
    wait_until(lambda: server.http.get(f"{BASE}/{workload_id}").json()["state"] == "running", 10, "the workload to run")
    server.http.post(f"{BASE}/{workload_id}/cancel")
    result = server.wait(workload_id)
    assert (result["state"], result["attempts"][0]["state"]) == ("cancelled", "stopped")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # httpx leaves them where nobody answers
def test_a_killed_server_leaves_its_cloud_running(tmp_path: Path, nursery: Nursery) -> None:
    prefix = "PLACET_PROVIDERS__SIMULATED__"
    environment = {f"{prefix}ENABLED": "true", f"{prefix}DEFAULTS__STARTUP_SECONDS": "0.1"}
    spec = {
        "runtime": {"type": "process", "command": ["true"]},
        "constraints": NAMED,
        "provider_options": {"simulated": {"runtime_seconds": 3}},
    }
    with servers(nursery, tmp_path, environment) as [server]:
        with server.client() as client:
            workload_id = client.submit(spec).id
            wait_until(lambda: client.get(workload_id).state == "running", 10, "the workload to run")
        server.kill()
        journal = [json.loads(line) for line in (server.data_dir / "simulated" / "journal").read_text().splitlines()]
        assert [fact["what"] for fact in journal] == ["order", "grant"]
        server.start()
        with server.client() as client:
            result = client.wait(workload_id)
        assert (result.state, len(result.attempts)) == ("succeeded", 1)
        assert result.timing.last_run_ms == pytest.approx(3000, abs=100), "its time went on while nobody looked"
        server.close()
