"""The route about providers: what each offers now, and its contract card."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from placet.contract import providers as views
from placet.domain.allocations import ContractCard
from placet.domain.offers import Availability, Offer
from placet.server import mapping
from placet.server.doors import Doors, reply
from placet.server.table import Door, Route
from placet.server.tokens import Scope


class Providers:
    """The handler over queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What this handler answers to."""
        return (
            Route(door=PROVIDERS, endpoint=self.providers),
            Route(door=MESSAGES, endpoint=self.messages),
        )

    async def providers(self, request: Request) -> Response:
        """Every provider of this server."""
        del request
        found = self._doors.queries.providers()
        return reply(views.ProviderList(items=[_provider(name, card, offers) for name, card, offers in found]))

    async def messages(self, request: Request) -> Response:
        """What providers said that no table knows."""
        del request
        items = [
            views.ProviderMessageView(
                provider=one.provider,
                verb=one.verb,
                text=one.text,
                count=one.count,
                first_at=mapping.instant(one.first_ms) or "",
                last_at=mapping.instant(one.last_ms) or "",
            )
            for one in self._doors.hearing.messages()
        ]
        return reply(views.ProviderMessages(items=items))


def _provider(name: str, card: ContractCard, offers: Sequence[Offer]) -> views.ProviderView:
    return views.ProviderView(
        name=name,
        simulated=card.simulated,
        offers=len(offers),
        free=sum(offer.availability is Availability.FREE for offer in offers),
        regions=sorted({offer.region for offer in offers if offer.region}),
        runtimes=list(card.runtimes),
        observed_at=mapping.instant(max((offer.observed_ms for offer in offers), default=0) or None),
        card=_card(card),
    )


def _card(card: ContractCard) -> views.CardView:
    naming, stopping = card.naming, card.stopping
    return views.CardView(
        identity=card.identity,
        naming=views.NamingView(
            unique=naming.unique,
            key_kept_s=naming.key_kept_s,
            checks_parameters=naming.checks_parameters,
            length_max=naming.length_max,
            searchable=naming.searchable,
        ),
        visibility_s=card.visibility_s,
        late_create_s=card.late_create_s,
        bound_to_place=card.bound_to_place,
        lists_completely=card.lists_completely,
        list_paged=card.listed.paged,
        list_across_regions=card.listed.across_regions,
        states={native: phase.value for native, phase in card.states},
        forgets_after_s=card.forgets_after_s,
        exit_code=card.exit_code,
        exit_code_reliable=card.exit_code_reliable,
        restarts_by_itself=card.restarts_by_itself,
        fence=card.fence,
        stopping=views.StoppingView(
            idempotent=stopping.idempotent,
            asynchronous=stopping.asynchronous,
            refused_in=[phase.value for phase in stopping.refused_in],
        ),
        preempt_notice_s=card.preempt_notice_s,
        time_to_live=card.time_to_live,
        price_echo=card.price_echo.value,
        billing_quantum_s=card.billing_quantum_s,
        rate_limits=[
            views.RateLimitView(verb=limit.verb.value, calls=limit.calls, per_s=limit.per_s)
            for limit in card.rate_limits
        ],
        error_table=[
            views.ErrorRuleView(status=rule.status, marker=rule.marker, kind=rule.kind.value)
            for rule in card.error_table
        ],
        two_phase_create=card.two_phase_create,
        logs_offsets=card.logs.offsets,
        logs_kept_s=card.logs.kept_s,
        log_streams=list(card.log_streams),
        outputs_are_files=card.outputs_are_files,
        runtimes=list(card.runtimes),
        notes=list(card.notes),
    )


PROVIDERS = Door(
    method="GET",
    path="/v1/providers",
    summary="The providers of this server, each with its contract card.",
    scope=Scope.READ,
    reply=views.ProviderList,
)
MESSAGES = Door(
    method="GET",
    path="/v1/providers/messages",
    summary="What providers said that no table knows, without what is private.",
    scope=Scope.OPERATOR,
    reply=views.ProviderMessages,
)
DOORS = (PROVIDERS, MESSAGES)
