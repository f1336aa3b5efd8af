"""Routes about offers: what there is, what of price lists was not believed, what becomes of each for a spec."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import api
from placet.domain.listings import Corrected, Listing, Quarantined
from placet.engine.catalogs import Shelf
from placet.server import forecasts, mapping, problems
from placet.server.asking import Asked, asked
from placet.server.documents import SPEC_BODY, read_spec
from placet.server.doors import Doors, reply
from placet.server.table import SPEC_BODY_MAX, Door, Route, principal_of
from placet.server.tokens import Scope
from placet.stages.filters import FILTER_FIELDS

OFFERS_MAX = 10_000


class OffersAsked(Asked):
    """Which offers."""

    connected: bool | None = Field(
        None, description="Only what an adapter offers, or only what is listed; default: both."
    )
    limit: int = Field(1000, ge=1, le=OFFERS_MAX)


class QuarantineAsked(Asked):
    """How much of it."""

    limit: int = Field(1000, ge=1, le=OFFERS_MAX)


class MatchAsked(Asked):
    """How much is told."""

    drops: int = Field(
        0, ge=0, le=OFFERS_MAX, description="How many of the dropped offers are named with their reason."
    )


class Offers:
    """Handlers over what is known of offers."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=OFFERS, endpoint=self.offers),
            Route(door=QUARANTINED, endpoint=self.quarantined),
            Route(door=MATCH, endpoint=self.match),
        )

    async def offers(self, request: Request) -> Response:
        """What there is to run on, each offer with its price and age; and the sources, each with its state."""
        wanted = asked(request, OffersAsked)
        found = await self._doors.queries.offers(connected=wanted.connected, limit=wanted.limit)
        items = [mapping.offer(one, stale=self._doors.queries.stale(one)) for one in found.offers]
        return reply(api.OfferPage(items=items, left_out=found.left_out, sources=self._sources()))

    async def quarantined(self, request: Request) -> Response:
        """Lines of price lists that were set aside, each with its source, its row and the reason."""
        found = await self._doors.queries.quarantine(asked(request, QuarantineAsked).limit)
        return reply(
            api.QuarantinePage(
                items=[_quarantined(one) for one in found.quarantined],
                left_out=found.left_out,
                corrected=[_corrected(one) for one in found.corrected],
                corrected_left_out=found.corrected_left_out,
                sources=self._sources(),
            )
        )

    async def match(self, request: Request) -> Response:
        """What becomes of every offer for a spec: the best that fit, and how many each filter dropped and why."""
        wanted = asked(request, MatchAsked)
        parsed = await read_spec(request, self._doors.clock.now_ms())
        found = await self._doors.intake.match(principal_of(request).tenant, parsed.spec, wanted.drops)
        dropped = sum(count for _, count in found.plan.drop_counts)
        return reply(
            api.MatchView(
                accepted=not found.problems,
                demand=mapping.demand(found.demand),
                plan=mapping.plan(found.plan),
                considered=found.considered,
                fits=found.considered - dropped,
                listed=[mapping.ranked(one, stale=self._doors.queries.stale(one.offer)) for one in found.listed],
                drops=[mapping.drop(one) for one in found.drops],
                left_out=dropped - len(found.drops),
                filter_fields={name: FILTER_FIELDS[name] for name, _ in found.plan.drop_counts},
                problems=[mapping.problem(one) for one in found.problems],
                relaxations=[forecasts.relaxation(one) for one in found.relaxations],
                sources=self._sources(),
            )
        )

    def _sources(self) -> list[api.SourceView]:
        market, now_ms = self._doors.queries.market, self._doors.clock.now_ms()
        providers = [
            api.SourceView(
                name=name,
                kind="provider",
                state="fresh" if offers else "reading",
                offers=len(offers),
                read_at=mapping.instant(max((offer.observed_ms for offer in offers), default=0) or None),
            )
            for name, offers in market.sources()
        ]
        return [*providers, *(_source(shelf, now_ms) for shelf in market.listed.shelves)]


def _source(shelf: Shelf, now_ms: int) -> api.SourceView:
    return api.SourceView(
        name=shelf.name,
        kind="list",
        state=_state(shelf, now_ms),
        offers=len(shelf.table) - shelf.hidden,
        quarantined=len(shelf.quarantined),
        corrected=len(shelf.corrected),
        hidden=shelf.hidden,
        read_at=mapping.instant(shelf.read_ms),
        tried_at=mapping.instant(shelf.tried_ms),
        priced_at=mapping.instant(shelf.priced_ms or None),
        failure=shelf.failure,
        fix=shelf.fix,
        warnings=list(shelf.warnings),
    )


def _state(shelf: Shelf, now_ms: int) -> str:
    if shelf.failure:
        return "failing"
    if shelf.read_ms is None:
        return "reading"
    return "stale" if shelf.stale(now_ms) else "fresh"


def _quarantined(held: Quarantined) -> api.QuarantinedView:
    listing = held.listing
    price = listing.spot_usd_per_hour if held.capacity == "spot" else listing.price_usd_per_hour
    return api.QuarantinedView(
        source=listing.source,
        row=_row(listing),
        provider=listing.provider,
        instance=listing.machine,
        region=listing.region,
        gpu=f"{listing.gpu_count or ''} {listing.gpu_name or ''}".strip(),
        capacity=held.capacity,
        price_usd_per_hour=None if price is None else mapping.money(price),
        reason=held.doubt.value,
        why=held.why,
    )


def _corrected(held: Corrected) -> api.CorrectedView:
    listing = held.listing
    return api.CorrectedView(
        source=listing.source,
        row=_row(listing),
        provider=listing.provider,
        instance=listing.machine,
        what=held.what,
    )


def _row(listing: Listing) -> str:
    return f"{listing.part}:{listing.line}" if listing.part else str(listing.line)


OFFERS = Door(
    method="GET",
    path="/v1/offers",
    summary="What there is to run on.",
    scope=Scope.READ,
    asked=OffersAsked,
    reply=api.OfferPage,
    refusals=(problems.BAD_REQUEST,),
)
QUARANTINED = Door(
    method="GET",
    path="/v1/offers/quarantined",
    summary="What price lists say and was not believed.",
    scope=Scope.READ,
    asked=QuarantineAsked,
    reply=api.QuarantinePage,
    refusals=(problems.BAD_REQUEST,),
)
MATCH = Door(
    method="POST",
    path="/v1/offers/match",
    summary="What becomes of every offer for a spec.",
    scope=Scope.READ,
    asked=MatchAsked,
    body_max=SPEC_BODY_MAX,
    reply=api.MatchView,
    refusals=(problems.BAD_REQUEST, problems.INVALID_SPEC, problems.MEDIA, problems.TOO_LARGE),
    extra={"requestBody": SPEC_BODY},
)
DOORS = (OFFERS, QUARANTINED, MATCH)
