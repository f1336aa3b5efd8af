"""`placet explain`: why each attempt runs where it runs."""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.commands.looking import Id
from placet.cli.door import client, resolve
from placet.cli.exits import Exit
from placet.cli.output import Output, last_words
from placet.cli.summary import provider_of
from placet.contract.quantities import format_money

if TYPE_CHECKING:
    from placet.contract import explanations as views


def explain(
    context: typer.Context,
    workload: Id,
    replay: Annotated[
        bool, typer.Option("--replay", help="Decide again from the record; exit code 1 if it comes out otherwise.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, max=100, help="How many alternatives.")] = 5,
) -> int:
    """Explain why each attempt runs where it runs, and what would have won if."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.explanation(resolve(server, workload), replay=replay)
    differs = any(one.replay is not None and not one.replay.equal for one in view.decisions)
    with last_words():
        if output.json:
            output.document(view.model_dump())
        else:
            _say(output, view, top)
    return Exit.FAILED if differs else Exit.OK


def _say(output: Output, view: "views.ExplanationView", top: int) -> None:
    if view.reason:
        output.say(f"{view.state}: {view.reason}")
    for made in view.decisions:
        for line in _lines(made):
            output.say(line)
        output.table(
            ("Place", "Offer", "Provider", "Region", "Price", "Expected", "Score", "Parts"), _ranked(made, top)
        )
        if made.drops:
            rows = [(one.offer_id, one.filter, one.reason) for one in made.drops[:top]]
            output.table(("Offer", "Filter", "Why not"), rows)
        if made.what_if:
            output.table(("If asked", "Wins", "Expected"), [_if(one) for one in made.what_if])
        if made.replay is not None:
            output.say(_replayed(made))
    for epoch in view.unrecorded:
        output.say(f"attempt {epoch}: no record of its decision")


def _lines(made: "views.DecisionView") -> Iterator[str]:
    fits = made.considered - sum(made.dropped.values())
    winner = made.ranked[0].offer.id if made.ranked else "nothing"
    yield f"attempt {made.epoch} at {made.at}: {winner} of {fits} that fit, out of {made.considered} offers"
    if made.dropped:
        yield "dropped: " + ", ".join(f"{count} by {name}" for name, count in made.dropped.items())
    if made.quoted_usd is not None:
        left = format_money(max(Decimal(made.quote_left_usd or 0), Decimal(0)))
        yield f"quote: of {format_money(Decimal(made.quoted_usd))} {left} were left"
    yield from made.demand.reasons
    tried = [one for one in made.learnt if one.level == "offer"]
    for one in tried[:1]:
        yield (
            f"learnt of {one.group[0]}: {one.starts:.4g} starts, {one.failed_starts:.4g} failed, "
            f"{one.losses:.4g} losses in {one.hours:.4g} h (older attempts weigh less)"
        )


def _ranked(made: "views.DecisionView", top: int) -> list[tuple[object, ...]]:
    return [
        (
            place, one.offer.id, provider_of(one.offer), one.offer.region,
            format_money(Decimal(one.offer.price_usd_per_hour)) + "/h", format_money(Decimal(one.cost_usd.likely)),
            one.score, " ".join(f"{name}={value}" for name, value in one.parts.items()),
        )
        for place, one in enumerate(made.ranked[:top], 1)
    ]  # fmt: skip


def _if(one: "views.WhatIfView") -> tuple[str, str, str]:
    if one.offer_id is None or one.cost_usd is None:
        return one.change, "nothing fits", ""
    return one.change, "the same" if one.same else one.offer_id, format_money(Decimal(one.cost_usd.likely))


def _replayed(made: "views.DecisionView") -> str:
    assert made.replay is not None
    among = "all offers" if made.whole else f"the {made.kept} kept of {made.considered} offers"
    if made.replay.equal:
        return f"replayed over {among}: the same"
    return f"replayed over {among}: " + "; ".join(made.replay.differences)
