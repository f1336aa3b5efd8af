"""Commands that change what is wanted, and the questions beside them: submit, cancel, retry, wait."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.describing import takes_workload
from placet.cli.door import client, resolve
from placet.cli.exits import Exit
from placet.cli.failures import say_problem
from placet.cli.output import Output, last_words
from placet.cli.summary import show_result
from placet.contract.quantities import format_money
from placet.sdk.specs import Document

if TYPE_CHECKING:
    from placet.contract import api

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]
Key = Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same workload.")]
Quote = Annotated[str | None, typer.Option(help="A quote of `placet estimate`; refused if the world moved beyond it.")]


@takes_workload
def submit(
    context: typer.Context,
    document: Document,
    key: Key = None,
    quote: Quote = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it would be accepted.")] = False,
) -> int:
    """Submit a workload and leave it to run."""
    output = Output(context.obj)
    with client(context.obj) as server:
        if dry_run:
            return _dry_run(output, server.dry_run(document, quote=quote))
        workload = server.submit_document(document, key=key, quote=quote)
    if output.json:
        output.document(workload.view.model_dump(by_alias=True))
        return Exit.OK
    output.say(f"{workload.id} accepted" + (" earlier" if workload.view.existed else ""))
    for warning in workload.view.warnings:
        say_problem(output, warning)
    return Exit.OK


def _dry_run(output: Output, view: "api.DryRunView") -> int:
    with last_words():
        if output.json:
            output.document(view.model_dump())
        else:
            output.say("would be accepted" if view.accepted else "would not be accepted")
            for problem in (*view.problems, *view.warnings):
                say_problem(output, problem)
    return Exit.OK if view.accepted else Exit.REFUSED


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


def redeliver(context: typer.Context, workload: Id) -> int:
    """Deliver what a workload computed and could not deliver. Nothing is run again."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.redeliver(resolve(server, workload))
    if output.json:
        output.document(view.model_dump(by_alias=True))
    else:
        output.say(f"{view.id}: delivery is {view.delivery}; `placet artifacts ls {view.id}` lists its outputs")
    return Exit.OK


def resolve_doubt(
    context: typer.Context,
    workload: Id,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Give the attempt up and start the next one; both may run and cost.")
    ] = False,
) -> int:
    """Say what is unclear about an attempt of which nobody can tell whether it runs, or go on without it."""
    output = Output(context.obj)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        view = server.go_on(workload_id) if go_on else server.doubt(workload_id)
    if output.json:
        output.document(view.model_dump())
        return Exit.OK
    most = "without a known bound" if view.at_most_usd is None else f"at most {format_money(Decimal(view.at_most_usd))}"
    if view.given_up_by:
        output.say(f"attempt {view.attempt} is given up by {view.given_up_by}; it may go on costing, {most} in all")
    elif view.in_doubt:
        output.say(f"since {view.since} nobody can tell whether attempt {view.attempt} runs")
        output.say(f"wait, or go on without it: placet resolve {workload_id} --go-on; it may then cost {most} beside")
    else:
        output.say(f"nothing is unclear: {workload_id} is {view.state}")
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
        text = server.result_text(workload_id) if output.json else ""
    with last_words():
        if output.json:
            output.raw_document(text)
        else:
            show_result(result, output.say)
    return Exit.of_state(result.state)
