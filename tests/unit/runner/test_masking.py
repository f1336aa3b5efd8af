"""What a program writes is stored without the values of its secrets, wherever the writes are cut."""

import base64
import html
import json
import re
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.runner.masking import LEAST_BYTES, Mask, Masked

CANARY = "ca\"nary'first <line> 100%+ é/\nsecond & last $line of a long canary 0123456789"


def through(mask: Mask, *pieces: bytes) -> bytes:
    masked = Masked(mask)
    fed = [masked.feed(piece) for piece in pieces]
    return b"".join((*fed, masked.end()))


def encodings(value: str) -> dict[str, bytes]:
    data = value.encode()
    return {
        "raw": data,
        "base64 at 0": base64.b64encode(b"" + data + b"tail"),
        "base64 at 1": base64.b64encode(b"x" + data + b"tail"),
        "base64 at 2": base64.b64encode(b"xy" + data),
        "base64 for URLs": base64.urlsafe_b64encode(b"x" + data),
        "percent": quote(value, safe="").encode(),
        "percent with slashes": quote(value).encode(),
        "percent with plus": quote_plus(value).encode(),
        "percent in small letters": re.sub("%..", lambda two: two[0].lower(), quote(value, safe="")).encode(),
        "JSON": json.dumps(value).encode(),
        "JSON with letters": json.dumps(value, ensure_ascii=False).encode(),
        "HTML": html.escape(value).encode(),
        "HTML without quotes": html.escape(value, quote=False).encode(),
        "shell": shlex.quote(value).encode(),
        "shell with backslashes": value.replace("'", "'\\''").encode(),
        "Python": repr(value).encode(),
        "hex": data.hex().encode(),
        "HEX": data.hex().upper().encode(),
        "CRLF": value.replace("\n", "\r\n").encode(),
        "first line": value.split("\n", 1)[0].encode(),
        "last line": value.split("\n")[1].encode(),
    }


@pytest.mark.parametrize("form", list(encodings(CANARY)))
def test_each_form_is_hidden_wherever_it_is_cut(form: str) -> None:
    text, mask = encodings(CANARY)[form], Mask([CANARY])
    whole = b"before [" + text + b"] after\n"
    hidden = through(mask, whole)
    assert len(hidden) == len(whole)
    assert (hidden[:8], hidden[-8:]) == (b"before [", b"] after\n")
    kept = bytes(letter for letter in hidden[8:-8] if letter != ord("*"))
    # The quotes around, and the letters of base64 that also depend on what is beside the value.
    assert len(kept) <= 10, kept
    for cut in range(1, len(whole)):
        assert through(mask, whole[:cut], whole[cut:]) == hidden, cut
    assert through(mask, *(whole[at : at + 1] for at in range(len(whole)))) == hidden


@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.text(min_size=4, max_size=12), min_size=1, max_size=3))
def test_cuts_change_nothing_and_what_is_not_hidden_stays(pieces: list[bytes], values: list[str]) -> None:
    mask = Mask(values)
    whole = b"".join(pieces)
    hidden = through(mask, *pieces)
    assert hidden == through(mask, whole)
    assert len(hidden) == len(whole)
    assert all(after in (before, ord("*")) for before, after in zip(whole, hidden, strict=True))


@given(st.data())
def test_no_value_is_found_again(data: st.DataObject) -> None:
    value = data.draw(
        st.text(alphabet="abxy\n", min_size=LEAST_BYTES, max_size=12).filter(lambda v: len(v.strip()) > 3)
    )
    around = st.lists(st.sampled_from([value, value[:-1], value[1:], "a", "b", " "]), max_size=6)
    text = "".join(data.draw(around)).encode()
    size = data.draw(st.integers(1, 7))
    hidden = through(Mask([value]), *(text[at : at + size] for at in range(0, len(text), size)))
    assert value.encode() not in hidden


def test_only_what_may_begin_a_value_waits() -> None:
    masked = Masked(Mask(["sesame-open"]))
    assert masked.feed(b"a line\n") == b"a line\n"
    assert masked.feed(b"ses") == b""
    assert masked.waiting_bytes == 3
    assert masked.feed(b"h\n") == b"sesh\n"
    assert masked.feed(b"sesame-ope") == b""
    assert masked.end() == b"sesame-ope"
    assert masked.waiting_bytes == 0


def test_overlapping_values_are_hidden_as_one() -> None:
    assert through(Mask(["abcdef", "defghi"]), b"1abcde", b"fghi2") == b"1*********2"


def test_what_is_too_short_is_no_value() -> None:
    assert through(Mask(["abc", "", "\n"]), b"abc abc\n") == b"abc abc\n"
