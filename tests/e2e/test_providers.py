"""What a server says of its providers: over the route, in the SDK, on the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.cli.main import run
from placet.contract.providers import ProviderList
from placet.sdk.client import Client
from tests.support.served import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("providers") / "data") as running:
        yield running


@pytest.fixture
def shell(server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Shell":
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("PLACET_CONFIG", "")
    return Shell(capsys)


class Shell:
    """Command lines run in this process: exit code, stdout, stderr."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capture.readouterr()
        code = run(list(arguments))
        told = self._capture.readouterr()
        return code, told.out, told.err


def test_a_provider_is_told_with_all_of_its_card(server: Served) -> None:
    reply = server.http.get("/v1/providers")
    found = ProviderList.model_validate(reply.json()).items
    assert [one.name for one in found] == ["local"]
    [local] = found
    assert (local.offers, local.simulated) == (1, False)
    assert local.card.states["running"] == "running"
    assert local.card.naming.length_max == 96
    assert local.card.error_table[-1].kind == "invalid_request"
    with Client(data_dir=server.data, start=False) as client:
        assert client.providers()[0].card == local.card


def test_the_command_line_shows_it(shell: Shell) -> None:
    code, out, _ = shell("provider", "ls")
    assert code == 0
    assert out.splitlines()[1].split("\t")[:3] == ["local", "", "1"]
    code, out, _ = shell("provider", "show", "local")
    assert code == 0
    assert "a create lands late (D)" in out
    assert "no_capacity" in out
    assert json.loads(shell("provider", "show", "local", "--json")[1])["card"]["fence"] is True
    assert "card" not in json.loads(shell("provider", "ls", "--json")[1])[0]


def test_a_provider_that_is_not_there_is_told_with_those_that_are(shell: Shell) -> None:
    code, _, err = shell("provider", "show", "elsewhere")
    assert code == 7
    assert "there is no provider 'elsewhere'" in err
    assert "these are set up: local" in err


@pytest.fixture
def rehearsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A machine without a server, on which the simulated provider is switched on."""
    settings = tmp_path / "placet.toml"
    settings.write_text("[local]\nsupervisor_idle_seconds = 1\n[providers.simulated]\nenabled = true\n")
    monkeypatch.setenv("PLACET_CONFIG", str(settings))
    monkeypatch.setenv("PLACET_DATA_DIR", str(tmp_path / "data"))
    return Shell(capsys)


def test_the_laws_are_tried_on_a_provider_one_line_each(rehearsing: Shell, tmp_path: Path) -> None:
    code, out, err = rehearsing("provider", "test", "simulated", "--law", "a-l*")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1].startswith("simulated: 5 kept; at most $")
    assert [line.split()[0] for line in lines[:-1]] == ["kept"] * 5
    assert "a-lost-reply-is-found-out: where the reply was lost" in out
    facts = [json.loads(line) for line in (tmp_path / "data" / "simulated" / "journal").read_text().splitlines()]
    assert {fact["key"] for fact in facts if fact["what"] == "order"} == {
        fact["key"] for fact in facts if fact["what"] == "delete"
    }, "nothing is left behind"


def test_scripts_get_a_document_for_each_law_and_one_in_the_end(rehearsing: Shell) -> None:
    code, out, _ = rehearsing("provider", "test", "simulated", "--law", "logs-*", "--json")
    *laws, last = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(law["law"], law["verdict"]) for law in laws] == [
        ("logs-neither-lose-nor-repeat", "kept"),
        ("logs-of-what-is-not-there", "kept"),
    ]
    assert last["provider"] == "simulated"
    assert (last["summary"]["kept"], last["summary"]["left"], last["summary"]["conforms"]) == (2, [], True)


def test_what_may_cost_more_is_not_tried_and_that_is_no_success(rehearsing: Shell) -> None:
    code, out, _ = rehearsing("provider", "test", "simulated", "--law", "logs-*", "--max-cost", "0.001")
    assert code == 1
    assert out.startswith("not tried ")
    assert "it may cost 0.0100 USD, and 0.0010 are left" in out
    assert "1 kept, 1 not tried; at most $0.00" in out


def test_what_has_no_faults_to_offer_says_so(rehearsing: Shell) -> None:
    code, out, _ = rehearsing("provider", "test", "local", "--law", "a-lost-*")
    assert code == 0
    assert "(not applicable: no fault injection: lost reply)" in out
    assert "4 not applicable" in out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("elsewhere",), 7, "these are switched on: local, simulated"),
        (("simulated", "--max-cost", "much"), 2, "--max-cost: 'much' is not an amount"),
        (("simulated", "--max-cost", "-1"), 2, "is not an amount"),
        (("simulated", "--law", "no-such-law"), 2, "no law is named 'no-such-law'"),
    ],
)
def test_what_cannot_be_tried_is_told(rehearsing: Shell, arguments: tuple[str, ...], code: int, told: str) -> None:
    ended, out, err = rehearsing("provider", "test", *arguments)
    assert (ended, out) == (code, "")
    assert told in err


def test_a_provider_that_does_not_come_up_is_told_without_a_traceback(rehearsing: Shell, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "simulated").write_text("in the way")
    code, out, err = rehearsing("provider", "test", "simulated")
    assert (code, out) == (7, "")
    assert "cannot be tried: its folder cannot be used" in err
