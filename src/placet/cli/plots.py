"""Plots, as PNG files; the only module of the command line that needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from placet.contract.forecasts import CalibrationPoint

QUANTITIES = {"cost_usd": "cost, USD", "start_s": "until start, s", "run_s": "run, s", "finish_s": "until end, s"}
LEAST = 1e-3  # on a logarithmic axis, what is nothing stands here


def draw_calibration(points: Sequence[CalibrationPoint], file: Path) -> None:
    """Actual values over p50, a line from p10 to p90 each, and the share below each quantile in words."""
    matplotlib.use("Agg")
    figure = Figure(figsize=(10, 9), layout="constrained")
    for axes, (quantity, label) in zip(figure.subplots(2, 2).flat, QUANTITIES.items(), strict=True):
        _draw(axes, label, [one for one in points if one.quantity == quantity])
    figure.suptitle("Actual values against estimates (lines: p10 to p90)")
    figure.savefig(file, format="png", dpi=110)


def _draw(axes: Axes, label: str, points: Sequence[CalibrationPoint]) -> None:
    axes.set_xlabel(f"p50 of {label}")
    axes.set_ylabel(f"actual {label}")
    if not points:
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
    below = [sum(one.actual <= getattr(one, name) for one in points) / len(points) for name in ("p50", "p90")]
    axes.set_title(f"{len(points)} workloads: {below[0]:.0%} below p50, {below[1]:.0%} below p90")
