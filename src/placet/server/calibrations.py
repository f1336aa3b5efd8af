"""The route that holds forecasts against what became of them."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import forecasts as views
from placet.domain.calibration import Calibrated, Coverage, Outcome, Quantity
from placet.domain.units import format_instant
from placet.engine.queries import CALIBRATED_MAX
from placet.server import problems
from placet.server.asking import Asked, asked
from placet.server.doors import Doors, reply
from placet.server.table import Door, Route, principal_of
from placet.server.tokens import Scope
from placet.stages.calibration import expected


class CalibrationAsked(Asked):
    """How much is looked at and told."""

    limit: int = Field(1000, ge=1, le=CALIBRATED_MAX, description="How many ended workloads, the latest first.")
    points: bool = Field(False, description="Each forecast with its actual value too, as a plot needs them.")


class Calibrations:
    """The handler over queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What this handler answers to."""
        return (Route(door=CALIBRATION, endpoint=self.calibration),)

    async def calibration(self, request: Request) -> Response:
        """By provider and class of machine: how often cost, start, run and end lay within their forecasts."""
        wanted = asked(request, CalibrationAsked)
        found = await self._doors.queries.calibration(principal_of(request).tenant, wanted.limit)
        oldest_ms = min((one.created_ms for one in found.outcomes), default=None)
        return reply(
            views.CalibrationView(
                considered=found.considered,
                forecast=len(found.outcomes),
                since=None if oldest_ms is None else format_instant(oldest_ms),
                rows=[_row(row) for row in found.rows],
                points=[point for one in found.outcomes for point in _points(one)] if wanted.points else [],
            )
        )


def _row(held: Calibrated) -> views.CalibrationRow:
    covered = {quantity: _coverage(coverage) for quantity, coverage in held.coverage}
    return views.CalibrationRow(
        provider=held.provider,
        machine=held.machine,
        workloads=held.workloads,
        cost_usd=covered[Quantity.COST],
        start_s=covered[Quantity.START],
        run_s=covered[Quantity.RUN],
        finish_s=covered[Quantity.FINISH],
    )


def _coverage(held: Coverage) -> views.CoverageView:
    return views.CoverageView(count=held.count, below_p50=held.below_p50, below_p90=held.below_p90, within=held.within)


def _points(held: Outcome) -> list[views.CalibrationPoint]:
    made = []
    for quantity, actual in held.actual:
        quantiles = expected(held.forecast, quantity)
        made.append(
            views.CalibrationPoint(
                workload_id=held.workload_id,
                quantity=quantity.value,
                provider=held.provider,
                machine=held.forecast.machine,
                p10=float(quantiles.p10),
                p50=float(quantiles.p50),
                p90=float(quantiles.p90),
                actual=actual,
            )
        )
    return made


CALIBRATION = Door(
    method="GET",
    path="/v1/calibration",
    summary="Forecasts held against what became of them.",
    scope=Scope.READ,
    asked=CalibrationAsked,
    reply=views.CalibrationView,
    refusals=(problems.BAD_REQUEST,),
)
DOORS = (CALIBRATION,)
