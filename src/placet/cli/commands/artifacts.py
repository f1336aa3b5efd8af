"""Commands for what a workload hands back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client, resolve
from placet.cli.failures import Stop
from placet.cli.output import Output
from placet.contract.quantities import format_bytes

if TYPE_CHECKING:
    from placet.contract.api import WorkloadView

Id = Annotated[str, typer.Argument(metavar="ID", help="Id, unique beginning, name, or `last`.")]


def artifacts_ls(context: typer.Context, workload: Id) -> None:
    """List the delivered outputs, with sizes and digests."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found = server.artifacts(resolve(server, workload))
    if output.json:
        output.document([one.model_dump() for one in found])
    else:
        rows = [(one.path, one.name, one.epoch, format_bytes(one.size_bytes), one.sha256) for one in found]
        output.table(("Path", "Output", "Attempt", "Size", "SHA-256"), rows)


def _nothing(workload: "WorkloadView") -> Stop:
    """Why there is nothing to get, and what to do."""
    what = f"{workload.id} has no delivered outputs"
    if not workload.spec.get("outputs"):
        return Stop("no_outputs", f"{what}: its spec declares none", "declare them in `outputs`, or run with --output")
    if not workload.final:
        return Stop("no_outputs", f"{what} yet: it is {workload.state}", f"placet wait {workload.id}")
    return Stop("no_outputs", f"{what}: it is {workload.state}", f"placet account {workload.id} says what can be done")


def artifacts_link(
    context: typer.Context,
    workload: Id,
    paths: Annotated[list[str] | None, typer.Argument(help="Paths or names of outputs; without any, all.")] = None,
) -> None:
    """Print addresses from which anyone can download outputs for some minutes, straight from the object store."""
    from placet.sdk import saving

    output = Output(context.obj)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        found = server.artifacts(workload_id)
        wanted = [saving.chosen(found, path) for path in paths] if paths else saving.newest(found)
        links = [(one, server.artifact_link(workload_id, one)) for one in wanted]
    if any(link is None for _, link in links):
        raise Stop(
            "no_link",
            "outputs of this server are not in an object store that signs addresses",
            "download them with `placet artifacts get`; a bucket is set up by `artifacts_url`",
        )
    if output.json:
        output.document([{**one.model_dump(), "link": link} for one, link in links])
    else:
        for _, link in links:
            output.say(str(link))


def artifacts_get(
    context: typer.Context,
    workload: Id,
    paths: Annotated[list[str] | None, typer.Argument(help="Paths or names of outputs; without any, all.")] = None,
    output_folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to put them in.")] = Path("."),
) -> None:
    """Download outputs; each is checked against its digest."""
    from placet.sdk import saving

    output = Output(context.obj)
    with client(context.obj) as server:
        workload_id = resolve(server, workload)
        found = server.artifacts(workload_id)
        wanted = [saving.chosen(found, path) for path in paths] if paths else saving.newest(found)
        if not wanted:
            raise _nothing(server.get(workload_id))
        saved = [(one, server.download(workload_id, one, saving.inside(output_folder, one.path))) for one in wanted]
    if output.json:
        output.document([{**one.model_dump(), "file": str(target)} for one, target in saved])
    else:
        for one, target in saved:
            output.say(f"{target}  {format_bytes(one.size_bytes)}")
