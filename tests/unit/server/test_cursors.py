"""Ids of streams and ranges of bytes: ours come back whole, everything else is refused or ignored, never a fault."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.server.cursors import LogCursor, event_seq
from placet.server.problems import Refusal
from placet.server.ranges import asked_range

STREAMS = ("stdout", "stderr", "install")


def status_or_value(function: Callable[..., object], *arguments: object) -> object:
    """What it gives, or the status of its refusal."""
    try:
        return function(*arguments)
    except Refusal as refusal:
        return refusal.code.status


@given(
    st.integers(1, 10**6),
    st.dictionaries(st.sampled_from(STREAMS), st.integers(0, 10**17), min_size=1),
)
def test_a_cursor_comes_back_as_it_went(epoch: int, offsets: dict[str, int]) -> None:
    cursor = LogCursor(epoch=epoch, offsets=offsets)
    assert LogCursor.read(str(cursor)) == cursor


@given(st.text(alphabet="0123456789:,stdouerinal \n", max_size=60))
def test_any_other_text_is_refused_and_never_a_fault(text: str) -> None:
    found = status_or_value(LogCursor.read, text)
    assert found == 400 or LogCursor.read(str(found)) == found


def test_only_the_moved_stream_moves() -> None:
    cursor = LogCursor(epoch=2, offsets={"stdout": 1, "stderr": 7}).moved("stdout", 9)
    assert str(cursor) == "2:stdout:9,2:stderr:7"


def test_what_was_seen_wins_over_what_was_asked() -> None:
    assert event_seq(None, 3) == 3
    assert event_seq("7", 3) == 7
    with pytest.raises(Refusal):
        event_seq("seven", 3)


@given(st.text(alphabet="bytes=0123456789-, ", max_size=30), st.integers(0, 50))
def test_a_range_lies_inside_or_is_none(header: str, size_bytes: int) -> None:
    found = status_or_value(asked_range, header, size_bytes)
    match found:
        case (start, stop):
            assert 0 <= start < stop <= size_bytes
        case _:
            assert found in (None, 416)
