"""How soon what is unclear is looked at again."""

from dataclasses import replace

from placet.domain.allocations import Handle
from placet.domain.states import AttemptState
from placet.engine.rhythm import LOOK_AGAIN_MS, again_ms, moment_ms
from tests.support.values import ATTEMPT, NOW_MS

EVERY_MS = 10_000
UNCLEAR = replace(ATTEMPT, state=AttemptState.UNKNOWN)


def looks(for_ms: int) -> int:
    """How often an outcome that stays unclear is asked for in so long."""
    at_ms, count = NOW_MS, 0
    while at_ms < NOW_MS + for_ms:
        at_ms += again_ms(UNCLEAR, at_ms, EVERY_MS)
        count += 1
    return count


def test_first_looks_come_quickly_and_a_day_of_doubt_is_no_more_than_the_usual_pace() -> None:
    assert looks(2_000) >= 4
    assert looks(86_400_000) < 86_400_000 / EVERY_MS + 25


def test_what_is_clear_is_looked_at_as_often_as_anything() -> None:
    handle = Handle(provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS)
    seen = replace(ATTEMPT, state=AttemptState.RUNNING, handle=handle, observed_ms=NOW_MS)
    assert again_ms(seen, NOW_MS, EVERY_MS) == EVERY_MS
    assert again_ms(replace(seen, absent_since_ms=NOW_MS, absent_reads=1), NOW_MS, EVERY_MS) == LOOK_AGAIN_MS


def test_a_limit_is_looked_at_when_it_comes_and_one_that_has_passed_less_and_less_often() -> None:
    assert moment_ms(NOW_MS + 5000, NOW_MS, EVERY_MS) == NOW_MS + 5000
    assert moment_ms(NOW_MS, NOW_MS, EVERY_MS) == NOW_MS + LOOK_AGAIN_MS
    assert moment_ms(NOW_MS - 8000, NOW_MS, EVERY_MS) == NOW_MS + 2000
    assert moment_ms(NOW_MS - 3_600_000, NOW_MS, EVERY_MS) == NOW_MS + EVERY_MS
