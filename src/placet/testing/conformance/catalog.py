"""What a source of listings must keep to, one test each: inherit one of the two and supply fixtures."""

import asyncio
from abc import ABC, abstractmethod

import pytest

from placet.domain.errors import CatalogUnreadable
from placet.domain.listings import Listing
from placet.ports.catalog import Catalog
from placet.stages.listing import normalise


async def listings_of(catalog: Catalog) -> tuple[Listing, ...]:
    """All that is listed now."""
    found = await catalog.read()
    assert found is not None
    return found.listings


class CatalogContract(ABC):
    """Inherit, and supply ``catalog``, a source that lists something that can be believed."""

    @pytest.fixture
    @abstractmethod
    def catalog(self) -> Catalog:
        """A source with at least one good listing."""

    async def test_listings_say_where_they_are_from(self, catalog: Catalog) -> None:
        found = await listings_of(catalog)
        assert found
        places = [(listing.part, listing.line) for listing in found]
        assert len(set(places)) == len(places)
        for listing in found:
            assert listing.source == catalog.name
            assert listing.provider
            assert listing.line >= 1
            assert listing.observed_ms > 0

    async def test_a_second_reading_gives_the_same(self, catalog: Catalog) -> None:
        assert await listings_of(catalog) == await listings_of(catalog)

    async def test_what_is_known_is_not_given_again(self, catalog: Catalog) -> None:
        first = await catalog.read("another version")
        assert first is not None
        again = await catalog.read(first.version)
        assert again is None or not first.version

    async def test_what_is_believed_of_it_is_not_connected(self, catalog: Catalog) -> None:
        made = normalise(await listings_of(catalog))
        assert made.offers
        assert not any(offer.connected for offer in made.offers)
        assert {offer.price_source for offer in made.offers} == {catalog.name}

    async def test_a_reading_may_be_cancelled(self, catalog: Catalog) -> None:
        reading = asyncio.ensure_future(catalog.read())
        await asyncio.wait([reading], timeout=0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await listings_of(catalog)


class FallibleCatalogContract(CatalogContract):
    """The same for a source that may fail: supply ``broken``, which cannot be read, and ``endless``, which has more
    than its bounds allow.
    """

    @pytest.fixture
    @abstractmethod
    def broken(self) -> Catalog:
        """A source that cannot be read."""

    @pytest.fixture
    @abstractmethod
    def endless(self) -> Catalog:
        """A source with more than it may give."""

    async def test_a_source_that_cannot_be_read_says_what_would_help(self, broken: Catalog) -> None:
        for _ in range(2):
            with pytest.raises(CatalogUnreadable) as told:
                await broken.read()
            assert str(told.value)
            assert told.value.fix

    async def test_a_source_beyond_its_bounds_is_refused_not_cut_short(self, endless: Catalog) -> None:
        with pytest.raises(CatalogUnreadable):
            await endless.read()
