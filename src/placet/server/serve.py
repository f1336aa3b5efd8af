"""Listening: the lock of the data folder, the sockets, and uvicorn on them until told to stop. It knows no routes."""

import asyncio
import contextlib
import fcntl
import ipaddress
import os
import signal
import socket
import ssl
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from placet.sdk import places
from placet.sdk.location import answers
from placet.server.protocol import BoundedProtocol

BACKLOG = 512
KEEP_ALIVE_S = 30
LOCK_WITHIN_S = 20.0
TICK_S = 1.0


class CannotServe(Exception):
    """The server cannot listen as it was told; the message says what to change."""


class AlreadyServed(CannotServe):
    """Another server of the same data folder is alive."""


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where to listen; without a host only on the unix socket."""

    data_dir: Path
    host: str | None = None
    port: int = 0
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    allow_remote_without_tls: bool = False
    shutdown_s: float = 10.0

    @property
    def exposed(self) -> bool:
        """Can other machines reach it?"""
        return self.host is not None and not _is_loopback(self.host)


@dataclass(kw_only=True)
class Control:
    """How the serving is steered from outside: ``closing`` is set to end it, ``ready`` called when it listens."""

    closing: asyncio.Event
    ready: Callable[[str | None], None] = lambda _: None
    idle: Callable[[], Awaitable[bool]] | None = None
    idle_exit_s: float = 20.0
    signals: bool = True


@contextlib.contextmanager
def data_folder_lock(data_dir: Path, stamp: str = "") -> Generator[None, None, None]:
    """One server for one data folder. Waits for one that is just ending. ``stamp`` says which settings it has read.

    Raises:
        AlreadyServed: another server holds the lock and answers, or does not let go.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(data_dir.stat().st_mode) & 0o077:
        data_dir.chmod(0o700)
    descriptor = os.open(places.lock_path(data_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, data_dir)
        with contextlib.suppress(OSError):  # a full disk: nobody is told then that other settings are not in effect
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{places.STAMPED}\n{stamp}\n".encode("utf-8", "surrogateescape"), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, data_dir: Path) -> None:
    patience = threading.Event()
    deadline = time.monotonic() + LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if answers(places.socket_path(data_dir)) or time.monotonic() > deadline:
                raise AlreadyServed(f"another server already serves {data_dir}") from None
        patience.wait(0.05)


def check_exposure(listening: Listening) -> None:
    """Loopback needs nothing; anything else needs TLS, or a person who says that something in front does it.

    Raises:
        CannotServe: the address is reachable from elsewhere and the traffic would be in the clear.
    """
    if not listening.exposed:
        return
    if listening.tls_certificate is None and not listening.allow_remote_without_tls:
        raise CannotServe(
            f"{listening.host} can be reached from other machines and there is no TLS: tokens would travel in the "
            "clear. Set server.tls_certificate and server.tls_key, or, with TLS in front, "
            "server.allow_remote_without_tls."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def serve(app: ASGIApp, listening: Listening, control: Control) -> None:
    """Listen until ``control.closing`` is set, a signal comes, or there has been nothing to do for long enough.

    Raises:
        CannotServe: a socket cannot be had.
    """
    check_exposure(listening)
    with contextlib.ExitStack() as stack:
        unix = stack.enter_context(_unix_socket(places.socket_path(listening.data_dir)))
        listeners = [_Listener(_config(app, listening, tls=False), unix, control.closing)]
        address = None
        if listening.host is not None:
            tcp = _tcp_socket(listening.host, listening.port)
            address = f"{'https' if listening.tls_certificate else 'http'}://{_shown(tcp)}"
            listeners.append(_Listener(_config(app, listening, tls=True), tcp, control.closing))
        if control.signals and threading.current_thread() is threading.main_thread():
            stack.enter_context(_signals(control.closing))
        await _run(listeners, control, address)


async def _run(listeners: list["_Listener"], control: Control, address: str | None) -> None:
    async with asyncio.TaskGroup() as group:
        for listener in listeners:
            group.create_task(listener.serve_socket())
        watch = group.create_task(_leave_when_idle(control)) if control.idle is not None else None
        for listener in listeners:
            await listener.listening.wait()
        control.ready(address)
        await control.closing.wait()
        if watch is not None:
            watch.cancel()


async def _leave_when_idle(control: Control) -> None:
    """Sets ``closing`` once every look during the idle time found nothing to do."""
    assert control.idle is not None
    loop = asyncio.get_running_loop()
    idle_since_s: float | None = None
    while not control.closing.is_set():
        idle = await control.idle()
        now_s = loop.time()
        if not idle:
            idle_since_s = None
        elif idle_since_s is None:
            idle_since_s = now_s
        elif now_s - idle_since_s >= control.idle_exit_s:
            control.closing.set()
        await _wait_for(control.closing, min(TICK_S, control.idle_exit_s / 4))


class _Listener(uvicorn.Server):
    """uvicorn on one socket that is already bound, steered by an event in place of signals and polling."""

    def __init__(self, config: uvicorn.Config, bound: socket.socket, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._bound = bound
        self._closing = closing
        self.listening = asyncio.Event()

    async def serve_socket(self) -> None:
        await self.serve(sockets=[self._bound])

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        self.listening.set()
        while not self._closing.is_set():
            await self.on_tick(0)  # keeps the Date header current
            await _wait_for(self._closing, TICK_S)
        self.should_exit = True


async def _wait_for(event: asyncio.Event, longest_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()


def _config(app: ASGIApp, listening: Listening, *, tls: bool) -> uvicorn.Config:
    secured = tls and listening.tls_certificate is not None
    return uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(listening.shutdown_s)),
        http=BoundedProtocol,
        ws="none",
        ssl_certfile=listening.tls_certificate if secured else None,
        ssl_keyfile=listening.tls_key if secured else None,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )


@contextlib.contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    """A socket only its owner can reach; a stale one is replaced, for the caller holds the data folder's lock."""
    bound = _bind_unix(path)
    try:
        yield bound
    finally:
        bound.close()
        path.unlink(missing_ok=True)


def _bind_unix(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_uid != os.getuid():
            raise CannotServe(f"{path.parent} belongs to somebody else")
        path.unlink(missing_ok=True)
        os.fchmod(bound.fileno(), 0o600)  # on Linux the file gets the descriptor's mode: no moment with a wider one
        bound.bind(str(path))
        path.chmod(0o600)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise CannotServe(f"cannot listen on {path}: {error.strerror}") from error
    except CannotServe:
        bound.close()
        raise
    return bound


def _tcp_socket(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotServe(f"cannot listen on {host}: {error.strerror}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise CannotServe(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return bound


def _shown(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _signals(closing: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, closing.set)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
