"""POST to addresses that strangers named: guarded at every delivery, no redirects, no proxies, only a status is kept.

The name is looked up once, every address is checked, and the connection goes to a checked one; the certificate is
still that of the name.
"""

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping, Sequence

import httpcore

from placet.ports.hooks import Answer
from placet.runner import guard

CONNECT_S = 5.0
WITHIN_S = 20.0
READ_MAX = 4096
UNREACHABLE = "it cannot be reached"


class _Refused(Exception):
    """The address may not be sent to."""


class _Guarded(httpcore.AsyncNetworkBackend):
    """Connects to a checked address of the host and to nothing else."""

    def __init__(self, target: guard.Target, allowed_hosts: Sequence[str]) -> None:
        self._target = target
        self._allowed = allowed_hosts
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del host  # the target was taken apart once
        try:
            found = await asyncio.to_thread(guard.addresses, self._target, self._allowed)
        except guard.Refused as refused:
            raise _Refused(str(refused)) from None
        return await self._network.connect_tcp(found[0], port, timeout, local_address, socket_options)


class GuardedSender:
    """``Sender`` over HTTP/1.1. ``allowed_hosts`` are the private ones that the operator has listed."""

    def __init__(self, allowed_hosts: Sequence[str] = ()) -> None:
        self._allowed = tuple(allowed_hosts)

    def refusal(self, url: str) -> str | None:
        try:
            target = guard.parse(url, self._allowed)
            ipaddress.ip_address(target.host)
            guard.addresses(target, self._allowed)  # a number needs no look-up
        except guard.Refused as refused:
            return str(refused)
        except ValueError:
            return None  # a name: what it leads to is seen when it is sent to
        return None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            target = guard.parse(url, self._allowed)
        except guard.Refused as refused:
            return Answer(problem=str(refused), never=True)
        try:
            async with asyncio.timeout(WITHIN_S):
                return Answer(status=await self._posted(target, headers, body))
        except _Refused as refused:
            return Answer(problem=str(refused))
        except TimeoutError:
            return Answer(problem=f"it did not answer within {WITHIN_S:g} s")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError):
            return Answer(problem=UNREACHABLE)  # no more is said: it would tell strangers about our network

    async def _posted(self, target: guard.Target, headers: Mapping[str, str], body: bytes) -> int:
        network = _Guarded(target, self._allowed)
        said = [
            ("host", target.authority),
            ("content-length", str(len(body))),
            ("connection", "close"),
            *headers.items(),
        ]
        timeouts = {"connect": CONNECT_S, "read": WITHIN_S, "write": WITHIN_S}
        async with (
            httpcore.AsyncConnectionPool(network_backend=network, max_connections=1, retries=0) as pool,
            pool.stream("POST", target.url, headers=said, content=body, extensions={"timeout": timeouts}) as answer,
        ):
            read = 0
            async for piece in answer.aiter_stream():
                read += len(piece)
                if read >= READ_MAX:
                    break
            return answer.status
