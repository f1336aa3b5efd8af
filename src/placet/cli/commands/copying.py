"""Commands about copies of the database: backup, restore."""

from pathlib import Path
from typing import Annotated

import typer

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output, note
from placet.cli.settings import settings_for, shown

NEXT = (
    "start a server: it observes, that is, it starts, stops and deletes nothing. Look at `placet ls`, `placet "
    "orphans` and `placet account ID`; then `placet server --act`"
)


def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; it is never overwritten.")],
) -> None:
    """Copy the database, whole and of one moment, while servers go on. Artifacts are copied apart, afterwards."""
    output = Output(context.obj)
    settings = settings_for(context.obj)
    from placet import app

    try:
        app.backup_database(settings, target.expanduser().absolute())
    except app.CannotCopy as error:
        raise Stop("cannot_copy", str(error), "nothing was written; mend that and repeat", Exit.ERROR) from error
    size = target.expanduser().stat().st_size
    if output.json:
        output.document({"file": str(target), "size_bytes": size, "artifacts": str(settings.artifacts)})
    else:
        output.say(f"{target} holds the database, {size} bytes")
        note(f"placet: copy {shown(settings.artifacts)} after it, if outputs are to be kept too", style="dim")


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="As `placet backup` wrote it.")],
) -> None:
    """Make the database of an empty data folder from a copy. The next server observes until it is told to act."""
    output = Output(context.obj)
    settings = settings_for(context.obj)
    from placet import app

    try:
        version = app.restore_database(settings, source.expanduser().absolute())
    except app.CannotCopy as error:
        raise Stop("cannot_copy", str(error), "nothing was changed; mend that and repeat", Exit.ERROR) from error
    except app.CannotServe as error:
        raise Stop("cannot_serve", str(error), "stop the server of this data folder first", Exit.ERROR) from error
    if output.json:
        output.document({"restored": True, "schema": version, "observing": True})
    else:
        output.say(f"restored, schema {version}")
        note(f"placet: {NEXT}")
