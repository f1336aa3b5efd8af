"""The plots of the yardstick, as PNG files; the only module here that needs matplotlib."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

from bench.traces.policies import LOWEST_PRICE, OPTIMUM, PLACET, RESERVE, UNIFORM_PROGRESS
from bench.traces.running import Ran
from bench.traces.scoring import Score
from bench.traces.sets import CaseSet

OURS, OTHERS = "#1f6f5c", "#9aa5ad"
Drawn = Mapping[str, tuple[CaseSet, Mapping[str, Ran], Mapping[str, Score]]]


def draw(folder: Path, results: Drawn) -> None:
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    _costs(folder / "spot-costs.png", results)
    _regrets(folder / "spot-regrets.png", results)


def _costs(path: Path, results: Drawn) -> None:
    """Spot alone is left out: late workloads make it several times dearer than the axis is long."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(13, 3.6), layout="constrained")
    for axis, (name, (_, _, scores)) in zip(axes, results.items(), strict=True):
        shown = [policy for policy in scores if policy != LOWEST_PRICE][::-1]
        middle = np.array([scores[policy].usd_per_on_time for policy in shown])
        low = middle - np.array([scores[policy].interval.low for policy in shown])
        high = np.array([scores[policy].interval.high for policy in shown]) - middle
        colours = [OURS if policy == PLACET else OTHERS for policy in shown]
        axis.barh(shown, middle, xerr=np.clip([low, high], 0, None), color=colours, ecolor="#333333", capsize=2)
        axis.axvline(scores[OPTIMUM].usd_per_on_time, color="#333333", linewidth=0.8, linestyle=":")
        axis.set_title(f"set {name}")
        axis.set_xlabel("USD per on-time workload")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _regrets(path: Path, results: Drawn) -> None:
    """The share of cases that cost at most so much more than they could have."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(13, 3.2), layout="constrained", sharey=True)
    for axis, (name, (_, ran, _)) in zip(axes, results.items(), strict=True):
        best = np.array([outcome.usd for outcome in ran[OPTIMUM].outcomes])
        for policy, colour in ((UNIFORM_PROGRESS, "#c9cfd3"), (RESERVE, "#6c7780"), (PLACET, OURS)):
            over = np.sort(np.array([outcome.usd for outcome in ran[policy].outcomes]) - best)
            axis.step(over, np.arange(1, len(over) + 1) / len(over), color=colour, label=policy, where="post")
        axis.set_title(f"set {name}")
        axis.set_xlabel("USD more than the optimum")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of cases")
    axes[-1].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
