"""Routes about allocations that no attempt stands for."""

from decimal import Decimal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.orphans import OrphanPage, OrphanView
from placet.domain.orphans import WHY, Orphan, OrphanReason
from placet.domain.states import OrphanState
from placet.engine.orphans import NotOurs
from placet.server import mapping, problems
from placet.server.asking import Asked, asked
from placet.server.doors import Doors, actor_of, reply
from placet.server.table import Door, Repeat, Route
from placet.server.tokens import Scope

NEXT = {
    OrphanReason.OVER: "deleted by the next sweep",
    OrphanReason.TWIN: "deleted when it is seen once more",
    OrphanReason.NO_RECORD: "nothing, until somebody asks: placet orphans --delete {id}",
    OrphanReason.FOREIGN: "nothing: look at the provider, and delete it there if it is yours",
}


class OrphansAsked(Asked):
    """Which are told of."""

    closed: bool = Field(False, description="Those that were dealt with in the last week too.")


class Orphans:
    """Handlers over the use cases."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (Route(door=ORPHANS, endpoint=self.listed), Route(door=DELETE, endpoint=self.delete))

    async def listed(self, request: Request) -> Response:
        """What runs or costs at a provider, bears this deployment's mark, and belongs to no attempt."""
        wanted = asked(request, OrphansAsked)
        found = await self._doors.orphans.listed(with_closed=wanted.closed)
        prices = [orphan.price_usd_per_hour for orphan in found if orphan.open]
        burn = sum((price for price in prices if price is not None), Decimal(0))
        return reply(
            OrphanPage(
                items=[_view(orphan) for orphan in found],
                burn_usd_per_hour=mapping.money(burn),
                unpriced=prices.count(None),
            )
        )

    async def delete(self, request: Request) -> Response:
        """Ask for its deletion; the reaper does it at once and proves it. Repeating it changes nothing."""
        found = await self._doors.orphans.delete(str(request.path_params["orphan_id"]), actor_of(request))
        if found is None:
            raise problems.Refusal(
                problems.NOT_FOUND, detail="there is no such orphan", fix="`placet orphans` lists them"
            )
        if isinstance(found, NotOurs):
            raise problems.Refusal(
                problems.NOT_OURS, detail=f"{found.orphan.handle.native_id}: {WHY[OrphanReason.FOREIGN]}"
            )
        return reply(_view(found), 202 if found.open else 200)


def _view(held: Orphan) -> OrphanView:
    return OrphanView(
        id=held.id,
        provider=held.handle.provider,
        key=held.handle.key,
        native_id=held.handle.native_id,
        region=held.handle.place,
        state=held.state.value,
        reason=held.reason.value,
        why=WHY[held.reason],
        next=_next(held),
        first_seen_at=mapping.format_instant(held.first_seen_ms),
        last_seen_at=mapping.format_instant(held.last_seen_ms),
        price_usd_per_hour=None if held.price_usd_per_hour is None else mapping.money(held.price_usd_per_hour),
        cost_usd=None if held.cost_usd is None else mapping.money(held.cost_usd),
        requested_at=mapping.instant(held.requested_ms),
        requested_by=held.requested_by,
        closed_at=mapping.instant(held.closed_ms),
        proof=held.proof,
    )


def _next(held: Orphan) -> str:
    match held.state:
        case OrphanState.LISTED:
            return NEXT[held.reason].format(id=held.id)
        case OrphanState.RELEASING:
            return "being deleted, until that is proven"
        case OrphanState.CLOSED:
            return "nothing"


ORPHANS = Door(
    method="GET",
    path="/v1/orphans",
    summary="Allocations that no attempt stands for.",
    scope=Scope.OPERATOR,
    asked=OrphansAsked,
    reply=OrphanPage,
    refusals=(problems.BAD_REQUEST,),
)
DELETE = Door(
    method="POST",
    path="/v1/orphans/{orphan_id}/delete",
    summary="Ask for the deletion of an orphan.",
    scope=Scope.OPERATOR,
    repeat=Repeat.SAME,
    status=202,
    reply=OrphanView,
    refusals=(problems.NOT_FOUND, problems.NOT_OURS),
)
DOORS = (ORPHANS, DELETE)
