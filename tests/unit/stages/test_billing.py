"""What is recorded and what is forecast are charged by one rule."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from placet.domain.allocations import Handle
from placet.stages.billing import begun_ms, charge_usd, charges, price_usd_per_hour
from tests.support.values import ATTEMPT, NOW_MS


@pytest.mark.parametrize(
    ("price", "quantum_s", "least", "held_ms", "usd"),
    [
        ("3.60", 1, "0", 0, "0.000000"),
        ("3.60", 1, "0", -5, "0.000000"),
        ("3.60", 1, "0", 1, "0.001000"),
        ("3.60", 1, "0", 1000, "0.001000"),
        ("3.60", 1, "0", 1001, "0.002000"),
        ("3.60", 60, "0", 1001, "0.060000"),
        ("3.60", 3600, "0", 3_600_001, "7.200000"),
        ("3.60", 1, "0.05", 1000, "0.050000"),
        ("3.60", 1, "0.05", 0, "0.050000"),
        ("3.60", 60, "0.05", 1000, "0.060000"),
        ("0.01", 1, "0", 1000, "0.000003"),
        ("0", 60, "0", 1000, "0.000000"),
    ],
)
def test_time_counts_in_whole_quanta_and_at_least_the_minimum(
    price: str, quantum_s: int, least: str, held_ms: int, usd: str
) -> None:
    placement = replace(
        ATTEMPT.placement,
        price_usd_per_hour=Decimal(price),
        billing_quantum_s=quantum_s,
        minimum_charge_usd=Decimal(least),
    )
    assert str(charge_usd(replace(ATTEMPT, placement=placement), held_ms)) == usd
    held_s = np.array([max(held_ms, 0) / 1000])
    [same] = charges(float(price), held_s, quantum_s=quantum_s, least=float(least))
    assert same == pytest.approx(float(usd), abs=1e-6)


def test_it_began_when_the_provider_says_or_at_the_earliest_when_it_was_intended() -> None:
    assert begun_ms(ATTEMPT) == NOW_MS
    handle = Handle(provider="p", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS + 7)
    assert begun_ms(replace(ATTEMPT, handle=handle, submitted_ms=NOW_MS + 9)) == NOW_MS + 7


def test_what_the_provider_itself_says_of_the_price_is_what_counts() -> None:
    handle = Handle(provider="p", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS)
    assert price_usd_per_hour(replace(ATTEMPT, handle=handle)) == Decimal("3.60")
    dearer = replace(ATTEMPT, handle=replace(handle, price_usd_per_hour=Decimal("7.20")))
    assert price_usd_per_hour(dearer) == Decimal("7.20")
    assert charge_usd(dearer, 1000) == Decimal("0.002000")
