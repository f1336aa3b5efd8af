"""Routes about the server itself: offers, its health, its figures, its tokens, its description."""

import json
from collections.abc import Callable
from functools import cache

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet import __version__
from placet.contract import api
from placet.contract.tokens import IssuedTokenView, TokenPage, TokenRequest, TokenView
from placet.domain.budgets import Holder
from placet.failpoints import Point, passing
from placet.server import mapping, problems
from placet.server.asking import unfit
from placet.server.doors import Doors, actor_of, reply
from placet.server.metrics import CONTENT_TYPE
from placet.server.offers import DOORS as OFFER_DOORS
from placet.server.offers import Offers
from placet.server.table import SMALL_BODY_MAX, Door, Repeat, Route, principal_of, read_body
from placet.server.tokens import Principal, Scope, Wish, issue, widening

TOKENS_MAX = 1000


class Operating:
    """Handlers about the server. ``openapi`` gives the description of all routes."""

    def __init__(self, doors: Doors, openapi: Callable[[], dict[str, object]]) -> None:
        self._doors = doors
        self._openapi = openapi

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            *Offers(self._doors).routes(),
            Route(door=SCHEMA, endpoint=self.schema),
            Route(door=OPENAPI, endpoint=self.openapi),
            *(Route(door=door, endpoint=self.health) for door in HEALTH),
            *(Route(door=door, endpoint=self.ready) for door in READY),
            Route(door=METRICS, endpoint=self.metrics),
            Route(door=TOKENS, endpoint=self.tokens),
            Route(door=NEW_TOKEN, endpoint=self.new_token),
            Route(door=END_TOKEN, endpoint=self.end_token),
        )

    async def schema(self, _: Request) -> Response:
        """The JSON Schema of a spec."""
        return Response(_schema(), media_type="application/schema+json")

    async def openapi(self, _: Request) -> Response:
        """This description."""
        return Response(json.dumps(self._openapi()).encode(), media_type="application/json")

    async def health(self, _: Request) -> Response:
        """The process is alive."""
        return reply(api.HealthView(status="ok", version=__version__))

    async def ready(self, _: Request) -> Response:
        """The server can do its work: the store answers, the engine moves."""
        reasons = ("closing",) if self._doors.closing.is_set() else await self._doors.not_ready()
        view = api.HealthView(
            status="not_ready" if reasons else "ok", version=__version__, checks=dict.fromkeys(reasons, "failing")
        )
        return reply(view, 503 if reasons else 200)

    async def metrics(self, _: Request) -> Response:
        """Figures for Prometheus."""
        counts, unknown = await self._doors.store.counts(), self._doors.hearing.counts
        page = self._doors.metrics.page(counts, self._doors.streams.total, unknown)
        return Response(page, headers={"content-type": CONTENT_TYPE})

    async def tokens(self, request: Request) -> Response:
        """All tokens of the caller's tenant, newest first, without their secrets."""
        tenant = principal_of(request).tenant
        found = [token for token in await self._doors.store.tokens() if token.tenant == tenant]
        return reply(TokenPage(items=[mapping.token(token) for token in found[:TOKENS_MAX]]))

    async def new_token(self, request: Request) -> Response:
        """A token with at most the rights of the one that asks. Its secret is in this reply and nowhere else."""
        principal = principal_of(request)
        wanted, scopes = await _token_request(request)
        lacking = widening(principal, scopes)
        if lacking:
            raise problems.Refusal(
                problems.FORBIDDEN, detail=f"your own token lacks: {', '.join(scope.value for scope in lacking)}"
            )
        await self._may_make(principal)
        now_ms = self._doors.clock.now_ms()
        expires_ms = None if wanted.expires_in_s is None else now_ms + wanted.expires_in_s * 1000
        wish = Wish(name=wanted.name, tenant=principal.tenant, scopes=scopes, expires_ms=expires_ms)
        issued = issue(wish, self._doors.ids, now_ms)
        if wanted.budget_usd is not None or wanted.month_budget_usd is not None:
            await self._doors.budgets.set(  # first: a token that is without it for a moment could be used
                Holder.TOKEN,
                issued.token.id,
                total_usd=wanted.budget_usd,
                month_usd=wanted.month_budget_usd,
                actor=actor_of(request),
            )
        await passing(Point.CREDENTIAL, self._doors.store.add_token(issued.token))
        self._doors.gate.forget(issued.token.id)
        view = IssuedTokenView(**mapping.token(issued.token).model_dump(), token=issued.text)
        return reply(view, 201)

    async def _may_make(self, principal: Principal) -> None:
        """Who has a budget of its own would have none by a token that it makes."""
        if principal.may(Scope.OPERATOR):
            return
        own = await self._doors.budgets.of(principal.tenant, principal.token_id)
        if any(held.budget.kind is Holder.TOKEN for held in own):
            raise problems.Refusal(problems.FORBIDDEN, detail="your own token has a budget; another would have none")

    async def end_token(self, request: Request) -> Response:
        """Revoke a token, at once, also for its open streams. Repeating it changes nothing."""
        tenant, token_id = principal_of(request).tenant, str(request.path_params["token_id"])
        token = await self._doors.store.token(token_id)
        if token is None or token.tenant != tenant:
            raise problems.Refusal(
                problems.NOT_FOUND, detail="there is no such token", fix="`placet token ls` lists them"
            )
        await passing(Point.REVOCATION, self._doors.store.revoke_token(token_id, self._doors.clock.now_ms()))
        self._doors.gate.forget(token_id)
        revoked = await self._doors.store.token(token_id)
        return reply(mapping.token(revoked or token))


@cache
def _schema() -> bytes:
    from placet.contract.schema import spec_schema  # few ask, and its makings are slow to load

    return json.dumps(spec_schema(), ensure_ascii=False).encode()


async def _token_request(request: Request) -> tuple[TokenRequest, tuple[Scope, ...]]:
    body = await read_body(request, SMALL_BODY_MAX)
    try:
        wanted = TokenRequest.model_validate_json(body)
    except ValidationError as error:
        raise unfit(error) from error
    try:
        return wanted, tuple(dict.fromkeys(Scope(scope) for scope in wanted.scopes))
    except ValueError as error:
        known = ", ".join(scope.value for scope in Scope)
        raise problems.Refusal(
            problems.BAD_REQUEST, detail="scopes: one of them is no scope", fix=f"known are {known}"
        ) from error


SCHEMA = Door(
    method="GET",
    path="/v1/spec-schema",
    summary="The JSON Schema of a spec.",
    scope=None,
    media_type="application/schema+json",
)
OPENAPI = Door(method="GET", path="/v1/openapi.json", summary="This description.", scope=None)
# Each under our own name and under the one that orchestrators ask for.
HEALTH = tuple(
    Door(method="GET", path=path, summary="Is the process alive?", scope=None, reply=api.HealthView, alias=alias)
    for path, alias in (("/v1/health", False), ("/healthz", True))
)
READY = tuple(
    Door(method="GET", path=path, summary="Can it do its work?", scope=None, reply=api.HealthView, alias=alias)
    for path, alias in (("/v1/ready", False), ("/readyz", True))
)
METRICS = Door(
    method="GET",
    path="/metrics",
    summary="Figures for Prometheus.",
    scope=Scope.OPERATOR,
    media_type="text/plain",
)
TOKENS = Door(method="GET", path="/v1/tokens", summary="List tokens.", scope=Scope.TOKENS, reply=TokenPage)
NEW_TOKEN = Door(
    method="POST",
    path="/v1/tokens",
    summary="Make a token.",
    scope=Scope.TOKENS,
    repeat=Repeat.ANEW,
    body_max=SMALL_BODY_MAX,
    status=201,
    reply=IssuedTokenView,
    refusals=(problems.BAD_REQUEST, problems.TOO_LARGE),
    body=TokenRequest,
)
END_TOKEN = Door(
    method="DELETE",
    path="/v1/tokens/{token_id}",
    summary="Revoke a token.",
    scope=Scope.TOKENS,
    repeat=Repeat.SAME,
    reply=TokenView,
    refusals=(problems.NOT_FOUND,),
)
DOORS = (*OFFER_DOORS, SCHEMA, OPENAPI, *HEALTH, *READY, METRICS, TOKENS, NEW_TOKEN, END_TOKEN)
