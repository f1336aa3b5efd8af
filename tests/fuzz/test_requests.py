"""What comes in the headers of a request: cursors, ranges, lengths and keys. A value or a refusal of ours, at once."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.server.cursors import LogCursor, event_seq
from placet.server.problems import Refusal
from placet.server.ranges import asked_range
from tests.support.fuzzing import fuzz, soon

pieces = st.sampled_from(
    ["bytes=", "-", ",", "0", "7", "9" * 18, "9" * 40, " ", ":", "stdout", "stderr", "x", "²", "٣"]
)
texts = st.one_of(st.text(max_size=60), st.lists(pieces, max_size=8).map("".join))


@fuzz
@given(texts, st.integers(0, 2**62))
@example("bytes=-0", 0)
@example("bytes=0-", 0)
@example("bytes=-" + "9" * 100_000, 5)
@example("bytes=0-0", 1)
@example("bytes=²-", 5)
def test_a_range_lies_within_the_file(header: str, size: int) -> None:
    with soon():
        try:
            found = asked_range(header, size)
        except Refusal:
            return
    if found is not None:
        start, stop = found
        assert 0 <= start < stop <= size


@fuzz
@given(texts)
@example("0:stdout:0,0:stdout:0")
@example("1:stdout:0,2:stderr:0")
@example("1:stdout:0," * 10_000)
@example(",")
def test_a_cursor_is_read_back_or_refused(text: str) -> None:
    with soon():
        try:
            found = LogCursor.read(text)
        except Refusal:
            found = None
    if found is not None:
        assert LogCursor.read(str(found)) == found


@fuzz
@given(texts, st.integers(0, 2**40))
@example("²", 0)
@example("9" * 5_000, 0)
def test_the_id_of_an_event_is_a_number_or_refused(text: str, after: int) -> None:
    try:
        assert 0 <= event_seq(text, after) < 10**18
    except Refusal:
        return


def test_no_header_is_no_mistake() -> None:
    assert LogCursor.read(None) is None
    assert event_seq(None, 7) == 7
    assert asked_range(None, 7) is None
    with pytest.raises(Refusal):
        asked_range("bytes=9-", 7)
