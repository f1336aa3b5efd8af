"""A table gives back the offers it was made of, exactly."""

from dataclasses import fields, replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.offer_table import NUMBERS, TEXTS, OfferTable, micro
from placet.domain.offers import Availability, Free, Offer
from tests.support.values import GPU_OFFER, OFFER


def test_every_column_is_read_from_an_offer() -> None:
    assert {field.name for field in fields(OfferTable)} == {"words", *TEXTS, *NUMBERS}


@given(
    st.lists(
        st.builds(
            lambda base, cores, disk, price, slots, free, reliability, availability: replace(
                base,
                cpu_cores=cores,
                disk_bytes=disk,
                price_usd_per_hour=price,
                free=Free(slots=slots, cpu_cores=free),
                reliability=reliability,
                availability=availability,
                compliance=("hipaa", "soc2"),
            ),
            st.sampled_from([OFFER, GPU_OFFER]),
            st.decimals(0, 512, places=2),
            st.none() | st.integers(0, 2**50),
            st.decimals(0, 1000, places=6),
            st.none() | st.integers(0, 1000),
            st.none() | st.decimals(0, 512, places=2),
            st.none() | st.floats(0, 1),
            st.sampled_from(Availability),
        ),
        max_size=5,
    )
)
def test_rows_are_the_offers(offers: list[Offer]) -> None:
    table = OfferTable.of(offers)
    assert [table.offer(row) for row in range(len(table))] == offers


def test_rows_are_found_by_id_and_places_are_known() -> None:
    table = OfferTable.of([OFFER, GPU_OFFER])
    assert (table.row_of("large"), table.row_of("other")) == (1, None)
    assert table.places == {("somewhere", "here"), ("elsewhere", "there")}


def test_money_finer_than_a_millionth_is_refused() -> None:
    with pytest.raises(ValueError, match="finer"):
        micro(Decimal("0.0000001"))
