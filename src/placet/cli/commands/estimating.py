"""What would become of a workload: whether it would be accepted, what it may cost, when it would start and end."""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import typer

from placet.cli.describing import takes_workload
from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import say_problem
from placet.cli.output import Output, last_words
from placet.cli.summary import provider_of
from placet.contract.quantities import format_duration_ms, format_money
from placet.sdk.specs import Document

if TYPE_CHECKING:
    from placet.contract import api
    from placet.contract.forecasts import QuantilesView, RelaxationView

CANDIDATES_SHOWN = 10
LISTED_SHOWN = 5


@takes_workload
def estimate(context: typer.Context, document: Document) -> int:
    """What would happen to a workload now, what it may cost and when it would end, with a quote. Nothing is done.

    `placet submit --quote QUOTE` is refused once the world has moved beyond the quote.
    """
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.estimate(document)
    with last_words():
        if output.json:
            output.document(view.model_dump())
        else:
            _say(output, view)
    return Exit.OK if view.accepted else Exit.REFUSED


def _say(output: Output, view: "api.EstimateView") -> None:
    output.say("would be accepted" if view.accepted else "would not be accepted")
    for problem in (*view.problems, *view.warnings):
        say_problem(output, problem)
    say_ways(output, view.relaxations)
    if view.forecast is not None:
        _say_forecast(output, view)
    for assumption in view.assumptions:
        output.say(f"  assumed: {assumption}")
    _say_offers(output, view)
    if view.quote is not None:
        bound = format_money(Decimal(view.quote.bound_usd))
        output.say(f"quote, valid until {view.quote.valid_until}, for at most {bound}: {view.quote.quote}")


def say_ways(output: Output, ways: "list[RelaxationView]") -> None:
    """What would make an infeasible spec feasible, if anything would."""
    if ways:
        output.say("what would make it feasible:")
        output.table(("Change", "Price", "Likely cost", "Starts in", "Offer"), list(_ways(ways)))


def _ways(ways: "list[RelaxationView]") -> Iterator[tuple[str, str, str, str, str]]:
    for way in ways:
        offer = way.offer if way.connected else f"{way.offer} (only listed; connect {way.provider})"
        yield (
            " and ".join(change.words for change in way.changes) or "connect its provider",
            format_money(Decimal(way.price_usd_per_hour)) + "/h",
            format_money(Decimal(way.cost_usd.likely)),
            _duration(way.start_s) if way.now else "when it is free again",
            offer,
        )


def _say_forecast(output: Output, view: "api.EstimateView") -> None:
    expected = view.forecast
    assert expected is not None
    if not view.now:
        output.say("nothing that fits is free now; times count from when it is")
    rows = [("cost", *(format_money(Decimal(part)) for part in _parts(expected.cost_usd)))]
    for name, held in (("start after", expected.start_s), ("run", expected.run_s), ("end after", expected.finish_s)):
        rows.append((name, *(_duration(part) for part in _parts(held))))
    if view.finishes_at is not None:
        rows.append(("end at", *_parts(view.finishes_at)))
    output.table(("Expected", "p10", "p50", "p90"), rows)


def _parts(held: "QuantilesView") -> tuple[str, str, str]:
    return held.p10, held.p50, held.p90


def _duration(seconds: str) -> str:
    return format_duration_ms(int(Decimal(seconds) * 1000))


def _say_offers(output: Output, view: "api.EstimateView") -> None:
    rows = [
        (place, one.offer.id, provider_of(one.offer), format_money(Decimal(one.offer.price_usd_per_hour)) + "/h",
         format_money(Decimal(one.cost_usd.likely)), _duration(one.offer.startup_s), one.offer.availability)
        for place, one in enumerate(view.plan.ranked[:CANDIDATES_SHOWN], 1)
    ]  # fmt: skip
    if rows:
        output.table(("Rank", "Offer", "Provider", "Price", "Likely cost", "Starts in", "Now"), rows)
    listed = [
        (one.offer.id, one.offer.provider, format_money(Decimal(one.offer.price_usd_per_hour)) + "/h",
         format_money(Decimal(one.cost_usd.likely)), one.offer.price_source + (" (stale)" if one.offer.stale else ""))
        for one in view.listed[:LISTED_SHOWN]
    ]  # fmt: skip
    if listed:
        output.say("only listed, would fit if an adapter of the provider were connected:")
        output.table(("Offer", "Provider", "Price", "Likely cost", "Listed in"), listed)
    for drop in view.plan.drops[:CANDIDATES_SHOWN]:
        output.say(f"dropped: {drop.offer_id}: {drop.reason} [{drop.filter}, {drop.fate.replace('_', ' ')}]")
