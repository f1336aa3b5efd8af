"""A table gives back the offers it was made of, exactly."""

from dataclasses import fields, replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain import offer_table
from placet.domain.offer_table import NUMBERS, READ_AT_ONCE, TEXTS, OfferTable, micro
from placet.domain.offers import Availability, Free, Offer, Trust
from tests.support.values import GPU_OFFER, OFFER


def test_every_column_is_read_from_an_offer() -> None:
    assert {field.name for field in fields(OfferTable)} == {"words", *TEXTS, *NUMBERS}


@given(
    st.lists(
        st.builds(
            lambda base, cores, disk, price, slots, free, reliability, availability, startup, trust: replace(
                base,
                cpu_cores=cores,
                disk_bytes=disk,
                price_usd_per_hour=price,
                free=Free(slots=slots, cpu_cores=free),
                reliability=reliability,
                availability=availability,
                compliance=("hipaa", "soc2"),
                startup_p90_s=startup,
                trust=trust,
                connected=slots is None,
                price_source="" if slots is None else "prices.csv",
                priced_ms=0 if slots is None else 1_700_000_000_000,
                availability_ms=0 if slots is None else 1_700_000_000_001,
            ),
            st.sampled_from([OFFER, GPU_OFFER]),
            st.decimals(0, 512, places=2),
            st.none() | st.integers(0, 2**50),
            st.decimals(0, 1000, places=6),
            st.none() | st.integers(0, 1000),
            st.none() | st.decimals(0, 512, places=2),
            st.none() | st.floats(0, 1),
            st.sampled_from(Availability),
            st.none() | st.decimals(0, 10_000, places=1),
            st.sampled_from(Trust),
        ),
        max_size=5,
    )
)
def test_rows_are_the_offers(offers: list[Offer]) -> None:
    table = OfferTable.of(offers)
    assert [table.offer(row) for row in range(len(table))] == offers


def test_rows_are_the_offers_of_more_than_are_read_at_once() -> None:
    offers = [
        replace(
            GPU_OFFER if number % 3 else OFFER,
            id=f"offer{number}",
            region=f"region{number % 7}",
            price_usd_per_hour=Decimal(number) / 1000,
            compliance=("hipaa",) * (number % 2),
        )
        for number in range(2 * READ_AT_ONCE + 1)
    ]
    table = OfferTable.of(offers)
    assert [table.offer(row) for row in range(len(table))] == offers
    assert table.words["region"].texts == [f"region{number}" for number in range(7)]
    assert OfferTable.of([]).id.dtype == np.int32
    assert len(OfferTable.of([])) == 0


def test_two_offers_with_one_id_share_its_word() -> None:
    table = OfferTable.of([OFFER, GPU_OFFER, OFFER])
    assert table.id.tolist() == [0, 1, 0]
    assert table.words["id"].texts == ["small", "large"]


def test_rows_are_found_by_id_and_places_are_known() -> None:
    table = OfferTable.of([OFFER, GPU_OFFER])
    assert (table.row_of("large"), table.row_of("other")) == (1, None)
    assert table.places == {("somewhere", "here"), ("elsewhere", "there")}


offers_of_few_ids = st.lists(
    st.builds(
        lambda base, number, region: replace(base, id=f"offer{number}", region=region),
        st.sampled_from([OFFER, GPU_OFFER]),
        st.integers(0, 8),
        st.sampled_from(["here", "there", ""]),
    ),
    max_size=6,
    unique_by=lambda offer: offer.id,
)


@given(offers_of_few_ids, offers_of_few_ids)
def test_a_joined_table_has_all_offers_and_the_later_of_two_with_one_id(first: list[Offer], more: list[Offer]) -> None:
    joined = OfferTable.of(first).joined(OfferTable.of(more))
    later = {offer.id for offer in more}
    expected = [*(offer for offer in first if offer.id not in later), *more]
    assert [joined.offer(row) for row in range(len(joined))] == expected
    assert joined.id_hash.tolist() == OfferTable.of(expected).id_hash.tolist()


def test_joining_changes_neither_table() -> None:
    base, more = OfferTable.of([OFFER]), OfferTable.of([GPU_OFFER])
    assert len(base.joined(more)) == 2
    assert (len(base), base.words["id"].texts, more.words["id"].texts) == (1, ["small"], ["large"])
    assert base.joined(OfferTable.of([])) is base


def test_money_finer_than_a_millionth_is_refused() -> None:
    with pytest.raises(ValueError, match="finer"):
        micro(Decimal("0.0000001"))


def test_rows_show_the_free_capacity_of_their_table() -> None:
    table = OfferTable.of([OFFER, GPU_OFFER])
    assert table.offer(0) is OFFER
    busy = table.with_free({"free_slots": np.array([0.0, np.nan])})
    assert busy.offer(0) == replace(OFFER, free=replace(OFFER.free, slots=0))
    assert busy.offer(1) == replace(GPU_OFFER, free=replace(GPU_OFFER.free, slots=None))
    assert busy.take(np.array([1])).offer(0) == busy.offer(1)
    assert busy.with_free({"free_slots": table.free_slots}).offer(0) == OFFER
    assert table.offer(0) is OFFER


def test_what_is_kept_beside_the_columns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer_table, "OFFERS_KEPT", 3)
    monkeypatch.setattr(offer_table, "FEW_OFFERS", 0)
    offers = [replace(OFFER, id=str(number)) for number in range(10)]
    table = OfferTable.of(offers)
    assert [table.offer(row) for row in range(10)] == offers
    assert len(table.derived["offers"]) <= 3


def test_what_follows_from_the_words_is_shared_with_a_part_and_the_rest_is_not() -> None:
    table = OfferTable.of([OFFER, GPU_OFFER])
    part, busy = table.take(np.array([1])), table.with_free({})
    assert part.of_words is table.of_words is busy.of_words
    assert busy.derived is table.derived
    assert part.derived is not table.derived


def test_the_offers_of_a_place_share_its_slots() -> None:
    here = [replace(OFFER, id=name, free=Free(slots=3)) for name in "ab"]
    there = replace(OFFER, id="c", region="there", free=Free(slots=2))
    table = OfferTable.of([*here, there])
    assert table.slots_left == 5
    assert table.with_free({"free_slots": table.free_slots - 1}).slots_left == 3
    assert OfferTable.of([*here, replace(there, free=Free())]).slots_left is None
    assert OfferTable.of([]).slots_left == 0
