"""Allocations that no attempt stands for: what they burn, and the request to delete one."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client
from placet.cli.output import Output
from placet.contract.quantities import format_money

if TYPE_CHECKING:
    from placet.contract.orphans import OrphanView


def orphans(
    context: typer.Context,
    delete: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Ask for its deletion first; may be repeated.")
    ] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Those dealt with in the last week too.")] = False,
) -> None:
    """What runs or costs at a provider and belongs to no attempt, what it burns, and what becomes of it."""
    output = Output(context.obj)
    with client(context.obj) as server:
        asked = [server.delete_orphan(orphan_id) for orphan_id in delete or ()]
        page = server.orphans(closed=closed)
    if output.json:
        output.document(page.model_dump())
        return
    for one in asked:
        output.say(f"{one.id}: {done(one)}")
    rows = [
        (
            one.id,
            one.provider,
            one.native_id,
            one.state,
            one.first_seen_at,
            "unknown" if one.price_usd_per_hour is None else format_money(Decimal(one.price_usd_per_hour)),
            one.why,
            one.proof or one.next,
        )
        for one in page.items
    ]
    if rows:
        output.table(("Id", "Provider", "Allocation", "State", "Since", "Per hour", "Why", "Next"), rows)
    unpriced = f", and {page.unpriced} whose price nobody knows" if page.unpriced else ""
    output.say(f"together {format_money(Decimal(page.burn_usd_per_hour))} per hour{unpriced}")


def done(one: "OrphanView") -> str:
    """What the request to delete it did."""
    if one.closed_at is not None:
        return f"nothing is left to delete: {one.proof}"
    return f"its deletion was asked for by {one.requested_by} at {one.requested_at}, and is tried until that is proven"
