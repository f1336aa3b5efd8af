"""What a client sees of an attempt that is not over: what it has cost until now, and for how long it has lasted."""

from dataclasses import replace
from decimal import Decimal

from placet.domain.allocations import Handle
from placet.domain.states import AttemptState
from placet.server import mapping
from tests.support.values import ATTEMPT, NOW_MS

HANDLE = Handle(
    provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS, price_usd_per_hour=Decimal("7.20")
)
LIVE = replace(ATTEMPT, state=AttemptState.RUNNING, handle=HANDLE, submitted_ms=NOW_MS + 1000)


def test_a_live_attempt_costs_what_it_has_cost_so_far_at_the_price_that_its_provider_says() -> None:
    view = mapping.attempt(LIVE, now_ms=NOW_MS + 10_000)
    assert (Decimal(view.cost_usd), Decimal(view.price_usd_per_hour or 0), view.live_ms) == (
        Decimal("0.02"),
        Decimal("7.20"),
        9000,
    )


def test_of_one_that_is_over_the_cost_is_what_it_was() -> None:
    over = replace(LIVE, state=AttemptState.COLLECTED, cost_usd=Decimal("0.5"))
    view = mapping.attempt(over, now_ms=NOW_MS + 10**9)
    assert (Decimal(view.cost_usd), view.live_ms) == (Decimal("0.5"), None)


def test_what_may_not_exist_costs_nothing_yet() -> None:
    view = mapping.attempt(replace(ATTEMPT, state=AttemptState.UNKNOWN), now_ms=NOW_MS + 10_000)
    assert (Decimal(view.cost_usd), view.live_ms) == (0, 10_000)
