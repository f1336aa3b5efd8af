"""The asyncio driver: sends the core's requests with httpx, repeats what may be repeated, follows streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import httpx

from placet.sdk.errors import Unreachable
from placet.sdk.location import Location
from placet.sdk.sse import EventParser, ServerEvent, StreamTooLarge
from placet.sdk.transport import NOT_SENT, STREAM_TIMEOUT, TIMEOUT
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
    """One server. ``revive`` is called when it cannot be connected to, and may start it again."""

    def __init__(self, location: Location, revive: Callable[[], None] | None = None) -> None:
        self._location = location
        self._revive = revive
        transport = httpx.AsyncHTTPTransport(uds=str(location.socket)) if location.socket else None
        self._http = httpx.AsyncClient(
            base_url=location.url, transport=transport, timeout=TIMEOUT, follow_redirects=False
        )

    async def close(self) -> None:
        """Close idle connections."""
        await self._http.aclose()

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
            if not sent and self._revive is not None:
                await asyncio.to_thread(self._revive)
            await asyncio.sleep(pause_s(tries, reply))
        if reply is None:
            raise Unreachable(f"no answer from {self._place()}: {fault}") from fault
        return call.result(reply)

    async def follow(self, request: Request) -> AsyncIterator[ServerEvent]:
        """The events of a stream to its end, over as many connections as it takes; none is lost or given twice."""
        last: str | None = None
        failures = 0
        while True:
            try:
                async for event in self._events(resumed(request, last)):
                    if event.kind == STREAM_END:
                        return
                    if event.kind == STREAM_REFUSED:
                        raise stream_refusal(event.data)
                    last, failures = event.id or last, 0
                    yield event
                fault: Exception | None = None
            except (httpx.TransportError, StreamTooLarge) as error:
                fault = error
            failures += 1
            if not should_repeat(request, failures, None, sent=True):
                raise Unreachable(f"the stream from {self._place()} broke: {fault}") from fault
            if isinstance(fault, NOT_SENT) and self._revive is not None:
                await asyncio.to_thread(self._revive)
            await asyncio.sleep(pause_s(failures, None))

    async def pieces(self, request: Request) -> AsyncIterator[bytes]:
        """A body in pieces, for what may be large; a broken connection is for the caller to resume."""
        async with self._http.stream(
            request.method, request.path, params=request.query, headers=headers_for(request, self._location.token)
        ) as response:
            await self._refuse(response)
            async for piece in response.aiter_raw():
                yield piece

    async def _events(self, request: Request) -> AsyncIterator[ServerEvent]:
        parser = EventParser()
        async with self._http.stream(
            request.method,
            request.path,
            params=request.query,
            headers=headers_for(request, self._location.token),
            timeout=STREAM_TIMEOUT,
        ) as response:
            await self._refuse(response)
            async for piece in response.aiter_raw():
                for event in parser.feed(piece):
                    yield event

    async def _once(self, request: Request) -> tuple[Reply | None, Exception | None]:
        try:
            response = await self._http.request(
                request.method,
                request.path,
                params=request.query,
                headers=headers_for(request, self._location.token),
                content=request.body,
            )
        except httpx.TransportError as error:
            return None, error
        return Reply(status=response.status_code, headers=response.headers, body=response.content), None

    async def _refuse(self, response: httpx.Response) -> None:
        if response.status_code >= 400:
            body = await response.aread()
            raise refusal(Reply(status=response.status_code, headers=response.headers, body=body))

    def _place(self) -> str:
        return str(self._location.socket or self._location.url)
