"""Routes about an attempt of which nobody can tell whether it runs."""

from starlette.requests import Request
from starlette.responses import Response

from placet.contract.resolving import DoubtView
from placet.engine.resolving import Doubt, NotInDoubt
from placet.server import mapping, problems
from placet.server.doors import Doors, actor_of, no_workload, reply, workload_id_of
from placet.server.table import Door, Repeat, Route, principal_of
from placet.server.tokens import Scope
from placet.server.workloads import ONE


class Resolving:
    """Handlers over the use cases."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (Route(door=DOUBT, endpoint=self.doubt), Route(door=GO_ON, endpoint=self.go_on))

    async def doubt(self, request: Request) -> Response:
        """Is it unclear whether the current attempt runs, since when, and what would going on without it cost?"""
        found = await self._doors.resolving.doubt(principal_of(request).tenant, workload_id_of(request))
        if found is None:
            raise no_workload()
        return reply(_view(found))

    async def go_on(self, request: Request) -> Response:
        """Go on without an attempt that is in doubt. Repeating it changes nothing."""
        tenant, workload_id = principal_of(request).tenant, workload_id_of(request)
        outcome = await self._doors.resolving.go_on(tenant, workload_id, actor_of(request))
        if outcome is None:
            raise no_workload()
        if isinstance(outcome, NotInDoubt):
            state = outcome.doubt.workload.state.value
            raise problems.Refusal(
                problems.NOT_IN_DOUBT, detail=f"the workload is {state}, and it is known how its attempt is"
            )
        return reply(_view(outcome))


def _view(held: Doubt) -> DoubtView:
    return DoubtView(
        workload_id=held.workload.id,
        state=held.workload.state.value,
        attempt=held.epoch,
        in_doubt=held.since_ms is not None,
        since=mapping.instant(held.since_ms),
        at_most_usd=None if held.cost_usd is None else mapping.money(held.cost_usd),
        given_up_by=held.given_up_by,
    )


DOUBT = Door(
    method="GET",
    path=ONE + "/doubt",
    summary="Is it unclear whether the current attempt runs?",
    scope=Scope.READ,
    reply=DoubtView,
    refusals=(problems.NOT_FOUND,),
)
GO_ON = Door(
    method="POST",
    path=ONE + "/go-on",
    summary="Go on without an attempt that is in doubt.",
    scope=Scope.CANCEL,
    repeat=Repeat.SAME,
    starts=True,
    reply=DoubtView,
    refusals=(problems.NOT_FOUND, problems.NOT_IN_DOUBT),
)
DOORS = (DOUBT, GO_ON)
