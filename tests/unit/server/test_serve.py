"""Listening: one server for one folder, never in the open by accident, gone when it has nothing to do."""

import asyncio
import contextlib
import socket
import stat
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from placet.sdk.location import answers
from placet.server.serve import AlreadyServed, CannotServe, Control, Listening, check_exposure, data_folder_lock, serve

APP = PlainTextResponse("here")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "placet.example"])
def test_no_listening_in_the_open(host: str, tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match="TLS"):
        check_exposure(Listening(data_dir=tmp_path, host=host))
    check_exposure(Listening(data_dir=tmp_path, host=host, allow_remote_without_tls=True))
    check_exposure(Listening(data_dir=tmp_path, host=host, tls_certificate=tmp_path, tls_key=tmp_path))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", None])
def test_loopback_is_not_open(host: str | None, tmp_path: Path) -> None:
    check_exposure(Listening(data_dir=tmp_path, host=host))


async def test_it_answers_on_both_doors_until_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    control = Control(closing=asyncio.Event(), signals=False)
    address: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    control.ready = address.set_result
    with data_folder_lock(data):
        serving = asyncio.create_task(serve(APP, Listening(data_dir=data, host="127.0.0.1"), control))
        url = await address
        path = data / "server.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://placet"
        ) as local:
            assert (await local.get("/")).text == "here"
        async with httpx.AsyncClient(trust_env=False) as remote:
            assert (await remote.get(str(url))).text == "here"
        control.closing.set()
        await serving
    assert not path.exists()


async def test_it_ends_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    looks: list[bool] = [False, True, False]

    async def idle() -> bool:
        return looks.pop(0) if looks else True

    control = Control(closing=asyncio.Event(), signals=False, idle=idle, idle_exit_s=0.04)
    await serve(APP, Listening(data_dir=tmp_path), control)
    assert looks == []


async def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        listening = Listening(data_dir=tmp_path, host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(CannotServe, match="in use"):
            await serve(APP, listening, Control(closing=asyncio.Event(), signals=False))
    assert not answers(tmp_path / "server.sock")


def test_one_server_for_one_folder(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with data_folder_lock(tmp_path), socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(path))
        alive.listen()
        with pytest.raises(AlreadyServed), data_folder_lock(tmp_path):
            pass
    with data_folder_lock(tmp_path):
        pass
