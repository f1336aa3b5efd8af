"""Where the money went, for one workload or for the latest ones."""

from decimal import Decimal
from typing import Annotated

import typer

from placet.cli.door import client, resolve
from placet.cli.output import Output
from placet.contract.quantities import format_money

HEADINGS = (
    "Workload", "Attempt", "Provider", "Reserved", "Spent", "Useful", "Overhead", "Wasted", "Why", "After stop",
)  # fmt: skip


def ledger(
    context: typer.Context,
    workload: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Id, unique beginning, name, or `last`; without it, all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Without ID: how many workloads, the latest.")] = 1000,
) -> None:
    """What was set aside, spent, useful, wasted and why, and charged after the end, for each attempt and together."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.ledger(resolve(server, workload) if workload else None, limit=limit)
    if output.json:
        output.document(view.model_dump())
        return
    rows = [
        (
            one.workload_id,
            one.attempt,
            one.provider + (" (simulated)" if one.simulated else ""),
            _money(one.reserved_usd),
            ("at most " if one.at_most else "") + _money(one.spent_usd) + (" so far" if one.open else ""),
            _money(one.useful_usd),
            _money(one.overhead_usd),
            _money(one.wasted_usd),
            one.reason + (" (an orphan of it)" if Decimal(one.orphan_usd) else ""),
            _money(one.after_stop_usd),
        )
        for one in view.entries
    ]
    if rows:
        output.table(HEADINGS, rows)
    since = f" since {view.since}" if view.since else ""
    spent = ("at most " if view.at_most else "") + _money(view.spent_usd)
    parts = (
        ("useful", view.useful_usd),
        ("overhead", view.overhead_usd),
        ("wasted", view.wasted_usd),
        ("running", view.running_usd),
    )
    told = ", ".join(f"{name} {_money(usd)}" for name, usd in parts)
    output.say(f"{view.workloads} {'workload' if view.workloads == 1 else 'workloads'}{since}: spent {spent}: {told}")
    for waste in view.wasted:
        output.say(f"wasted by {waste.reason}: {_money(waste.usd)}")


def _money(text: str) -> str:
    return format_money(Decimal(text))
