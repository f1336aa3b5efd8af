"""How much GPU memory a model needs and how much disk a spec takes, as tables that a person understands."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from placet.cli.describing import takes_workload
from placet.cli.door import client
from placet.cli.output import Output
from placet.contract.quantities import format_bytes
from placet.sdk.specs import Document

if TYPE_CHECKING:
    from placet.contract import api


@takes_workload
def size(context: typer.Context, document: Document) -> None:
    """How much GPU memory the model of a spec needs, part by part, and how many GPUs hold it; and the disk it takes."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.size(document)
    if output.json:
        output.document(view.model_dump())
    else:
        _say(output, view)


def _say(output: Output, view: "api.SizeView") -> None:
    if view.gpu_count:
        _say_memory(output, view)
    if view.disk is not None:
        output.say(f"disk: ask for {format_bytes(view.disk.recommended_bytes)}")
        rows = [(part.name, *_bytes(part.bytes), part.why) for part in view.disk.parts]
        output.table(
            ("Part", "At least", "Likely", "At most", "Why"), [*rows, ("in all", *_bytes(view.disk.bytes), "")]
        )


def _say_memory(output: Output, view: "api.SizeView") -> None:
    each = "" if view.gpu_count == 1 else f" on each of {view.gpu_count} GPUs"
    output.say(f"{view.task} of {view.model}: ask for {format_bytes(view.recommended_bytes)} of GPU memory{each}")
    if view.measured is not None:
        output.say(f"  measured: {view.measured.why}; the estimate is {format_bytes(view.bytes.likely)}")
    output.say(f"  shape: {view.model_source}")
    rows = [(part.name, *_bytes(part.bytes), part.why) for part in view.parts if part.bytes.high]
    output.table(("Part", "At least", "Likely", "At most", "Why"), [*rows, ("in all", *_bytes(view.bytes), "")])
    for assumption in view.assumptions:
        output.say(f"  assumed: {assumption}")
    output.table(("GPU memory", "Fewest GPUs", "On each"), list(_splits(view)))


def _bytes(span: "api.SpanView") -> tuple[str, str, str]:
    return format_bytes(span.low), format_bytes(span.likely), format_bytes(span.high)


def _splits(view: "api.SizeView") -> Iterator[tuple[str, str, str]]:
    for one in view.splits:
        count = "too small" if one.gpu_count is None else str(one.gpu_count)
        yield format_bytes(one.gpu_memory_bytes), count, "" if one.bytes is None else format_bytes(one.bytes.likely)
