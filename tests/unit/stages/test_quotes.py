"""Quotes: what they promise, when they no longer hold, and that nobody else can make one."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contract.codes import CODES
from placet.domain.forecasts import Forecast, Quantiles
from placet.stages.quotes import MARGIN, PREFIX, issue, judge, mark_of, read
from tests.support.values import NOW_MS

KEY = bytes(range(32))
DIGEST = "sha256:abc"
ONE = Quantiles(p10=Decimal(1), p50=Decimal(2), p90=Decimal("3.123457"))
EXPECTED = Forecast(cost_usd=ONE, start_s=ONE, run_s=ONE, finish_s=ONE)
LATER_MS = NOW_MS + 900_000
QUOTE = issue(KEY, "tenant", DIGEST, EXPECTED, LATER_MS)


def dearer(p90: str) -> Forecast:
    return replace(EXPECTED, cost_usd=replace(ONE, p90=Decimal(p90)))


def codes(text: str, *, tenant: str = "tenant", digest: str = DIGEST, expected: Forecast | None = EXPECTED,
          now_ms: int = NOW_MS) -> list[str]:  # fmt: skip
    found = judge(read(KEY, tenant, text), digest, expected, now_ms)
    assert all(one.field == "quote" and one.code in CODES and one.what and one.why and one.fix for one in found)
    return [one.code for one in found]


def test_a_quote_is_one_short_word_and_holds_in_the_same_world() -> None:
    assert QUOTE.text.startswith(PREFIX)
    assert len(QUOTE.text) == 66
    assert QUOTE.terms.bound_usd >= ONE.p90 * MARGIN
    assert read(KEY, "tenant", QUOTE.text) == QUOTE.terms
    assert codes(QUOTE.text) == []


def test_it_falls_when_the_world_moved_beyond_it() -> None:
    assert codes(QUOTE.text, now_ms=QUOTE.terms.expires_ms) == ["quote_expired"]
    assert codes(QUOTE.text, expected=dearer(str(QUOTE.terms.bound_usd))) == []
    assert codes(QUOTE.text, expected=dearer(str(QUOTE.terms.bound_usd + Decimal("0.000001")))) == ["quote_exceeded"]
    assert codes(QUOTE.text, expected=None) == ["quote_exceeded"]
    assert codes(QUOTE.text, digest="sha256:other") == ["quote_spec_changed"]
    assert codes(QUOTE.text, tenant="somebody else") == ["bad_quote"]


@pytest.mark.parametrize(
    "text", ["", "q1_", "q1_é", PREFIX + "A" * 63, QUOTE.text[:-2], QUOTE.text + "A", QUOTE.text[3:]]
)
def test_any_other_text_is_no_quote(text: str) -> None:
    assert codes(text) == ["bad_quote"]


@given(st.integers(0, 46), st.integers(1, 255))
def test_a_changed_byte_breaks_it(place: int, change: int) -> None:
    import base64

    packed = bytearray(base64.urlsafe_b64decode(QUOTE.text[3:] + "="))
    packed[place] ^= change
    assert read(KEY, "tenant", PREFIX + base64.urlsafe_b64encode(bytes(packed)).decode().rstrip("=")) is None


@given(st.decimals(0, 10**7, places=6), st.integers(0, 2**40 - 1), st.text(max_size=20), st.text(max_size=20))
def test_what_is_read_is_what_was_issued(p90: Decimal, expires_s: int, tenant: str, digest: str) -> None:
    made = issue(KEY, tenant, digest.encode("utf-8", "replace").decode(), dearer(str(p90)), expires_s * 1000)
    assert read(KEY, tenant, made.text) == made.terms
    assert made.terms.mark == mark_of(digest.encode("utf-8", "replace").decode())
    assert p90 <= made.terms.bound_usd <= p90 * MARGIN + Decimal("0.000001")


def test_what_costs_nothing_may_cost_nothing_later() -> None:
    free = issue(KEY, "tenant", DIGEST, dearer("0"), LATER_MS)
    assert codes(free.text, expected=dearer("0")) == []
    assert codes(free.text, expected=dearer("0.01")) == ["quote_exceeded"]
