"""Forecasts beside what became of them."""

from dataclasses import dataclass
from enum import StrEnum

from placet.domain.forecasts import Forecast


class Quantity(StrEnum):
    """What is forecast of a workload."""

    COST = "cost_usd"
    START = "start_s"
    RUN = "run_s"
    FINISH = "finish_s"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One ended workload with a forecast, and the actual value of each quantity that there is one of."""

    workload_id: str
    created_ms: int
    provider: str
    forecast: Forecast
    actual: tuple[tuple[Quantity, float], ...]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Of ``count`` values, the shares at or below p50 and p90 and between p10 and p90; ``None`` without any."""

    count: int
    below_p50: float | None = None
    below_p90: float | None = None
    within: float | None = None


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The coverage of each quantity over the workloads of one provider and class of machine; empty words are all."""

    provider: str
    machine: str
    workloads: int
    coverage: tuple[tuple[Quantity, Coverage], ...]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How true the forecasts of some ended workloads were, and each of them; the rows of most workloads come first."""

    considered: int
    rows: tuple[Calibrated, ...]
    outcomes: tuple[Outcome, ...]
