"""What there is to run on at this moment, as tables that are made anew only when somebody says something new.

There are two: what adapters of providers offer, which is all that placement may choose from, and everything, price
lists included, for people who compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer, Trust
from placet.domain.spec import CapacityType
from placet.domain.values import evolve
from placet.engine.catalogs import Catalogs, Snapshot
from placet.ports.provider import Provider

# Who wants to see price lists waits for their first reading, but no longer than this.
LISTS_WITHIN_S = 10.0
NOTHING_LISTED = Snapshot(shelves=(), table=OfferTable.of([]))


@dataclass(frozen=True, kw_only=True)
class OwnTerms:
    """The operator's own terms for some of what a provider offers; ``offers`` is a pattern of ids such as ``a100-*``.

    What they say replaces what the provider says, and an empty word says nothing.
    """

    provider: str
    source: str
    offers: str = "*"
    price_usd_per_hour: Decimal = Decimal(0)
    jurisdiction: str = ""
    compliance: tuple[str, ...] = ()

    def apply(self, offer: Offer) -> Offer:
        """The offer under these terms, unchanged when they are not about it."""
        if offer.provider != self.provider or not fnmatchcase(offer.id, self.offers):
            return offer
        return evolve(
            offer,
            capacity_type=CapacityType.RESERVED,
            price_usd_per_hour=self.price_usd_per_hour,
            price_source=self.source,
            trust=Trust.OWN,
            jurisdiction=self.jurisdiction or offer.jurisdiction,
            compliance=self.compliance or offer.compliance,
        )


class Market:
    """The offers of providers and of price lists; asking costs nothing while nobody says anything new."""

    def __init__(
        self, providers: Mapping[str, Provider], catalogs: Catalogs | None = None, terms: Sequence[OwnTerms] = ()
    ) -> None:
        self._providers, self._catalogs, self._terms = providers, catalogs, tuple(terms)
        self._offers: list[Sequence[Offer]] = []
        self._table = OfferTable.of([])
        self._all = (self._table, NOTHING_LISTED.table, self._table)

    def __call__(self) -> OfferTable:
        """What can be dispatched to: the offers of the providers' adapters."""
        offers = [provider.offers() for provider in self._providers.values()]
        if len(offers) != len(self._offers) or any(
            new is not old for new, old in zip(offers, self._offers, strict=True)
        ):
            self._offers = offers
            self._table = OfferTable.of([self._on_terms(offer) for some in offers for offer in some])
        return self._table

    def everything(self) -> OfferTable:
        """The same and what price lists name, which is not connected."""
        live, listed = self(), self.listed.table
        if self._all[0] is not live or self._all[1] is not listed:
            self._all = (live, listed, listed.joined(live))
        return self._all[2]

    @property
    def listed(self) -> Snapshot:
        """What sources of price lists said last."""
        return NOTHING_LISTED if self._catalogs is None else self._catalogs.snapshot

    def sources(self) -> tuple[tuple[str, Sequence[Offer]], ...]:
        """What each provider's adapter offers, by the name of the provider."""
        return tuple((name, provider.offers()) for name, provider in self._providers.items())

    def stale(self, offer: Offer, now_ms: int) -> bool:
        """Is its price older than its list may be, or was it not confirmed by the last reading?"""
        for shelf in self.listed.shelves:
            if shelf.name == offer.price_source and not offer.connected:
                return bool(shelf.failure) or shelf.outdated(offer.priced_ms, now_ms)
        return False

    async def settled(self, within_s: float) -> None:
        """Wait until every source was tried once, or for that long; at once where there is none."""
        if self._catalogs is not None:
            await self._catalogs.settled(within_s)

    def _on_terms(self, offer: Offer) -> Offer:
        for terms in self._terms:
            offer = terms.apply(offer)
        return offer
