"""Commands about what is unclear, undelivered, left over and paid for, against a real server."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from placet.cli.main import run
from tests.support.served import Served, served
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("knowing") / "data", local={"price_per_hour": "36"}) as running:
        yield running


@pytest.fixture(scope="module")
def done(server: Served) -> str:
    workload_id = server.submit("sh", "-c", "exit 3", retry={"attempts": 2, "backoff_seconds": 0})
    assert server.wait(workload_id)["state"] == "failed"
    return workload_id


@pytest.fixture(autouse=True)
def here(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def test_the_ledger_adds_up(done: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ledger", done, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["reason"] for entry in told["entries"]] == ["exit_code", "exit_code"]
    assert sum(Decimal(entry["spent_usd"]) for entry in told["entries"]) == Decimal(told["spent_usd"]) > 0
    assert told["wasted"] == [{"reason": "exit_code", "usd": told["wasted_usd"]}]
    assert run(["ledger"]) == 0
    assert "wasted by exit_code" in capsys.readouterr().out


def test_nothing_is_unclear_and_nothing_is_to_be_delivered(done: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", done]) == 0
    assert "nothing is unclear" in capsys.readouterr().out
    for arguments, code in (
        (["resolve", done, "--go-on"], "not_in_doubt"),
        (["redeliver", done], "nothing_to_deliver"),
    ):
        assert run([*arguments, "--json"]) != 0
        assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_no_orphans_and_none_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["orphans"]) == 0
    assert "together $0" in capsys.readouterr().out
    assert run(["orphans", "--delete", "or_0"]) != 0
    assert "`placet orphans` lists them" in capsys.readouterr().err


def test_a_stop_is_told_until_it_is_proven(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    workload_id = server.submit("sleep", "600")
    wait_until(lambda: server.http.get(f"/v1/workloads/{workload_id}").json()["state"] == "running", 20, "running")
    assert server.http.get(f"/v1/workloads/{workload_id}").json()["stop"] is None
    assert run(["cancel", workload_id]) == 0
    server.wait(workload_id)

    def confirmed() -> bool:
        stop = server.http.get(f"/v1/workloads/{workload_id}").json()["stop"]
        return bool(stop["stage"] == "confirmed" and Decimal(stop["still_usd_per_hour"]) == 0)

    wait_until(confirmed, 20, "proven gone")
    capsys.readouterr()
    assert run(["show", workload_id]) == 0
    assert "confirmed, asked for at" in capsys.readouterr().out
