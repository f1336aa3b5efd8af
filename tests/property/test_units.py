"""Instants are written exactly as the standard library writes them."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.units import DURATION_S_MAX, OutOfRange, format_instant, parse_instant_ms

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


OFFSETS = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))
EDGES = st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])


@given(st.one_of(EDGES, st.datetimes()), OFFSETS, st.sampled_from(["milliseconds", "seconds", "minutes"]))
def test_every_instant_that_is_read_can_be_written(local: datetime, zone: timezone, detail: str) -> None:
    text = local.replace(tzinfo=zone).isoformat(timespec=detail)
    in_calendar = FIRST_MS <= (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1) <= LAST_MS
    try:
        at_ms = parse_instant_ms(text, now_ms=0)
    except OutOfRange:
        assert not in_calendar
    else:
        assert in_calendar
        assert parse_instant_ms(format_instant(at_ms), now_ms=0) == at_ms


@given(st.integers(FIRST_MS, LAST_MS), st.integers(0, DURATION_S_MAX))
def test_a_time_from_now_that_is_read_can_be_written(now_ms: int, seconds: int) -> None:
    try:
        at_ms = parse_instant_ms(f"+{seconds}s", now_ms=now_ms)
    except OutOfRange:
        assert now_ms + seconds * 1000 > LAST_MS
    else:
        assert parse_instant_ms(format_instant(at_ms), now_ms=0) == at_ms == now_ms + seconds * 1000
