"""Laws of reading price lists: nothing is lost, nothing is believed twice, and whatever is listed makes a table."""

from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.gpus import MODELS
from placet.domain.listings import Listing, MemoryUnit
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Trust
from placet.domain.spec import CapacityType
from placet.stages.listing import normalise

amounts = (
    st.none()
    | st.sampled_from([0, 1, 16, 40, 80, 160, 320, 640, 49140, 81920]).map(Decimal)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-10, max_value=10**7)
)
prices = (
    st.none()
    | st.sampled_from(["0.00", "0.50", "700.00", "2.00"]).map(Decimal)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-1, max_value=10**7)
)
listings = st.lists(
    st.builds(
        Listing,
        source=st.sampled_from(["one", "two"]),
        provider=st.sampled_from(["a", "b", ""]),
        machine=st.sampled_from(["m1", "m2", ""]),
        region=st.sampled_from(["eu", "", "a\x00b"]),
        gpu_name=st.none() | st.sampled_from([model.name for model in MODELS]) | st.sampled_from(["A100", "toaster"]),
        gpu_count=st.none() | st.integers(-1, 16) | st.integers(0, 10**12),
        gpu_memory=amounts,
        gpu_memory_unit=st.sampled_from(MemoryUnit),
        vcpus=amounts,
        memory_gb=amounts,
        disk_gb=amounts,
        currency=st.sampled_from(["USD", "usd", "EUR"]),
        price_usd_per_hour=prices,
        spot_usd_per_hour=prices,
        minimum_charge_usd=prices,
        billing_quantum_s=st.none() | st.integers(-1, 10**9),
        startup_s=amounts,
        startup_p90_s=amounts,
        serverless=st.booleans(),
        private=st.booleans(),
        spot_only=st.booleans(),
        availability=st.sampled_from(Availability),
        trust=st.sampled_from(Trust),
        observed_ms=st.integers(0, 2**41),
        line=st.integers(1, 9),
        unreadable=st.sampled_from(["", "", "", "broken"]),
    ),
    max_size=12,
)


def prices_of(listing: Listing) -> int:
    """How many prices a line speaks of, when its hardware is settled."""
    if listing.private:
        return 1
    return (not listing.spot_only) + (listing.spot_usd_per_hour is not None)


@given(listings)
def test_every_price_of_every_line_is_in_exactly_one_place(lines: list[Listing]) -> None:
    made = normalise(lines)
    whole = Counter(id(aside.listing) for aside in made.quarantined if not aside.capacity)
    assert set(whole.values()) <= {1} or len({id(line) for line in lines}) < len(lines)
    settled = sum(prices_of(line) for line in lines if id(line) not in whole)
    assert len(made.offers) + sum(1 for aside in made.quarantined if aside.capacity) == settled
    assert all(aside.why for aside in made.quarantined)


@given(listings)
def test_whatever_is_believed_makes_a_table_that_gives_it_back(lines: list[Listing]) -> None:
    offers = normalise(lines).offers
    assert len({offer.id for offer in offers}) == len(offers)
    # A table keeps the few offers it was made of; one that is joined makes them from its columns.
    table = OfferTable.of([]).joined(OfferTable.of(offers))
    assert [table.offer(row) for row in range(len(table))] == list(offers)
    for offer in offers:
        assert not offer.connected
        assert offer.price_usd_per_hour > 0 or offer.capacity_type is CapacityType.RESERVED
        assert (offer.startup_p90_s is None) or offer.startup_p90_s >= 0


@given(listings)
def test_the_order_of_lines_changes_no_price(lines: list[Listing]) -> None:
    there = {offer.id: offer.price_usd_per_hour for offer in normalise(lines).offers}
    back = {offer.id: offer.price_usd_per_hour for offer in normalise(list(reversed(lines))).offers}
    assert there == back
