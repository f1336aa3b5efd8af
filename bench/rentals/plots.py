"""The plots of the market, as PNG files; the only module here that needs matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot

from bench.rentals.policies import CLAIRVOYANT, FAILOVER, FORGETFUL, ORACLE, PLACET, RANDOM
from bench.rentals.simulation import Outcome

OURS, OTHERS, DARK = "#1f6f5c", "#9aa5ad", "#333333"
LINES = {FAILOVER: "#6c7780", FORGETFUL: "#c9cfd3", PLACET: OURS, CLAIRVOYANT: "#b0812f"}
BINS = 10

Ran = Mapping[str, Sequence[tuple[Outcome, ...]]]


def draw(folder: Path, results: Mapping[str, Ran], tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    _costs(folder / "market-costs.png", tables)
    _regrets(folder / "market-regrets.png", results)
    _calibration(folder / "market-calibration.png", results)


def _costs(path: Path, tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Random is left out: it is several times as dear as the axis is long."""
    figure, axes = pyplot.subplots(1, len(tables), figsize=(12, 3.6), layout="constrained", sharey=True)
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        shown = [policy for policy in table if policy != RANDOM][::-1]
        values = np.array([table[policy]["usd_per_success"] for policy in shown])
        late = [table[policy]["late"][0] for policy in shown]
        errors = [values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]]
        colours = [OURS if policy == PLACET else OTHERS for policy in shown]
        axis.barh(shown, values[:, 0], xerr=errors, color=colours, ecolor=DARK, capsize=2)
        for row, share in enumerate(late):
            axis.text(0.1, row, f"{share:.1%} late", va="center", fontsize=8, color="white")
        axis.axvline(table[ORACLE]["usd_per_success"][0], color=DARK, linewidth=0.8, linestyle=":")
        axis.set_title(name)
        axis.set_xlabel("USD per successful workload")
        axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _regrets(path: Path, results: Mapping[str, Ran]) -> None:
    """What was spent more than by the oracle, from workload to workload, mean of all seeds."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(12, 3.4), layout="constrained")
    for axis, (name, ran) in zip(axes, results.items(), strict=True):
        theirs = np.cumsum(_usd(ran[ORACLE]), axis=1)
        for policy, colour in LINES.items():
            regret = np.cumsum(_usd(ran[policy]), axis=1) - theirs
            middle, spread = regret.mean(axis=0), 1.96 * regret.std(axis=0) / np.sqrt(len(regret))
            axis.plot(middle, color=colour, label=policy)
            axis.fill_between(np.arange(len(middle)), middle - spread, middle + spread, color=colour, alpha=0.12)
        axis.axhline(0, color=DARK, linewidth=0.8, linestyle=":")
        axis.set_title(name)
        axis.set_xlabel("workloads that have arrived")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("USD more than the oracle")
    axes[0].legend(frameon=False, loc="upper left", fontsize=8)
    _save(figure, path)


def _calibration(path: Path, results: Mapping[str, Ran]) -> None:
    """What the first plan expected beside what was paid, in tenths of the workloads by what was expected."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(9, 3.8), layout="constrained")
    for axis, (name, ran) in zip(axes, results.items(), strict=True):
        outcomes = [outcome for outcomes in ran[PLACET] for outcome in outcomes if outcome.expected_usd is not None]
        expected = np.array([outcome.expected_usd for outcome in outcomes])
        paid = np.array([outcome.usd for outcome in outcomes])
        tenths = np.array_split(np.argsort(expected, kind="stable"), BINS)
        middle = np.array([expected[tenth].mean() for tenth in tenths])
        actual = np.array([paid[tenth].mean() for tenth in tenths])
        spread = np.array([1.96 * paid[tenth].std() / np.sqrt(len(tenth)) for tenth in tenths])
        axis.errorbar(middle, actual, yerr=spread, fmt="o", color=OURS, ecolor=DARK, capsize=2, markersize=4)
        ends = [min(middle.min(), actual.min()), max(middle.max(), actual.max())]
        axis.plot(ends, ends, color=DARK, linewidth=0.8, linestyle=":")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(name)
        axis.set_xlabel("USD expected by the first plan")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("USD paid in the end, mean")
    _save(figure, path)


def _usd(ran: Sequence[tuple[Outcome, ...]]) -> np.ndarray:
    return np.array([[outcome.usd for outcome in outcomes] for outcomes in ran])


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
