"""How true the estimates were: a table for people, a document, a plot."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output, note

if TYPE_CHECKING:
    from placet.contract.forecasts import CalibrationView, CoverageView

INSTALL = "pip install '.[plots]'"


def calibration(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many ended workloads, the latest first.")] = 1000,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help=f"Draw it into a PNG file; needs {INSTALL}.")
    ] = None,
) -> None:
    """How often cost, start, run and end lay within their estimates, by provider and class of machine.

    Estimates are right when half of the values lie below p50 and nine of ten below p90.
    """
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.calibration(limit=limit, points=plot is not None)
    if plot is not None:
        _draw(view, plot)
    if output.json:
        output.document(view.model_dump(exclude={"points"}))
    else:
        _say(output, view)


def _draw(view: "CalibrationView", file: Path) -> None:
    try:
        from placet.cli.plots import draw_calibration
    except ImportError as error:
        raise Stop("missing_extra", "a plot needs matplotlib, which is not installed", INSTALL, Exit.ERROR) from error
    draw_calibration(view, file)
    note(f"{file} is written")


def _say(output: Output, view: "CalibrationView") -> None:
    since = "" if view.since is None else f", accepted since {view.since}"
    output.say(f"{view.forecast} of {view.considered} ended workloads had an estimate to compare{since}")
    if not view.forecast:
        return
    rows = [
        (row.provider or "all", row.machine or "all", row.workloads, *_covered(row.cost_usd), *_covered(row.start_s),
         *_covered(row.run_s), *_covered(row.finish_s))
        for row in view.rows
    ]  # fmt: skip
    headings = [f"{name} {quantile}" for name in ("Cost", "Start", "Run", "End") for quantile in ("p50", "p90")]
    output.table(("Provider", "Class", "Workloads", *headings), rows)
    output.say("the share at or below each quantile; right are 50% and 90%")


def _covered(held: "CoverageView") -> tuple[str, str]:
    if held.below_p50 is None or held.below_p90 is None:
        return "", ""
    return f"{held.below_p50:.0%}", f"{held.below_p90:.0%}"
