"""Commands that read what grows: logs and events."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client, resolve
from placet.cli.following import LogScreen
from placet.cli.output import Output
from placet.cli.text import one_line

if TYPE_CHECKING:
    from placet.contract.api import EventView
    from placet.sdk.client import Client

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on to the end of the workload.")]
STREAMS = ("install", "stdout", "stderr")


def logs(
    context: typer.Context,
    workload: Id,
    follow: Follow = False,
    stream: Annotated[
        str | None, typer.Option(help="stdout, stderr or install; without it all, each to its own place.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt; without it the newest.")] = None,
) -> None:
    """Show what a workload wrote: its stdout on stdout, its stderr and the installation's log on stderr."""
    output = Output(context.obj)
    screen = LogScreen(stdout_is_taken=False)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        pieces = (
            server.logs(workload_id, stream=stream or "all", epoch=attempt, follow=True)
            if follow
            else (
                piece
                for one in _streams(server, workload_id, stream)
                for piece in server.logs(workload_id, stream=one, epoch=attempt)
            )
        )
        for piece in pieces:
            if output.json:
                output.line(piece.model_dump())
            elif stream is not None:
                screen.show(piece.model_copy(update={"stream": "stdout"}))
            else:
                screen.show(piece)


def _streams(server: "Client", workload_id: str, stream: str | None) -> tuple[str, ...]:
    """What to read; nothing while there is no attempt, which is not an error."""
    if not server.attempts(workload_id):
        return ()
    return STREAMS if stream is None else (stream,)


def events(
    context: typer.Context,
    workload: Id,
    follow: Follow = False,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
) -> None:
    """The append-only account of a workload, line by line."""
    output = Output(context.obj)
    with client(context.obj) as server:
        for event in server.events(resolve(server, workload), after=after, follow=follow):
            if output.json:
                output.line(event.model_dump())
            else:
                output.say(_event_line(event))
                sys.stdout.flush()


def _event_line(event: "EventView") -> str:
    attempt = "" if event.epoch is None else f" #{event.epoch}"
    move = f" {event.from_state or ''} -> {event.to_state}" if event.to_state else ""
    cause = f" [{event.cause}]" if event.cause else ""
    message = f" {one_line(event.message)}" if event.message else ""
    return f"{event.seq:>6}  {event.at}  {event.kind}{attempt}{move}{cause}{message}  ({event.actor})"
