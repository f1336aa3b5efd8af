"""Plots, as PNG files; the only module of the command line that needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from placet.contract.forecasts import CalibrationPoint, CalibrationView, CoverageView

QUANTITIES = {"cost_usd": "cost, USD", "start_s": "until start, s", "run_s": "run, s", "finish_s": "until end, s"}
LEAST = 1e-3  # on a logarithmic axis, what is nothing stands here


def draw_calibration(view: CalibrationView, file: Path) -> None:
    """Actual values over p50, a line from p10 to p90 each, and the share below each quantile in words."""
    matplotlib.use("Agg")
    figure = Figure(figsize=(10, 9), layout="constrained")
    for axes, (quantity, label) in zip(figure.subplots(2, 2).flat, QUANTITIES.items(), strict=True):
        coverage: CoverageView | None = getattr(view.rows[0], quantity) if view.rows else None
        _draw(axes, label, [one for one in view.points if one.quantity == quantity], coverage)
    figure.suptitle("Actual values against estimates (lines: p10 to p90)")
    figure.savefig(file, format="png", dpi=110)


def _draw(axes: Axes, label: str, points: Sequence[CalibrationPoint], coverage: CoverageView | None) -> None:
    axes.set_xlabel(f"p50 of {label}")
    axes.set_ylabel(f"actual {label}")
    if not points or coverage is None or coverage.below_p50 is None or coverage.below_p90 is None:
        axes.set_title("nothing to compare yet")
        return
    middle = [max(one.p50, LEAST) for one in points]
    actual = [max(one.actual, LEAST) for one in points]
    axes.vlines(middle, [max(one.p10, LEAST) for one in points], [max(one.p90, LEAST) for one in points],
                color="tab:gray", alpha=0.3)  # fmt: skip
    axes.plot(middle, actual, ".", color="tab:blue")
    low, high = min(*middle, *actual), max(*middle, *actual)
    axes.plot([low, high], [low, high], "--", color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{coverage.count} workloads: {coverage.below_p50:.0%} to p50, {coverage.below_p90:.0%} to p90")
