"""The Docker Engine API over HTTP, as Docker and Podman serve it: calls, streams, errors; not what they are for.

No call is sent twice by itself. A failed call says whether it may have been carried out.
"""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from placet.adapters.providers.container import wire

# The oldest version that Docker 20.10 and Podman 4 serve and that has all we use; newer engines serve it too.
VERSION = "v1.40"
CONNECT_S = 5.0
CONNECTIONS, IDLE = 64, 8
PIECE_BYTES = 64 * 1024
MESSAGE_MAX = 2000

Json = dict[str, Any]  # a document of the engine


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where an engine is: ``unix:///path``, ``tcp://host:port`` or ``https://host:port``, and what opens it."""

    host: str
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @property
    def socket(self) -> str | None:
        """The path of its unix socket, if it has one."""
        parts = urlsplit(self.host)
        return parts.path if parts.scheme == "unix" else None


class Refused(Exception):
    """The engine answered, and not with success: ``status`` and its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message


class NotSent(Exception):
    """The engine could not be reached; the call was surely not carried out."""


class Unheard(Exception):
    """The call was sent, and no whole answer came: it may have been carried out."""


class EngineApi:
    """One connection pool to one engine. Constructing has no effects."""

    def __init__(self, address: Address, call_limit_s: float) -> None:
        self._address = address
        self._limit_s = call_limit_s
        self._client: httpx.AsyncClient | None = None

    def open(self) -> None:
        """Be ready to connect. Raises ``ValueError`` for an address that cannot be one, ``OSError`` for its files."""
        parts = urlsplit(self._address.host)
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=IDLE)
        if parts.scheme == "unix" and parts.path:
            transport = httpx.AsyncHTTPTransport(uds=parts.path, limits=limits, retries=0)
            transport._pool = wire.pool(parts.path, connections=CONNECTIONS, idle=IDLE)
            base = f"http://engine/{VERSION}"
        elif parts.scheme in ("tcp", "http", "https") and parts.hostname:
            tls = self._tls(parts.scheme)
            transport = httpx.AsyncHTTPTransport(verify=tls or False, limits=limits, retries=0)
            base = f"{'https' if tls else 'http'}://{parts.hostname}:{parts.port or (2376 if tls else 2375)}/{VERSION}"
        else:
            raise ValueError(f"{self._address.host!r} is no address of an engine: unix:///path or tcp://host:port")
        timeout = httpx.Timeout(self._limit_s, connect=min(CONNECT_S, self._limit_s))
        # No proxy and no redirect: an engine is spoken to directly. No compression: it would cost more than the way.
        headers = {"Accept-Encoding": "identity"}
        self._client = httpx.AsyncClient(
            transport=transport, base_url=base, timeout=timeout, headers=headers, trust_env=False
        )

    async def close(self) -> None:
        """Break off whatever is under way."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def get(self, path: str, /, **parameters: object) -> Any:
        """The decoded answer."""
        return _decoded(await self._call("GET", path, parameters))

    async def head(self, path: str, /, **parameters: object) -> None:
        """Only whether it is there: raises ``Refused`` with 404 if not."""
        await self._call("HEAD", path, parameters)

    async def post(self, path: str, body: object = None, /, **parameters: object) -> Any:
        """The decoded answer, ``None`` where it is empty."""
        return _decoded(await self._call("POST", path, parameters, json_body=body))

    async def delete(self, path: str, /, **parameters: object) -> None:
        """Delete it."""
        await self._call("DELETE", path, parameters)

    async def put(self, path: str, pieces: AsyncIterator[bytes], limit_s: float, /, **parameters: object) -> None:
        """Send a body in pieces; the limit is on each piece's way, not on the whole."""
        await self._call("PUT", path, parameters, pieces=pieces, limit_s=limit_s)

    async def send(self, path: str, body: bytes, /, **parameters: object) -> None:
        """Post raw bytes."""
        await self._call("POST", path, parameters, raw=body)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        /,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = None,
        **parameters: object,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer in pieces as they come; with ``silence_s`` it breaks off when nothing comes for so long."""
        request = self._request(method, path, parameters, headers=headers)
        connect_s = min(CONNECT_S, self._limit_s)
        request.extensions["timeout"] = httpx.Timeout(self._limit_s, connect=connect_s, read=silence_s).as_dict()
        response = await self._sent(request, streaming=True)
        try:
            if not response.is_success:
                raise Refused(response.status_code, _message(await response.aread()))
            yield _pieces(response)
        except httpx.HTTPError as error:
            raise Unheard(_said(error)) from error
        finally:
            await response.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, object],
        *,
        json_body: object = None,
        raw: bytes | None = None,
        pieces: AsyncIterator[bytes] | None = None,
        limit_s: float | None = None,
    ) -> httpx.Response:
        content: bytes | AsyncIterator[bytes] | None = pieces if pieces is not None else raw
        headers = {"Content-Type": "application/x-tar"} if content is not None else {}
        if json_body is not None:
            content, headers = json.dumps(json_body).encode(), {"Content-Type": "application/json"}
        request = self._request(method, path, parameters, headers=headers, content=content)
        if limit_s is not None:
            request.extensions["timeout"] = httpx.Timeout(limit_s, connect=CONNECT_S).as_dict()
        response = await self._sent(request, streaming=False)
        if not response.is_success and response.status_code != httpx.codes.NOT_MODIFIED:
            raise Refused(response.status_code, _message(response.content))
        return response

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, object],
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
    ) -> httpx.Request:
        if self._client is None:
            raise NotSent("the connection is closed")
        query = {name: _parameter(value) for name, value in parameters.items()}
        return self._client.build_request(method, path, params=query, headers=headers, content=content)

    async def _sent(self, request: httpx.Request, *, streaming: bool) -> httpx.Response:
        if self._client is None:
            raise NotSent("the connection is closed")
        try:
            return await self._client.send(request, stream=streaming)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(_said(error)) from error
        except httpx.HTTPError as error:
            raise Unheard(_said(error)) from error

    def _tls(self, scheme: str) -> ssl.SSLContext | None:
        files = self._address
        if scheme == "http" or (scheme == "tcp" and files.ca_file is None and files.certificate_file is None):
            return None
        context = ssl.create_default_context(cafile=files.ca_file)
        if files.certificate_file is not None:
            context.load_cert_chain(files.certificate_file, files.key_file)
        return context


def named(kind: str, name: str, verb: str = "") -> str:
    """The path of one thing, its name quoted."""
    return f"/{kind}/{quote(name, safe='')}{'/' + verb if verb else ''}"


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in response.aiter_bytes(PIECE_BYTES):
        yield piece


def _parameter(value: object) -> str:
    match value:
        case bool():
            return "1" if value else "0"
        case dict() | list():
            return json.dumps(value)
        case _:
            return str(value)


def _decoded(response: httpx.Response) -> Any:
    return response.json() if response.content.strip() else None


def _message(body: bytes) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:MESSAGE_MAX]
    if isinstance(document, dict):
        return str(document.get("message") or document.get("cause") or document)[:MESSAGE_MAX]
    return str(document)[:MESSAGE_MAX]


def _said(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
