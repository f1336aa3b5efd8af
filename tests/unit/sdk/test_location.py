"""A client finds its server, and never sends its token where others could read it."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.config import load_settings
from placet.sdk import AsyncClient, Client, places
from placet.sdk.connection import connect
from placet.sdk.location import BadLocation, answers, checked_url, locate, read_token


def test_the_named_server_wins() -> None:
    found = locate({"PLACET_URL": "https://placet.example/", "PLACET_TOKEN": "t"})
    assert (found.url, found.token, found.socket) == ("https://placet.example", "t", None)
    assert repr(found) == "Location(https://placet.example)"


def test_else_that_of_the_data_folder(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("plct_a_b\n")
    token.chmod(0o600)
    found = locate({"PLACET_DATA_DIR": str(tmp_path)})
    assert (found.socket, found.token) == (tmp_path / "server.sock", "plct_a_b")


def test_a_named_data_folder_is_nobody_elses_server(tmp_path: Path) -> None:
    assert locate({"PLACET_URL": "https://placet.example"}, tmp_path).socket == tmp_path / "server.sock"


@pytest.mark.parametrize(
    "url", ["http://placet.example", "ftp://x", "placet.example", "https://u:p@x", "https://x/?token=1", "https:///"]
)
def test_an_address_that_would_betray_the_token_is_refused(url: str) -> None:
    with pytest.raises(BadLocation):
        locate({"PLACET_URL": url})


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1", "http://::1]", "https://[x]", "https://[::1]x", "https://h:x", "https://h:99999", "https://h:-1",
        "https://h:0", "https://h\n", "https://h/\x00", "https://\udcff", "https://h/\ud800", "//", "",
        "https://" + "a" * 70_000,
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_as_such(url: str) -> None:
    with pytest.raises(BadLocation, match="is not an http or https URL"):
        checked_url(url)


@given(st.from_regex(r"https?:[/]{0,3}[\[\]:@%#?.a-z0-9\\ ]*", fullmatch=True) | st.text())
def test_any_address_is_taken_or_refused(url: str) -> None:
    with suppress(BadLocation):
        httpx.Client(base_url=checked_url(url)).close()


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:7468", "http://[::1]:7468"])
def test_loopback_may_be_in_the_clear(url: str) -> None:
    assert locate({"PLACET_URL": url}).url == url


def test_a_token_file_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    assert read_token(tmp_path) is None
    token.write_text("plct_a_b\n")
    token.chmod(0o640)
    with pytest.raises(BadLocation, match="can be read by others") as caught:
        read_token(tmp_path)
    assert caught.value.fix.startswith("run `chmod 600 ")


def test_a_socket_file_alone_is_no_server(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    assert not answers(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not answers(path)
        server.listen()
        assert answers(path)
    assert path.exists()
    assert not answers(path)
    os.unlink(path)


def test_clients_and_servers_read_the_same_settings_file(tmp_path: Path) -> None:
    settings = tmp_path / "placet.toml"
    settings.write_text(f'data_dir = "{tmp_path}/elsewhere"\n')
    environment = {"PLACET_CONFIG": str(settings), "XDG_DATA_HOME": str(tmp_path)}
    assert places.data_dir(environment) == tmp_path / "elsewhere"
    assert load_settings(settings).data_dir == tmp_path / "elsewhere"
    assert places.data_dir({**environment, "PLACET_DATA_DIR": "/named"}) == Path("/named")
    for unusable in ("data_dir = 3", "not toml", ""):
        settings.write_text(unusable)
        assert places.data_dir(environment) == tmp_path / "placet"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_data_folder_is_named_by_a_text_or_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Path], str | Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in (kind(tmp_path / "data"), kind(Path("data")), kind(Path("~/data"))):
        assert connect(data_dir=named, start=False).location.socket == tmp_path / "data" / "server.sock"
        Client(data_dir=named, start=False).close()
    asyncio.run(AsyncClient(data_dir=kind(tmp_path), start=False).close())
