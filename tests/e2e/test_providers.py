"""What a server says of its providers: over the route, in the SDK, on the command line."""

import json
from collections.abc import Iterator

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
