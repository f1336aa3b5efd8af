"""The plot of estimates against actual values, and what is said where matplotlib is missing."""

import sys
from pathlib import Path

import pytest

from placet.cli.commands.calibrating import _draw
from placet.cli.failures import Stop
from placet.cli.plots import QUANTITIES, draw_calibration
from placet.contract.forecasts import CalibrationPoint, CalibrationRow, CalibrationView, CoverageView


def point(quantity: str, actual: float) -> CalibrationPoint:
    return CalibrationPoint(
        workload_id="w", quantity=quantity, provider="p", machine="m", p10=0.0, p50=1.0, p90=2.0, actual=actual
    )


def test_a_plot_is_a_png_with_points_without_and_with_nothing_at_all(tmp_path: Path) -> None:
    some = CoverageView(count=3, below_p50=0.5, below_p90=1.0, within=0.5)
    none = CoverageView(count=0, below_p50=None, below_p90=None, within=None)
    row = CalibrationRow(provider="", machine="", workloads=3, cost_usd=some, start_s=some, run_s=some, finish_s=none)
    points = [point(one, value) for one in list(QUANTITIES)[:3] for value in (0, 1, 5)]
    for name, view in (
        ("some", CalibrationView(considered=3, forecast=3, rows=[row], points=points)),
        ("none", CalibrationView(considered=0, forecast=0)),
    ):
        draw_calibration(view, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "placet.cli.plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Stop) as told:
        _draw(CalibrationView(considered=0, forecast=0), tmp_path / "x.png")
    assert told.value.code == "missing_extra"
    assert told.value.fix == "pip install '.[plots]'"
