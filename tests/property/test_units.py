"""Instants are written exactly as the standard library writes them."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.units import format_instant, parse_instant_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS, LAST_MS = (
    (moment - EPOCH) // timedelta(milliseconds=1)
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)


@given(st.integers(FIRST_MS, LAST_MS))
def test_an_instant_is_written_as_the_standard_library_writes_it(at_ms: int) -> None:
    moment = EPOCH + timedelta(milliseconds=at_ms)
    assert format_instant(at_ms) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.integers(FIRST_MS, LAST_MS))
def test_an_instant_is_read_back(at_ms: int) -> None:
    assert parse_instant_ms(format_instant(at_ms), now_ms=0) == at_ms
