"""What all providers offer at this moment, as one table. It is made anew only when a provider says something new."""

from collections.abc import Mapping, Sequence

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.ports.provider import Provider


class Market:
    """The offers of the providers; asking costs nothing while they give the same values."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._offers: list[Sequence[Offer]] = []
        self._table = OfferTable.of([])

    def __call__(self) -> OfferTable:
        offers = [provider.offers() for provider in self._providers.values()]
        if len(offers) != len(self._offers) or any(
            new is not old for new, old in zip(offers, self._offers, strict=True)
        ):
            self._offers = offers
            self._table = OfferTable.of([offer for some in offers for offer in some])
        return self._table
