"""Commands that only look: lists, one workload, its account, its result."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.describing import pairs
from placet.cli.door import client, line_of, resolve
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output, last_words
from placet.cli.summary import show_result
from placet.contract.quantities import format_duration_ms, format_money
from placet.contract.words import WorkloadState

if TYPE_CHECKING:
    from placet.contract.api import AttemptView, WorkloadSummary, WorkloadView

SIMULATED = "yes: no machine, no program and no money was real"

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]


def ls(
    context: typer.Context,
    state: Annotated[list[WorkloadState] | None, typer.Option(help="Only in this state; may be repeated.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Only with key=value; may be repeated.")] = None,
    name: Annotated[str | None, typer.Option(help="Only of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 50,
) -> None:
    """List workloads, newest first."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found: list[WorkloadSummary] = []
        cursor: str | None = None
        while len(found) < limit:
            page = server.page(
                states=[one.value for one in state or ()],
                labels=pairs(label or []),
                name=name,
                limit=min(limit - len(found), 200),
                cursor=cursor,
            )
            found += page.items
            cursor = page.next
            if cursor is None:
                break
    if output.json:
        output.document([one.model_dump() for one in found])
    else:
        output.table(("Id", "Name", "State", "Why", "Created"), [line_of(one) for one in found])


def show(context: typer.Context, workload: Id) -> None:
    """Show a workload: what was asked, where it stands, its attempts."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.get(resolve(server, workload))
    if output.json:
        output.document(view.model_dump(by_alias=True))
        return
    output.pairs(
        {
            "id": view.id,
            "name": view.name,
            "state": view.state,
            "desired": view.desired,
            "stop": _stop(view),
            "waiting for": None if view.final else view.reason,
            "cause": view.cause,
            "message": view.failure.message if view.failure else None,
            "fix": view.failure.fix if view.failure else None,
            "delivery": view.delivery,
            "created": view.created_at,
            "in this state since": view.state_since,
            "finished": view.finished_at,
            "retry of": view.retry_of,
            "quoted": None if view.quoted_usd is None else f"at most {format_money(Decimal(view.quoted_usd))}",
            "labels": ", ".join(f"{key}={value}" for key, value in view.labels.items()),
            "spec": view.spec_digest,
            "simulated": SIMULATED if view.simulated else "",
        }
    )
    _attempts(output, view)


def _stop(view: "WorkloadView") -> str | None:
    if view.stop is None:
        return None
    still = Decimal(view.stop.still_usd_per_hour)
    cost = f"; it may still cost {format_money(still)} per hour" if still else ""
    return f"{view.stop.stage}, asked for at {view.stop.requested_at}{cost}"


def _attempts(output: Output, view: "WorkloadView") -> None:
    rows = [
        (
            one.epoch,
            one.state,
            one.placement.offer + (" (simulated)" if one.placement.simulated else ""),
            one.exit_code,
            one.failure.cause.code if one.failure else "",
            took(one),
            cost(one),
            price(one),
        )
        for one in view.attempt_list
    ]
    if rows:
        output.say("")
        output.table(("Attempt", "State", "Offer", "Exit code", "Cause", "Took", "Cost", "Per hour"), rows)


def cost(one: "AttemptView") -> str:
    """What an attempt cost: at most, where nobody knows when it ended; so far, while it is not over."""
    so_far = " so far" if one.live_ms is not None else ""
    return ("at most " if one.cost_at_most else "") + format_money(Decimal(one.cost_usd)) + so_far


def price(one: "AttemptView") -> str:
    """What it costs by the hour, and what was offered where that was something else."""
    offered = one.placement.price_usd_per_hour
    told = one.price_usd_per_hour or offered
    if told is None:
        return ""
    other = (
        "" if offered is None or Decimal(offered) == Decimal(told) else f", offered {format_money(Decimal(offered))}"
    )
    return format_money(Decimal(told)) + other


def took(one: "AttemptView") -> str:
    """How long an attempt took, as far as that is known: nobody measured one that was lost."""
    if one.live_ms is not None:
        return f"{format_duration_ms(one.live_ms)} so far"
    watched = one.exited_at or one.finished_at is None or "running" in one.phases_ms
    if one.phases_ms and watched:
        return format_duration_ms(sum(one.phases_ms.values()))
    if one.finished_at is None:
        return "-"
    if one.started_at is None:
        return "unknown"
    last = datetime.fromisoformat(one.exited_at or one.finished_at)
    span_ms = (last - datetime.fromisoformat(one.started_at)) // timedelta(milliseconds=1)
    return f"{'' if one.exited_at else 'at most '}{format_duration_ms(max(0, span_ms))}"


def account(context: typer.Context, workload: Id) -> None:
    """The nine answers about a workload, each with its evidence, and what to do now."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.account(resolve(server, workload))
    if output.json:
        output.document(view.model_dump())
        return
    rows = [
        (
            answer.question.replace("_", " "),
            answer.answer,
            answer.why,
            "" if answer.age_ms is None else format_duration_ms(answer.age_ms),
            " ".join(map(str, answer.events)),
            answer.source,
        )
        for answer in view.answers
    ]
    output.table(("Question", "Answer", "Why", "Age", "Events", "Source"), rows)
    again = f" Look again at {view.check_again_at}." if view.check_again_at else ""
    output.say(f"Now: {view.advice}. {view.advice_why}.{again}")


def result(context: typer.Context, workload: Id) -> int:
    """The final result of a workload. The exit code tells how it ended."""
    from placet.contract.api import ResultView
    from placet.sdk.errors import Conflict

    output = Output(context.obj)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        try:
            text = server.result_text(workload_id)
        except Conflict as error:
            raise Stop(error.code, str(error), f"placet wait {workload_id}") from error
    view = ResultView.model_validate_json(text)
    with last_words():
        if output.json:
            output.raw_document(text)
        else:
            show_result(view, output.say)
    return Exit.of_state(view.state)
