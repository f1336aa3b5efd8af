"""What a bound on the cost leaves is the same whether it is looked up by kinds of offers or worked out for each."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Demand, Interval
from placet.stages import costs
from tests.support.values import OFFER

micros = st.integers(0, 5_000_000).map(lambda micro: Decimal(micro) / 1_000_000)
kinds = st.tuples(
    st.sampled_from([1, 60, 3600]), st.sampled_from(["0", "0.25"]), st.sampled_from(["0.5", "180", "181.7"])
)
demands = st.none() | st.integers(1, 100_000).map(
    lambda runtime_s: Interval(low=Decimal(1), likely=Decimal(1), high=Decimal(runtime_s))
)


@given(st.lists(st.tuples(micros, kinds), min_size=1, max_size=30), demands, st.floats(-1, 1e9), st.integers(0, 29))
def test_by_kind_and_offer_by_offer(
    offers: list[tuple[Decimal, tuple[int, str, str]]], runtime_s: Interval | None, left_micro: float, exactly: int
) -> None:
    table = OfferTable.of(
        [
            replace(
                OFFER,
                id=f"offer{number}",
                price_usd_per_hour=price,
                billing_quantum_s=quantum_s,
                minimum_charge_usd=Decimal(least),
                startup_s=Decimal(startup_s),
            )
            for number, (price, (quantum_s, least, startup_s)) in enumerate(offers)
        ]
    )
    demand = Demand(runtime_s=runtime_s)
    worst = costs.worst_micro(demand, table)
    # Any bound, and one that an offer meets to the last digit.
    for bound in (left_micro, worst.item(exactly % len(table)), np.nextafter(worst.item(exactly % len(table)), -1.0)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(costs, "MANY_ROWS", 0)
            for most in (costs.COST_KINDS_MAX, 0, 100):
                patched.setattr(costs, "COST_KINDS_MAX", most)
                table.derived.clear()
                assert (costs.within(demand, table, float(bound)) == (worst <= bound)).all()
