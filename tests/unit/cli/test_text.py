"""Foreign text cannot steer a terminal, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.cli.text import CONTROLS, LogCleaner, clean, one_line

HOSTILE = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x9b2Jgone", "gone"),
    ("a\rb", "ab"),
    ("a\x08b\x00c", "abc"),
    ("\u202egpj.exe", "gpj.exe"),
    ("zero\u200bwidth", "zerowidth"),
    ("tab\tand\r\nline\n", "tab\tand\nline\n"),
    ("\x1bc\x1b(Breset", "reset"),
    ("café ☕ 文字", "café ☕ 文字"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_sequences_go_and_words_stay(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
@given(data=st.data())
def test_a_cut_hides_nothing(text: str, shown: str, data: st.DataObject) -> None:
    raw = text.encode()
    place = data.draw(st.integers(0, len(raw)))
    cleaner = LogCleaner()
    assert cleaner.feed(raw[:place]) + cleaner.feed(raw[place:]) + cleaner.end() == shown


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_bring_a_control_through(pieces: list[bytes]) -> None:
    cleaner = LogCleaner()
    text = "".join(map(cleaner.feed, pieces)) + cleaner.end()
    assert not CONTROLS.search(text)
    assert "\x1b" not in text


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\tc\x1b[2J  d") == "a b c d"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
