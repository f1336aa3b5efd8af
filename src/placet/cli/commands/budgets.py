"""Budgets of tenants and tokens: set, look, take away."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output, note
from placet.contract.quantities import format_money, parse_money

if TYPE_CHECKING:
    from placet.contract.budgets import BudgetView

HEADINGS = ("Of", "Holder", "Period", "Limit", "Spent", "Set aside", "Left", "Used")
TENANT, TOKEN = "tenant", "token"
Tenant = Annotated[str | None, typer.Option(help="Of this tenant.")]
Token = Annotated[str | None, typer.Option(metavar="ID", help="Of the token of this id.")]


def amount(text: str | None, flag: str) -> Decimal | None:
    """An amount of US dollars from a flag."""
    if text is None:
        return None
    try:
        return parse_money(text)
    except ValueError as error:
        what, _, fix = str(error).partition("; ")
        raise Stop("usage", f"{flag}: {what}", fix or f"write for example {flag} 50", Exit.REFUSED) from error


def budget_set(
    context: typer.Context,
    tenant: Tenant = None,
    token: Token = None,
    total: Annotated[str | None, typer.Option(help="The most in all, in US dollars.")] = None,
    month: Annotated[str | None, typer.Option(help="The most per calendar month (UTC), in US dollars.")] = None,
) -> None:
    """Set a budget; what it was before is replaced. What runs goes on, what would begin beyond it does not."""
    output = Output(context.obj)
    kind, holder = _holder(tenant, token)
    total_usd, month_usd = amount(total, "--total"), amount(month, "--month")
    if total_usd is None and month_usd is None:
        raise Stop("usage", "no amount is given", "give --total, --month, or both", Exit.REFUSED)
    with client(context.obj) as server:
        view = server.set_budget(kind, holder, total_usd=total_usd, month_usd=month_usd)
    _show(output, [view], view.model_dump())


def budget_ls(context: typer.Context) -> None:
    """Budgets and how they stand: all for an operator, else those of the own tenant and token."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found = server.budgets()
    _show(output, found, [one.model_dump() for one in found])


def budget_rm(context: typer.Context, tenant: Tenant = None, token: Token = None) -> None:
    """Take a budget away: there is no bound any more."""
    output = Output(context.obj)
    kind, holder = _holder(tenant, token)
    with client(context.obj) as server:
        view = server.drop_budget(kind, holder)
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{kind} {holder} {'has no budget any more' if view.changed else 'had no budget'}")


def _holder(tenant: str | None, token: str | None) -> tuple[str, str]:
    if (tenant is None) == (token is None):
        raise Stop("usage", "whose budget?", "give either --tenant NAME or --token ID", Exit.REFUSED)
    return (TENANT, tenant) if tenant is not None else (TOKEN, token or "")


def _show(output: Output, found: "list[BudgetView]", document: object) -> None:
    if output.json:
        output.document(document)
        return
    rows = [
        (
            one.kind,
            one.holder,
            bound.month or "in all",
            _money(bound.limit_usd),
            _money(bound.spent_usd),
            _money(bound.reserved_usd),
            _money(bound.left_usd),
            f"{bound.used_percent}%",
        )
        for one in found
        for bound in one.bounds
    ]
    if not rows:
        output.say("no budgets")
        return
    output.table(HEADINGS, rows)
    for one in found:
        for warning in one.warnings:
            note(f"placet: {warning}", style="yellow")


def _money(text: str) -> str:
    value = Decimal(text)
    return f"-{format_money(-value)}" if value < 0 else format_money(value)
