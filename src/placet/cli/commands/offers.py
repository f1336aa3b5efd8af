"""What there is to run on: offers with price, age and source; what was not believed; each one's fate for a spec."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.commands.estimating import say_ways
from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import Stop, problem_lines
from placet.cli.output import Output, last_words, note
from placet.contract.quantities import format_bytes, format_duration_ms, format_money
from placet.sdk.errors import ProblemView
from placet.sdk.specs import Document, from_file, from_text

if TYPE_CHECKING:
    from placet.contract import api
    from placet.sdk.client import Client

STDIN = "-"
UNKNOWN = "-"
DAY_MS = 86_400_000
RANKED = ("Rank", "Offer", "Provider", "Capacity", "Price", "Likely cost", "Score", "Parts", "Source")


def offers(
    context: typer.Context,
    spec: Annotated[
        str | None, typer.Option("--for", metavar="SPEC", help="Hold every offer against this spec; `-` is stdin.")
    ] = None,
    why_not: Annotated[
        bool, typer.Option("--why-not", help="With --for: why each offer that does not fit does not.")
    ] = False,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="What price lists say and was not believed, with the reason.")
    ] = False,
    connected: Annotated[bool, typer.Option("--connected", help="Only what can be dispatched to.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows.")] = 50,
) -> int:
    """What there is to run on, with prices, their age and where they are from."""
    if (why_not and spec is None) or sum((spec is not None, quarantined, connected)) > 1:
        raise Stop("usage", "these flags do not go together", "--why-not belongs to --for SPEC", Exit.REFUSED)
    output = Output(context.obj)
    document = None if spec is None else _document(spec)
    with client(context.obj) as server:
        if document is not None:
            return _match(output, server.match(document, drops=limit if why_not else 0))
        if quarantined:
            return _quarantined(output, server, limit)
        return _offers(output, server, connected, limit)


def _document(spec: str) -> Document:
    return from_text(sys.stdin.buffer.read(), Path.cwd(), "stdin") if spec == STDIN else from_file(Path(spec))


def _offers(output: Output, server: "Client", connected: bool, limit: int) -> int:
    page = server.offers(connected=True if connected else None, limit=limit)
    if output.json:
        output.document(page.model_dump())
        return Exit.OK
    rows = [
        (
            one.id,
            one.provider,
            one.region,
            _gpu(one),
            one.cpu_cores if Decimal(one.cpu_cores) else UNKNOWN,
            format_bytes(one.memory_bytes) if one.memory_bytes else UNKNOWN,
            one.capacity_type,
            _price(one),
            one.availability,
            _source(one),
            _age(one.priced_at) + (" (stale)" if one.stale else ""),
        )
        for one in page.items
    ]
    headings = ("Offer", "Provider", "Region", "GPU", "Cores", "Memory", "Capacity", "Price", "Now", "Source", "Age")
    output.table(headings, rows)
    _left_out(page.left_out, "offers")
    _sources(output, page.sources)
    return Exit.OK


def _quarantined(output: Output, server: "Client", limit: int) -> int:
    page = server.quarantined(limit=limit)
    if output.json:
        output.document(page.model_dump())
        return Exit.OK
    rows = [
        (one.source, one.row, one.provider, one.instance, one.gpu, one.capacity, one.price_usd_per_hour, one.reason,
         one.why)
        for one in page.items
    ]  # fmt: skip
    output.table(("Source", "Row", "Provider", "Instance", "GPU", "Capacity", "Price", "Reason", "Why"), rows)
    _left_out(page.left_out, "lines")
    for (source, what), count in Counter((one.source, one.what) for one in page.corrected).items():
        output.say(f"believed after a correction: {count} of {source}: {what}")
    _left_out(page.corrected_left_out, "corrected lines")
    _sources(output, page.sources)
    return Exit.OK


def _match(output: Output, view: "api.MatchView") -> int:
    with last_words():
        if output.json:
            output.document(view.model_dump())
        else:
            _say_match(output, view)
    return Exit.OK if view.accepted else Exit.REFUSED


def _say_match(output: Output, view: "api.MatchView") -> None:
    for problem in view.problems:
        output.say("\n".join(problem_lines(ProblemView(**vars(problem)))))
    say_ways(output, view.relaxations)
    output.say(f"{view.fits} of {view.considered} offers fit")
    if view.plan.ranked:
        output.table(RANKED, list(_ranked(view.plan.ranked)))
    if view.listed:
        output.say("only listed, would fit if an adapter of the provider were connected:")
        output.table(RANKED, list(_ranked(view.listed)))
    if view.plan.drop_counts:
        counts = [(name, count, view.filter_fields.get(name, "")) for name, count in view.plan.drop_counts.items()]
        output.table(("Filter", "Dropped", "Bound"), counts)
    if view.drops:
        rows = [(one.offer_id, one.filter, one.fate.replace("_", " "), one.reason) for one in view.drops]
        output.table(("Offer", "Filter", "Fate", "Why not"), rows)
        _left_out(view.left_out, "dropped offers")
    _sources(output, view.sources)


def _ranked(ranked: Sequence["api.RankedView"]) -> Iterator[tuple[object, ...]]:
    for place, one in enumerate(ranked, 1):
        parts = " ".join(f"{name}={value}" for name, value in one.parts.items())
        yield (
            place, one.offer.id, one.offer.provider, one.offer.capacity_type, _price(one.offer),
            format_money(Decimal(one.cost_usd.likely)), one.score, parts, _source(one.offer, ranked=True),
        )  # fmt: skip


def _gpu(offer: "api.OfferView") -> str:
    gpu = offer.gpu
    return "" if gpu is None else f"{gpu.count} x {gpu.model} {format_bytes(gpu.memory_bytes)}"


def _price(offer: "api.OfferView") -> str:
    return format_money(Decimal(offer.price_usd_per_hour)) + "/h"


def _source(offer: "api.OfferView", *, ranked: bool = False) -> str:
    if not offer.connected:
        return f"listed: {offer.price_source}" + (" (stale)" if offer.stale and ranked else "")
    adapter = "simulated" if offer.simulated else "adapter"
    return f"{adapter}, own terms: {offer.price_source}" if offer.price_source else adapter


def _age(at: str | None) -> str:
    if at is None:
        return ""
    ms = max(int((time.time() - datetime.fromisoformat(at).timestamp()) * 1000), 0)
    return f"{ms // DAY_MS} days" if ms >= 2 * DAY_MS else format_duration_ms(ms)


def _left_out(count: int, noun: str) -> None:
    if count:
        note(f"{count} more {noun}; --limit shows them")


def _sources(output: Output, sources: Sequence["api.SourceView"]) -> None:
    """The state of each price list: always for a person, in a pipe where it is not as it should be."""
    for one in sources:
        troubled = one.state != "fresh" or bool(one.warnings)
        if one.kind == "list" and (output.on_terminal or troubled):
            note(_told(one), style="yellow" if troubled else "dim")


def _told(one: "api.SourceView") -> str:
    words = f"{one.name}: {one.state}, {one.offers} offers, {one.quarantined} prices set aside"
    if one.priced_at is not None:
        words += f", newest price {_age(one.priced_at)} old"
    if one.read_at is not None:
        words += f", read {_age(one.read_at)} ago"
    if one.failure:
        words += f"; not read now: {one.failure} ({one.fix})"
    return "; ".join([words, *one.warnings])
