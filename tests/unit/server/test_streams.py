"""A stream ends with its source, its token, its reader or the server, and never in silence while it lives."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from placet.server import streams
from placet.server.problems import Refusal
from placet.server.tokens import Principal
from tests.support.asgi import Answer, call, http_scope

SCOPE = http_scope("GET", "/v1/events")


class Stage:
    """A stream's surroundings."""

    def __init__(self, tick_s: float = 0.01) -> None:
        self.valid = True
        self.closing = asyncio.Event()
        self.closed = 0
        self.tick_s = tick_s

    def ends(self) -> streams.StreamEnds:
        async def still_valid() -> bool:
            return self.valid

        def on_close() -> None:
            self.closed += 1

        return streams.StreamEnds(still_valid=still_valid, closing=self.closing, on_close=on_close, tick_s=self.tick_s)

    async def run(self, source: AsyncIterator[bytes], *, leave: bool = False) -> Answer:
        answer = await call(streams.EventStream(source, self.ends()), dict(SCOPE), leave=leave)
        assert self.closed == 1
        return answer


async def two() -> AsyncIterator[bytes]:
    yield streams.encode('{"a":1}', kind="event", event_id="1")
    yield streams.encode(b"{}", kind="event", event_id="2")


async def silent(gone: asyncio.Event) -> AsyncIterator[bytes]:
    try:
        yield streams.encode(b"{}", kind="event", event_id="1")
        await asyncio.Event().wait()
    finally:
        gone.set()


async def test_all_events_and_then_the_end() -> None:
    answer = await Stage(tick_s=9).run(two())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answer.headers
    assert answer.body == b'id: 1\nevent: event\ndata: {"a":1}\n\nid: 2\nevent: event\ndata: {}\n\n' + streams.END


async def test_a_revoked_token_ends_it() -> None:
    stage, gone = Stage(), asyncio.Event()
    stage.valid = False
    answer = await stage.run(silent(gone))
    assert answer.body.endswith(b'event: refused\ndata: {"code": "unauthorized"}\n\n')
    assert gone.is_set()


async def test_a_reader_who_leaves_ends_it() -> None:
    gone = asyncio.Event()
    answer = await Stage(tick_s=9).run(silent(gone), leave=True)
    assert streams.END not in answer.body
    assert gone.is_set()


async def test_heartbeats_until_the_server_stops() -> None:
    stage, gone = Stage(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, stage.closing.set)
    answer = await stage.run(silent(gone))
    assert streams.HEARTBEAT in answer.body
    assert streams.END not in answer.body
    assert gone.is_set()


async def test_a_source_that_breaks_is_not_an_end() -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b""
        raise OSError("disk")

    stage = Stage()
    with pytest.raises(OSError, match="disk"):
        await stage.run(breaking())
    assert stage.closed == 1


def test_a_token_has_so_many_streams() -> None:
    counter = streams.StreamCounter()
    principal = Principal(token_id="a", tenant="t", scopes=frozenset())
    for _ in range(streams.STREAMS_PER_TOKEN):
        counter.take(principal)
    with pytest.raises(Refusal):
        counter.take(principal)
    counter.take(Principal(token_id="b", tenant="t", scopes=frozenset()))
    counter.give_back(principal)
    counter.take(principal)
    assert counter.total == streams.STREAMS_PER_TOKEN + 1
