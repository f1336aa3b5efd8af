"""Quantities as people write them."""

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain import units


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("24GB", 24 * 10**9),
        ("24 GiB", 24 * 2**30),
        (24, 24 * 10**9),
        ("24", 24 * 10**9),
        (0.5, 5 * 10**8),
        ("512MB", 512 * 10**6),
        ("1.5TiB", 3 * 2**39),
        ("7b", 7),
    ],
)
def test_bytes(text: str | float, amount: int) -> None:
    assert units.parse_bytes(text) == amount


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("1d", 86400), ("500ms", Decimal("0.5"))],
)
def test_durations(text: str, seconds: Decimal) -> None:
    assert units.parse_duration_s(text) == seconds


@pytest.mark.parametrize(("text", "amount"), [("$5", "5"), ("1.50", "1.50"), ("5 USD", "5"), (10, "10")])
def test_money(text: str | int, amount: str) -> None:
    assert units.parse_money(text) == Decimal(amount)


def test_instants() -> None:
    assert units.parse_instant_ms("1970-01-01T01:00:00+01:00", now_ms=0) == 0
    assert units.parse_instant_ms("+2h", now_ms=5) == 7_200_005
    with pytest.raises(ValueError, match="zone"):
        units.parse_instant_ms("2026-12-31T18:00:00", now_ms=0)


BAD = ["", "x", "-1", "1 parsec", "1e9", "٣", "1GBB", "9" * 30, "NaN", "0x10", "1,5"]


@pytest.mark.parametrize("text", BAD)
def test_nonsense_is_a_sentence_not_a_number(text: str) -> None:
    for parse in (units.parse_bytes, units.parse_duration_s, units.parse_money):
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            parse(text)


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused_politely(text: str) -> None:
    for parse in (units.parse_bytes, units.parse_duration_s, units.parse_money):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.format_bytes(24 * 10**9), "24 GB"),
        (units.format_bytes(12), "12 B"),
        (units.format_duration_ms(850), "850 ms"),
        (units.format_duration_ms(245_000), "4m 05s"),
        (units.format_duration_ms(7_800_000), "2h 10m"),
        (units.format_money(Decimal("0.0012")), "$0.0012"),
        (units.format_money(Decimal(1234)), "$1,234.00"),
        (units.format_instant(0), "1970-01-01T00:00:00.000Z"),
    ],
)
def test_what_is_shown_is_short(shown: str, expected: str) -> None:
    assert shown == expected
