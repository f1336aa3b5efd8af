"""Amounts of memory, durations, money and dates: a value within its bounds, or ``ValueError`` with a short sentence."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.catalog.rows import number, whole
from placet.domain.units import (
    BYTES_MAX,
    DURATION_S_MAX,
    FIRST_MS,
    LAST_MS,
    MONEY_MAX,
    format_bytes,
    format_duration_ms,
    format_instant,
    format_money,
    parse_bytes,
    parse_duration_s,
    parse_instant_ms,
    parse_money,
)
from tests.support.fuzzing import fuzz, soon

SENTENCE_MAX = 300
NOW_MS = 1_800_000_000_000

pieces = st.sampled_from(
    ["0", "7", "24", "999999999999", "1" * 18, "9" * 30, ".", "-", "+", " ", "e", "E5", "$", "USD", "GB", "GiB", "ki",
     "ms", "s", "m", "h", "d", "T", ":", "Z", "2026-12-31", "0001-01-01", "9999-12-31", "23:59:59", "+14:00", "²",
     "٣", "_", "\u2009", "nan", "inf", "0x1", ",", "\x00", "\ud800", "W53-7", "24:00"]
)  # fmt: skip
texts = st.one_of(st.text(max_size=40), st.lists(pieces, max_size=7).map("".join), st.just("9h" * 3_000))
written = st.one_of(
    texts, st.integers(), st.floats(), st.decimals(), st.booleans(), st.integers(0, 10).map(lambda n: 10**n * 10**n)
)
READERS: list[tuple[Callable[[object], object], object, object]] = [
    (parse_bytes, 0, BYTES_MAX),
    (parse_duration_s, Decimal(0), Decimal(DURATION_S_MAX)),
    (parse_money, Decimal(0), MONEY_MAX),
]


def assert_sentence(error: ValueError) -> None:
    assert 0 < len(str(error)) < SENTENCE_MAX


@pytest.mark.parametrize(("read", "least", "most"), READERS, ids=lambda value: getattr(value, "__name__", None))
@fuzz
@given(value=written)
@example(value=10**5_000)
@example(value=Decimal("1E+999999999"))
@example(value=Decimal("sNaN"))
@example(value=float("inf"))
@example(value="9" * 100_000)
@example(value="1" + " " * 100_000 + "s")
@example(value="1h" * 50_000 + "x")
def test_a_quantity_is_within_bounds_or_refused(
    read: Callable[[object], object], least: object, most: object, value: object
) -> None:
    with soon():
        try:
            amount = read(value)
        except ValueError as error:
            assert_sentence(error)
            return
    assert least <= amount <= most  # type: ignore[operator] # both are numbers of one kind
    for show in (format_bytes, format_money):
        show(amount)  # type: ignore[operator] # what was read can be shown
    format_duration_ms(int(amount))  # type: ignore[call-overload] # the same


@fuzz
@given(texts)
@example("0001-01-01T00:00:00+14:00")
@example("9999-12-31T23:59:59.999999-23:59")
@example("+" + "9" * 5_000 + "d")
@example("2026-W53-7T24:00Z")
def test_a_date_can_be_written_again_or_is_refused(text: str) -> None:
    try:
        at_ms = parse_instant_ms(text, now_ms=NOW_MS)
    except ValueError as error:
        assert_sentence(error)
        return
    assert FIRST_MS <= at_ms <= LAST_MS
    assert parse_instant_ms(format_instant(at_ms), now_ms=0) == at_ms


@fuzz
@given(texts)
@example("1e-99999999999999999999")
@example("1E+1000000000")
@example("-0E+15")
def test_a_number_of_a_price_list_can_be_computed_with_or_is_refused(text: str) -> None:
    for read in (number, whole):
        with soon():
            try:
                value = read(text)
            except ValueError:
                continue
            assert value is None or abs(value) < 10**16
