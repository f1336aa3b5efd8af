"""Server-sent events: a source of encoded events becomes a reply that ends with its token, its reader or the server."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from placet.server import problems
from placet.server.tokens import Principal

# Between two heartbeats, and between two looks at the token; short enough that a revocation ends the stream in time.
TICK_S = 4.0
# A reader that takes nothing for so long is gone or hostile.
SEND_WITHIN_S = 30.0
STREAMS_PER_TOKEN = 20
HEARTBEAT = b": still here\n\n"
END = b"event: end\ndata: {}\n\n"


def encode(data: bytes | str, *, kind: str, event_id: str) -> bytes:
    """One event. ``data`` is JSON on a single line."""
    text = data if isinstance(data, bytes) else data.encode("utf-8", errors="replace")
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event_id.encode("ascii"), kind.encode("ascii"), text)


def encode_refusal(code: str) -> bytes:
    """A last event that says why the server ends the stream before its end."""
    return b"event: refused\ndata: %s\n\n" % json.dumps({"code": code}).encode()


class StreamCounter:
    """How many streams each token has open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._open.total()

    def take(self, principal: Principal) -> None:
        """Count one more, or refuse."""
        if self._open[principal.token_id] >= STREAMS_PER_TOKEN:
            raise problems.Refusal(problems.TOO_MANY, headers={"retry-after": "5"})
        self._open[principal.token_id] += 1

    def give_back(self, principal: Principal) -> None:
        self._open[principal.token_id] -= 1
        if self._open[principal.token_id] <= 0:
            del self._open[principal.token_id]


@dataclass(frozen=True, kw_only=True)
class StreamEnds:
    """What ends a stream besides its source: the token, the server, and the place it takes."""

    still_valid: Callable[[], Awaitable[bool]]
    closing: asyncio.Event
    on_close: Callable[[], None]
    tick_s: float = TICK_S


class EventStream(Response):
    """Sends a source's events as they come, heartbeats between them, and ``end`` when the source is exhausted."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncIterator[bytes], ends: StreamEnds) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._source = source
        self._ends = ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        watchers: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(_disconnected(receive)),
            asyncio.ensure_future(self._ends.closing.wait()),
        }
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_in_time(send, await self._relay(send, watchers), more=False)
        except TimeoutError:
            pass  # the reader does not read: the connection is dropped with the reply unfinished
        finally:
            for watcher in watchers:
                watcher.cancel()
            self._ends.on_close()

    async def _relay(self, send: Send, watchers: set[asyncio.Future[Any]]) -> bytes:
        """Passes on what comes; returns what is to be said last."""
        checked_s = asyncio.get_running_loop().time()
        pending = asyncio.ensure_future(anext(self._source, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {pending, *watchers}, timeout=self._ends.tick_s, return_when=asyncio.FIRST_COMPLETED
                )
                if done & watchers:
                    return b""
                now_s = asyncio.get_running_loop().time()
                if now_s - checked_s >= self._ends.tick_s:
                    checked_s = now_s
                    if not await self._ends.still_valid():
                        return encode_refusal(problems.UNAUTHORIZED.code)
                if pending not in done:
                    await _send_in_time(send, HEARTBEAT)
                    continue
                event = pending.result()
                if event is None:
                    return END
                await _send_in_time(send, event)
                pending = asyncio.ensure_future(anext(self._source, None))
        finally:
            await _finish(pending, self._source)


async def _finish(pending: "asyncio.Future[bytes | None]", source: AsyncIterator[bytes]) -> None:
    pending.cancel()
    await asyncio.wait({pending})
    if not pending.cancelled():
        pending.exception()  # read, so that nobody complains that it was not
    await close(source)


async def close(source: AsyncIterator[object]) -> None:
    """Ends a source now, with what it holds, rather than whenever it is collected."""
    if isinstance(source, AsyncGenerator):
        await source.aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_in_time(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(SEND_WITHIN_S):
        await send({"type": "http.response.body", "body": body, "more_body": more})
