"""Commands that read what grows: logs and events."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client, resolve
from placet.cli.following import Follower, LogScreen, Screen
from placet.cli.output import Output
from placet.cli.text import one_line
from placet.contract.words import LogStream

if TYPE_CHECKING:
    from placet.contract.api import EventView
    from placet.contract.logs import LogPieceView

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on to the end of the workload.")]


def logs(
    context: typer.Context,
    workload: Id,
    follow: Follow = False,
    stream: Annotated[
        LogStream | None, typer.Option(help="Only this one; without it all, each to its own place.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt; without it the newest.")] = None,
) -> None:
    """Show what a workload wrote: its stdout on stdout, its stderr and the installation's log on stderr."""
    screen = _screen(Output(context.obj), stream)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        epochs = [one.epoch for one in server.attempts(workload_id)]
        if follow and attempt is None:
            Follower(server, workload_id, screen=screen, quiet=True, first_epoch=max(epochs, default=1)).follow()
        elif follow:
            for piece in server.logs(workload_id, stream=stream or "all", epoch=attempt, follow=True):
                screen.show(piece)
        elif epochs:
            for one in (stream,) if stream else LogStream:
                for piece in server.logs(workload_id, stream=one, epoch=attempt):
                    screen.show(piece)


class _Lines:
    """One JSON document for each piece."""

    def __init__(self, output: Output, stream: str | None) -> None:
        self._output = output
        self._stream = stream

    def show(self, piece: "LogPieceView") -> None:
        if self._stream in (None, piece.stream):
            self._output.line(piece.model_dump())


class _OneStream:
    """Only one stream, on stdout whichever it is."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._screen = LogScreen(stdout_is_taken=False)

    def show(self, piece: "LogPieceView") -> None:
        if piece.stream == self._stream:
            self._screen.show(piece.model_copy(update={"stream": "stdout"}))


def _screen(output: Output, stream: str | None) -> Screen:
    if output.json:
        return _Lines(output, stream)
    return LogScreen(stdout_is_taken=False) if stream is None else _OneStream(stream)


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
