"""Server-sent events survive any cut of the byte stream and any hostile peer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.sdk.sse import LONGEST_EVENT_BYTES, EventParser, ServerEvent, StreamTooLarge

STREAM = (
    b': hello\n\nid: 1\nevent: event\ndata: {"a": 1}\n\n'
    b"id: 2\r\nevent: event\r\ndata: first\r\ndata: second\r\n\r\n"
    b"retry: 10\nunknown: x\n\ndata:\xc3\xa9\xff\n\nevent: end\ndata: {}\n\ndata: never finished"
)
EVENTS = [
    ServerEvent(kind="event", data='{"a": 1}', id="1"),
    ServerEvent(kind="event", data="first\nsecond", id="2"),
    ServerEvent(kind="message", data="é\N{REPLACEMENT CHARACTER}", id="2"),
    ServerEvent(kind="end", data="{}", id="2"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    parser = EventParser()
    pieces = [STREAM[start:stop] for start, stop in pairwise(places)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data: " + b"x" * 65_530 + b"\n"])
def test_what_never_ends_is_cut_off(piece: bytes) -> None:
    parser = EventParser()
    endless = (event for _ in range(2 + LONGEST_EVENT_BYTES // 65_000) for event in parser.feed(piece))
    with pytest.raises(StreamTooLarge):
        list(endless)
