"""Commands that change what is wanted, and the questions beside them: submit, cancel, retry, wait, estimate."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.describing import takes_workload
from placet.cli.door import client, resolve
from placet.cli.exits import Exit
from placet.cli.failures import problem_lines
from placet.cli.output import Output
from placet.cli.summary import show_result
from placet.contract.quantities import format_money
from placet.sdk.errors import ProblemView
from placet.sdk.specs import Document

if TYPE_CHECKING:
    from placet.contract import api

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]
Key = Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same workload.")]
CANDIDATES_SHOWN = 10
LISTED_SHOWN = 5


@takes_workload
def submit(
    context: typer.Context,
    document: Document,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it would be accepted.")] = False,
) -> int:
    """Submit a workload and leave it to run."""
    output = Output(context.obj)
    with client(context.obj) as server:
        if dry_run:
            return _dry_run(output, server.dry_run(document))
        workload = server.submit_document(document, key=key)
    if output.json:
        output.document(workload.view.model_dump(by_alias=True))
        return Exit.OK
    output.say(f"{workload.id} accepted" + (" earlier" if workload.view.existed else ""))
    for warning in workload.view.warnings:
        _say_problem(output, warning)
    return Exit.OK


def _dry_run(output: Output, view: "api.DryRunView") -> int:
    if output.json:
        output.document(view.model_dump())
    else:
        output.say("would be accepted" if view.accepted else "would not be accepted")
        for problem in (*view.problems, *view.warnings):
            _say_problem(output, problem)
    return Exit.OK if view.accepted else Exit.REFUSED


@takes_workload
def estimate(context: typer.Context, document: Document) -> int:
    """What would happen to a workload now, and what it may cost. Nothing is done."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.estimate(document)
    if output.json:
        output.document(view.model_dump())
    else:
        _say_estimate(output, view)
    return Exit.OK if view.accepted else Exit.REFUSED


def _say_estimate(output: Output, view: "api.EstimateView") -> None:
    output.say("would be accepted" if view.accepted else "would not be accepted")
    for problem in (*view.problems, *view.warnings):
        _say_problem(output, problem)
    if view.cost_usd is not None:
        low, likely, high = (
            format_money(Decimal(part)) for part in (view.cost_usd.low, view.cost_usd.likely, view.cost_usd.high)
        )
        output.say(f"cost: {likely}, between {low} and {high}")
    for assumption in view.assumptions:
        output.say(f"  assumed: {assumption}")
    rows = [
        (place, one.offer.id, one.offer.provider, format_money(Decimal(one.offer.price_usd_per_hour)) + "/h",
         format_money(Decimal(one.cost_usd.likely)), one.offer.availability)
        for place, one in enumerate(view.plan.ranked[:CANDIDATES_SHOWN], 1)
    ]  # fmt: skip
    if rows:
        output.table(("Rank", "Offer", "Provider", "Price", "Likely cost", "Now"), rows)
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


def cancel(context: typer.Context, workload: Id) -> int:
    """Ask for the end of a workload. Repeating it changes nothing."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.cancel(resolve(server, workload))
    if output.json:
        output.document(view.model_dump())
    elif view.already_final:
        output.say(f"{view.workload.id} had ended already: {view.workload.state}")
    else:
        output.say(f"{view.workload.id} is being cancelled" + ("" if view.changed else "; that was asked before"))
    return Exit.OK


def retry(context: typer.Context, workload: Id, key: Key = None) -> int:
    """Submit an ended workload again, as a new workload."""
    output = Output(context.obj)
    with client(context.obj) as server:
        again = server.retry(resolve(server, workload), key=key)
    if output.json:
        output.document(again.view.model_dump(by_alias=True))
    else:
        output.say(f"{again.id} accepted, a retry of {again.view.retry_of}")
    return Exit.OK


def wait(
    context: typer.Context,
    workload: Id,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most.")] = None,
) -> int:
    """Wait for the end of a workload; the exit code tells how it ended."""
    output = Output(context.obj)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        result = server.wait(workload_id, timeout_s=timeout)
        if output.json:
            output.raw_document(server.result_text(workload_id))
    if not output.json:
        show_result(result, output.say)
    return Exit.of_state(result.state)


def _say_problem(output: Output, problem: "api.ProblemView") -> None:
    told = ProblemView(**problem.model_dump())
    output.say("\n".join(problem_lines(told)))
