"""Unix sockets for httpx by asyncio's own streams. The ones that come with it may complain when a read is broken off at
the moment at which something arrives, and our reads are broken off often.
"""

# ruff: noqa: ASYNC109, ARG002 - the interface is not ours

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

LIMIT_BYTES = 1024 * 1024


class UnixSockets(httpcore.AsyncNetworkBackend):
    """Connects to unix sockets, and to nothing else."""

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        del socket_options
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_unix_connection(path, limit=LIMIT_BYTES)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.UnsupportedProtocol("no TLS over a unix socket")

    def get_extra_info(self, info: str) -> Any:
        """Only what is asked of a connection that lies idle: has the other side closed it?"""
        return self._reader.at_eof() if info == "is_readable" else None


def pool(path: str, *, connections: int, idle: int) -> httpcore.AsyncConnectionPool:
    """Connections to one socket."""
    return httpcore.AsyncConnectionPool(
        uds=path,
        max_connections=connections,
        max_keepalive_connections=idle,
        keepalive_expiry=5.0,
        network_backend=UnixSockets(),
    )
