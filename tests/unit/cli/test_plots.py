"""The plot of estimates against actual values, and what is said where matplotlib is missing."""

import sys
from pathlib import Path

import pytest

from placet.cli.commands.calibrating import _draw
from placet.cli.failures import Stop
from placet.cli.plots import QUANTITIES, draw_calibration
from placet.contract.forecasts import CalibrationPoint, CalibrationView


def point(quantity: str, actual: float) -> CalibrationPoint:
    return CalibrationPoint(
        workload_id="w", quantity=quantity, provider="p", machine="m", p10=0.0, p50=1.0, p90=2.0, actual=actual
    )


def test_a_plot_is_a_png_with_points_without_and_with_nothing_at_all(tmp_path: Path) -> None:
    some = [point(one, value) for one in list(QUANTITIES)[:3] for value in (0, 1, 5)]
    for name, points in (("some", some), ("none", [])):
        draw_calibration(points, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "placet.cli.plots")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Stop) as told:
        _draw(CalibrationView(considered=0, forecast=0), tmp_path / "x.png")
    assert told.value.code == "missing_extra"
    assert told.value.fix == "pip install 'placet[plots]'"
