"""What a live attempt may have: time to start, time to run, money."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.failures import Cause
from placet.domain.spec import Constraints
from placet.stages.limits import CALL_HOME_MS, exceeded, look_ms
from tests.support.values import ATTEMPT, NOW_MS, SPEC

HOUR_MS = 3_600_000
NOTHING = Decimal(0)


def test_without_limits_it_runs_for_ever() -> None:
    assert exceeded(ATTEMPT, SPEC, NOTHING, NOW_MS + 10**10) is None
    assert list(look_ms(ATTEMPT, SPEC, NOTHING)) == []


def test_money_ends_it_before_its_grace_costs_more_than_the_cap() -> None:
    """At 3.60 dollars an hour a dollar lasts 1,000 seconds, and the last ten are its grace."""
    capped = replace(SPEC, constraints=Constraints(cost_usd=Decimal(1)))
    assert list(look_ms(ATTEMPT, capped, NOTHING)) == [NOW_MS + 990_001]
    assert exceeded(ATTEMPT, capped, NOTHING, NOW_MS + 990_000) is None
    beyond = exceeded(ATTEMPT, capped, NOTHING, NOW_MS + 990_001)
    assert beyond is not None
    assert beyond.cause is Cause.COST_CAP
    assert exceeded(ATTEMPT, capped, Decimal("0.5"), NOW_MS + 490_001) is not None, "earlier attempts have cost too"


def test_what_costs_nothing_is_never_beyond_a_cap() -> None:
    free = replace(ATTEMPT, placement=replace(ATTEMPT.placement, price_usd_per_hour=NOTHING))
    capped = replace(SPEC, constraints=Constraints(cost_usd=Decimal(1)))
    assert exceeded(free, capped, NOTHING, NOW_MS + 10**10) is None
    assert list(look_ms(free, capped, NOTHING)) == []


@pytest.mark.parametrize(("provisioning", "cause"), [(True, Cause.START_TIMEOUT), (False, None)])
def test_a_machine_that_is_never_made_is_given_up_and_a_queue_is_waited_for(
    provisioning: bool, cause: Cause | None
) -> None:
    found = exceeded(ATTEMPT, SPEC, NOTHING, NOW_MS + CALL_HOME_MS + 1, provisioning=provisioning)
    assert (None if found is None else found.cause) is cause
    called = replace(ATTEMPT, permit_ms=NOW_MS)
    assert exceeded(called, SPEC, NOTHING, NOW_MS + CALL_HOME_MS + 1, provisioning=provisioning) is None
