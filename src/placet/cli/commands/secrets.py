"""Commands about secrets: set, list, remove. A value comes from a file or from stdin, never from the command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output

BYTES_MAX = 32 * 1024
Name = Annotated[str, typer.Argument(metavar="NAME", help="As specs name it.")]


def secret_set(
    context: typer.Context,
    name: Name,
    from_file: Annotated[Path | None, typer.Option(help="Read the value from this file; else from stdin.")] = None,
) -> None:
    """Set a secret, or a new version of it. What runs keeps the old one, what is sent from now on gets the new one.

    One newline at the end is not part of the value.
    """
    output = Output(context.obj)
    value = _value(from_file)
    with client(context.obj) as server:
        view = server.set_secret(name, value)
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.name} is set, version {view.version}")


def secret_ls(context: typer.Context) -> None:
    """List secrets, without their values."""
    output = Output(context.obj)
    with client(context.obj) as server:
        page = server.secrets()
    if output.json:
        output.document(page.model_dump())
        return
    rows = [(one.name, one.version, one.created_at, one.created_by, one.key_id) for one in page.items]
    output.table(("Name", "Version", "Set", "By", "Sealed under"), rows)


def secret_rm(context: typer.Context, name: Name) -> None:
    """Forget a secret and all its versions. What runs keeps what it was given."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.remove_secret(name)
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.name} {'is removed' if view.changed else 'was not there'}")


def _value(from_file: Path | None) -> str:
    if from_file is not None:
        with from_file.open("rb") as file:
            data = file.read(BYTES_MAX + 2)
    elif sys.stdin.isatty():
        return typer.prompt("Value", hide_input=True, err=True, type=str)  # type: ignore[no-any-return]  # it gives what `type` says
    else:
        data = sys.stdin.buffer.read(BYTES_MAX + 2)
    data = data.removesuffix(b"\n").removesuffix(b"\r")
    try:
        value = data.decode()
    except UnicodeDecodeError:
        raise Stop("usage", "the value is not UTF-8 text", "encode it, for example with base64", Exit.REFUSED) from None
    if not value or len(data) > BYTES_MAX or "\0" in value:
        raise Stop(
            "usage",
            f"the value is {'empty' if not value else 'longer than 32 KiB or holds NUL'}",
            "pass text on stdin or with --from-file; what is larger can be an input",
            Exit.REFUSED,
        )
    return value
