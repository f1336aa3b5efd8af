"""Routes about budgets: who sets them, and how they stand."""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.budgets import BoundView, BudgetList, BudgetRequest, BudgetView, DroppedBudgetView
from placet.domain.budgets import Bound, Budgeted, Holder
from placet.server import mapping, problems
from placet.server.asking import unfit
from placet.server.doors import Doors, actor_of, reply
from placet.server.table import SMALL_BODY_MAX, Door, Repeat, Route, principal_of, read_body
from placet.server.tokens import Scope
from placet.stages.budgets import warnings

TENANT_CHARACTERS_MAX = 100
ONE = "/v1/budgets/{kind}/{holder}"


class Budgets:
    """Handlers over the use cases."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=BUDGETS, endpoint=self.listed),
            Route(door=SET, endpoint=self.set),
            Route(door=DROP, endpoint=self.drop),
        )

    async def listed(self, request: Request) -> Response:
        """All of them for an operator; for others those of their own tenant and token."""
        principal = principal_of(request)
        if principal.may(Scope.OPERATOR):
            found = await self._doors.budgets.listed()
        else:
            found = await self._doors.budgets.of(principal.tenant, principal.token_id)
        return reply(BudgetList(items=[_view(one) for one in found]))

    async def set(self, request: Request) -> Response:
        """Set a budget. Nothing that runs is stopped; what would begin beyond it does not."""
        kind, holder = await self._holder(request)
        body = await read_body(request, SMALL_BODY_MAX)
        try:
            wanted = BudgetRequest.model_validate_json(body)
        except ValidationError as error:
            raise unfit(error) from error
        found = await self._doors.budgets.set(
            kind, holder, total_usd=wanted.total_usd, month_usd=wanted.month_usd, actor=actor_of(request)
        )
        return reply(_view(found))

    async def drop(self, request: Request) -> Response:
        """Take a budget away: there is no bound any more. Repeating it changes nothing."""
        kind, holder = _named(request)
        changed = await self._doors.budgets.drop(kind, holder)
        return reply(DroppedBudgetView(kind=kind.value, holder=holder, changed=changed))

    async def _holder(self, request: Request) -> tuple[Holder, str]:
        kind, holder = _named(request)
        if kind is Holder.TOKEN and await self._doors.store.token(holder) is None:
            raise problems.Refusal(
                problems.NOT_FOUND, detail="there is no such token", fix="`placet token ls` lists them"
            )
        return kind, holder


def _named(request: Request) -> tuple[Holder, str]:
    kind, holder = str(request.path_params["kind"]), str(request.path_params["holder"])
    if kind not in list(Holder):
        raise problems.Refusal(
            problems.NOT_FOUND, detail="only tenants and tokens have budgets", fix="write tenant or token"
        )
    if len(holder) > TENANT_CHARACTERS_MAX or not holder.isprintable():
        raise problems.Refusal(problems.NOT_FOUND, detail="there is nobody of such a name")
    return Holder(kind), holder


def _view(held: Budgeted) -> BudgetView:
    budget = held.budget
    return BudgetView(
        kind=budget.kind.value,
        holder=budget.holder,
        bounds=[_bound(bound) for bound in held.bounds],
        warnings=list(warnings([held])),
        set_at=mapping.format_instant(budget.set_ms),
        set_by=budget.set_by,
    )


def _bound(held: Bound) -> BoundView:
    return BoundView(
        month=held.month,
        limit_usd=mapping.money(held.limit_usd),
        reserved_usd=mapping.money(held.held.reserved_usd),
        spent_usd=mapping.money(held.held.spent_usd),
        left_usd=mapping.money(held.left_usd),
        used_percent=held.percent(),
    )


BUDGETS = Door(
    method="GET",
    path="/v1/budgets",
    summary="Budgets and how they stand.",
    scope=Scope.READ,
    reply=BudgetList,
)
SET = Door(
    method="PUT",
    path=ONE,
    summary="Set the budget of a tenant or a token.",
    scope=Scope.OPERATOR,
    repeat=Repeat.SAME,
    body_max=SMALL_BODY_MAX,
    reply=BudgetView,
    refusals=(problems.BAD_REQUEST, problems.TOO_LARGE, problems.NOT_FOUND),
    body=BudgetRequest,
)
DROP = Door(
    method="DELETE",
    path=ONE,
    summary="Take a budget away.",
    scope=Scope.OPERATOR,
    repeat=Repeat.SAME,
    reply=DroppedBudgetView,
    refusals=(problems.NOT_FOUND,),
)
DOORS = (BUDGETS, SET, DROP)
