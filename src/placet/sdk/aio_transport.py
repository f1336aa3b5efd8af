"""The asyncio driver: sends the core's requests with httpx, repeats what may be repeated, follows streams."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import httpx

from placet.sdk.connection import Connection
from placet.sdk.errors import Unreachable, WaitTimeout
from placet.sdk.sse import EventParser, ServerEvent, StreamTooLarge
from placet.sdk.transport import CONNECT_S, NOT_SENT, SILENCE_S, TIMEOUT
from placet.sdk.wire import (
    STREAM_END,
    STREAM_REFUSED,
    Call,
    Reply,
    Request,
    headers_for,
    pause_s,
    refusal,
    resumed,
    should_repeat,
    stream_refusal,
)

T = TypeVar("T")


class AsyncTransport:
    """One server, settled at the first use; it may be started again when it cannot be connected to."""

    def __init__(self, settle: Callable[[], Connection]) -> None:
        self._settle = settle
        self._settling = asyncio.Lock()
        self._settled: tuple[Connection, httpx.AsyncClient] | None = None

    async def close(self) -> None:
        """Close idle connections."""
        if self._settled is not None:
            await self._settled[1].aclose()

    async def send(self, call: Call[T]) -> T:
        """The result of a call.

        Raises:
            Unreachable: no server answered.
            ApiError: the server refused.
        """
        tries = 0
        while True:
            tries += 1
            reply, fault = await self._once(call.request)
            sent = not isinstance(fault, NOT_SENT)
            if not should_repeat(call.request, tries, reply, sent=sent):
                break
            if not sent:
                await self._revive()
            await asyncio.sleep(pause_s(tries, reply))
        if reply is None:
            raise Unreachable(f"no answer from {self._place()}: {fault}") from fault
        return call.result(reply)

    async def follow(self, request: Request, *, within_s: float | None = None) -> AsyncIterator[ServerEvent]:
        """The events of a stream to its end, over as many connections as it takes; none is lost or given twice.

        Raises:
            WaitTimeout: the stream did not end within the time.
        """
        deadline_s = math.inf if within_s is None else time.monotonic() + within_s
        last: str | None = None
        failures = 0
        while True:
            try:
                async for event in self._events(resumed(request, last), deadline_s):
                    if event.kind == STREAM_END:
                        return
                    if event.kind == STREAM_REFUSED:
                        raise stream_refusal(event.data)
                    last, failures = event.id or last, 0
                    yield event
                fault: Exception | None = None
            except (httpx.TransportError, StreamTooLarge) as error:
                fault = error
            if time.monotonic() >= deadline_s:
                raise WaitTimeout("the workload has not finished within the time; it goes on")
            failures += 1
            if not should_repeat(request, failures, None, sent=True):
                raise Unreachable(f"the stream from {self._place()} broke: {fault}") from fault
            if isinstance(fault, NOT_SENT):
                await self._revive()
            await asyncio.sleep(pause_s(failures, None))

    async def pieces(self, request: Request) -> AsyncIterator[bytes]:
        """A body in pieces, for what may be large; a broken connection is for the caller to resume."""
        connection, http = await self._open()
        async with http.stream(
            request.method, request.path, params=request.query, headers=headers_for(request, connection.location.token)
        ) as response:
            await self._refuse(response)
            async for piece in response.aiter_raw():
                yield piece

    async def _events(self, request: Request, deadline_s: float) -> AsyncIterator[ServerEvent]:
        """Ends early, with the connection, once the time is over."""
        parser = EventParser()
        silence_s = max(0.001, min(SILENCE_S, deadline_s - time.monotonic()))
        connection, http = await self._open()
        async with http.stream(
            request.method,
            request.path,
            params=request.query,
            headers=headers_for(request, connection.location.token),
            timeout=httpx.Timeout(silence_s, connect=CONNECT_S),
        ) as response:
            await self._refuse(response)
            async for piece in response.aiter_raw():
                for event in parser.feed(piece):
                    yield event
                if time.monotonic() >= deadline_s:
                    return

    async def _once(self, request: Request) -> tuple[Reply | None, Exception | None]:
        connection, http = await self._open()
        try:
            response = await http.request(
                request.method,
                request.path,
                params=request.query,
                headers=headers_for(request, connection.location.token),
                content=request.body,
            )
        except httpx.TransportError as error:
            return None, error
        return Reply(status=response.status_code, headers=response.headers, body=response.content), None

    async def _refuse(self, response: httpx.Response) -> None:
        if response.status_code >= 400:
            body = await response.aread()
            raise refusal(Reply(status=response.status_code, headers=response.headers, body=body))

    async def _open(self) -> tuple[Connection, httpx.AsyncClient]:
        """Settles where to connect at the first use, in a thread: a server may have to be started."""
        async with self._settling:
            if self._settled is None:
                connection = await asyncio.to_thread(self._settle)
                location = connection.location
                transport = httpx.AsyncHTTPTransport(uds=str(location.socket)) if location.socket else None
                http = httpx.AsyncClient(
                    base_url=location.url, transport=transport, timeout=TIMEOUT, follow_redirects=False
                )
                self._settled = (connection, http)
        return self._settled

    async def _revive(self) -> None:
        connection, _ = await self._open()
        if connection.revive is not None:
            await asyncio.to_thread(connection.revive)

    def _place(self) -> str:
        if self._settled is None:
            return "the server"
        location = self._settled[0].location
        return str(location.socket or location.url)
