"""Routes about where the money went."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.ledgers import EntryView, LedgerView, WasteView
from placet.engine.ledgers import WORKLOADS_MAX, Ledger
from placet.server import mapping, problems
from placet.server.asking import Asked, asked
from placet.server.doors import Doors, no_workload, reply, workload_id_of
from placet.server.table import Door, Route, principal_of
from placet.server.tokens import Scope
from placet.server.workloads import ABSENT, ONE
from placet.stages.ledger import Entry, add_up


class LedgerAsked(Asked):
    """How much is added up."""

    limit: int = Field(1000, ge=1, le=WORKLOADS_MAX, description="How many workloads, the latest first.")


class Ledgers:
    """Handlers over the use cases."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (Route(door=OF_WORKLOAD, endpoint=self.of_workload), Route(door=OF_TENANT, endpoint=self.of_tenant))

    async def of_workload(self, request: Request) -> Response:
        """Per attempt: what was set aside, spent, useful, wasted and why, and charged after the end."""
        found = await self._doors.ledgers.of_workload(principal_of(request).tenant, workload_id_of(request))
        if found is None:
            raise no_workload()
        return reply(_view(found))

    async def of_tenant(self, request: Request) -> Response:
        """The same of the tenant's latest workloads."""
        wanted = asked(request, LedgerAsked)
        return reply(_view(await self._doors.ledgers.of_tenant(principal_of(request).tenant, wanted.limit)))


def _view(held: Ledger) -> LedgerView:
    sums = add_up(held.entries)
    return LedgerView(
        workloads=held.workloads,
        since=mapping.instant(held.since_ms),
        entries=[_entry(entry) for entry in held.entries],
        reserved_usd=mapping.money(sums.reserved_usd),
        spent_usd=mapping.money(sums.spent_usd),
        useful_usd=mapping.money(sums.useful_usd),
        overhead_usd=mapping.money(sums.overhead_usd),
        wasted_usd=mapping.money(sums.wasted_usd),
        running_usd=mapping.money(sums.running_usd),
        after_stop_usd=mapping.money(sums.after_stop_usd),
        wasted=[WasteView(reason=reason, usd=mapping.money(usd)) for reason, usd in sums.wasted],
        at_most=sums.at_most,
    )


def _entry(held: Entry) -> EntryView:
    return EntryView(
        workload_id=held.workload_id,
        attempt=held.epoch,
        provider=held.provider,
        offer=held.offer_id,
        reserved_usd=mapping.money(held.reserved_usd),
        spent_usd=mapping.money(held.spent_usd),
        useful_usd=mapping.money(held.useful_usd),
        overhead_usd=mapping.money(held.overhead_usd),
        wasted_usd=mapping.money(held.wasted_usd),
        running_usd=mapping.money(held.running_usd),
        reason=held.reason,
        after_stop_usd=mapping.money(held.after_stop_usd),
        orphan_usd=mapping.money(held.orphan_usd),
        at_most=held.at_most,
        open=held.open,
        simulated=held.simulated,
    )


OF_WORKLOAD = Door(
    method="GET",
    path=ONE + "/ledger",
    summary="Where a workload's money went.",
    scope=Scope.READ,
    reply=LedgerView,
    refusals=ABSENT,
)
OF_TENANT = Door(
    method="GET",
    path="/v1/ledger",
    summary="Where the money of the latest workloads went.",
    scope=Scope.READ,
    asked=LedgerAsked,
    reply=LedgerView,
    refusals=(problems.BAD_REQUEST,),
)
DOORS = (OF_WORKLOAD, OF_TENANT)
