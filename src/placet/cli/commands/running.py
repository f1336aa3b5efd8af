"""``run``: submit, follow, end with the result; on this machine with no server, everything in this one process."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from placet.cli.describing import takes_workload
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.following import Follower, LogScreen
from placet.cli.options import Options
from placet.cli.output import Output, last_words, note
from placet.cli.summary import show_result
from placet.sdk import places
from placet.sdk.specs import Document

if TYPE_CHECKING:
    from placet.sdk.client import Client


class OnInterrupt(StrEnum):
    """What Ctrl-C does to the workload."""

    ASK = "ask"
    DETACH = "detach"
    CANCEL = "cancel"


@takes_workload
def run(
    context: typer.Context,
    document: Document,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same workload.")] = None,
    quote: Annotated[
        str | None, typer.Option(help="A quote of `placet estimate`; refused if the world moved beyond it.")
    ] = None,
    on_interrupt: Annotated[
        OnInterrupt, typer.Option(help="What Ctrl-C does; without a terminal, `ask` means `detach`.")
    ] = OnInterrupt.ASK,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No notes on stderr, only the program's output.")
    ] = False,
    logs: Annotated[bool, typer.Option("--logs/--no-logs", help="Show the program's output.")] = True,
) -> int:
    """Run a workload and wait for its result. The program's stdout and stderr are shown as they come.

    The exit code tells how it ended: 0 succeeded, 1 failed, 2 not accepted, 3 cancelled, 4 expired, 5 detached.
    """
    options: Options = context.obj
    output = Output(options)
    with _interruptible(), _server(options) as client:
        workload = client.submit_document(document, key=key, quote=quote)
        if not quiet:
            note(f"placet: {workload.id} accepted" + (" earlier" if workload.view.existed else ""), style="dim")
        screen = LogScreen(stdout_is_taken=output.json) if logs else None
        follower = Follower(client, workload.id, screen=screen, quiet=quiet)
        if not _followed(follower, client, workload.id, on_interrupt):
            if output.json:
                with last_words():
                    output.document({"workload_id": workload.id, "detached": True})
            return Exit.DETACHED
        result = client.result(workload.id)
        text = client.result_text(workload.id) if output.json else ""
        with last_words():
            if output.json:
                output.raw_document(text)
            elif not quiet:
                note("")
                show_result(result, note)
        return Exit.of_state(result.state)


def _followed(follower: Follower, client: "Client", workload_id: str, on_interrupt: OnInterrupt) -> bool:
    """To the end; ``False`` when the user left before it."""
    cancelled = False
    while True:
        try:
            follower.follow()
            return True
        except KeyboardInterrupt:
            decision = OnInterrupt.DETACH if cancelled else _decision(on_interrupt)
        except BrokenPipeError:  # whoever read our output has left; there may be a terminal, but nobody at it
            follower.mute()
            decision = on_interrupt if on_interrupt is OnInterrupt.CANCEL else OnInterrupt.DETACH
        if decision is OnInterrupt.CANCEL:
            cancelled = True
            with last_words():
                note("\nplacet: cancelling; Ctrl-C again leaves it to end by itself", style="yellow")
            client.cancel(workload_id)
        elif decision is OnInterrupt.DETACH:
            with last_words():
                note(f"\nplacet: detached, {workload_id} goes on. Come back with:", style="yellow")
                note(f"  placet logs -f {workload_id}\n  placet wait {workload_id}\n  placet cancel {workload_id}")
            return False


def _decision(on_interrupt: OnInterrupt) -> OnInterrupt:
    """What the flag says, else what the person says; ``ASK`` stands for going on."""
    if on_interrupt is not OnInterrupt.ASK:
        return on_interrupt
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return OnInterrupt.DETACH
    sys.stderr.write("\nplacet: (d)etach and let it run, (c)ancel it, or (w)ait on? [d] ")
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline().strip().lower()
    except KeyboardInterrupt:
        return OnInterrupt.DETACH
    if answer.startswith("w"):
        return OnInterrupt.ASK
    return OnInterrupt.CANCEL if answer.startswith("c") else OnInterrupt.DETACH


@contextmanager
def _interruptible() -> Iterator[None]:
    """A polite end of this program is an interrupt like Ctrl-C: it decides about the workload before it goes."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _server(options: Options) -> Iterator["Client"]:
    """The server there is; on this machine with none, one inside this process for as long as this lasts."""
    from placet.cli.door import client
    from placet.sdk.location import answers

    data = options.data_dir or places.data_dir(os.environ)
    elsewhere = options.url or (os.environ.get("PLACET_URL") and options.data_dir is None)
    if elsewhere or answers(places.socket_path(data)):
        with client(options) as found:
            yield found
        return
    with _embedded(options, data) as found:
        yield found


@contextmanager
def _embedded(options: Options, data: Path) -> Iterator["Client"]:
    """Everything in this process. What is unfinished when it ends goes on under a server in the background."""
    from placet import app
    from placet.cli.door import client
    from placet.cli.settings import settings_for
    from placet.sdk.client import Client
    from placet.sdk.connection import connect
    from placet.sdk.starting import ensure_server

    settings = settings_for(options)
    unfinished = False
    try:
        with app.serve_embedded(settings), Client.over(connect(data_dir=data, start=False)) as found:
            try:
                yield found
            finally:
                unfinished = bool(found.page(states=UNFINISHED, limit=1).items)
    except app.AlreadyServed:  # somebody else was quicker between our look and our lock
        with client(options) as found:
            yield found
    except app.CannotServe as error:
        raise Stop("cannot_serve", str(error), "`placet doctor` tells what is here", Exit.ERROR) from error
    finally:
        if unfinished:
            ensure_server(data)


UNFINISHED = ("accepted", "waiting", "placing", "running", "delivering")
