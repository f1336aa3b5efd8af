"""What is expected before and after: intervals, forecasts, quotes, ways out of a refusal, and how true they were."""

from pydantic import BaseModel, ConfigDict, Field


class Expectation(BaseModel):
    """What these shapes share, as all replies do."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class IntervalView(Expectation):
    """A quantity that can only be bracketed; `likely` lies between the bounds."""

    low: str
    likely: str
    high: str
    reason: str = ""


class QuantilesView(Expectation):
    """Of ten like it, one stays below `p10`, five below `p50`, nine below `p90`."""

    p10: str
    p50: str
    p90: str


class ForecastView(Expectation):
    """One workload on one offer, all attempts until a success included; seconds count from the first dispatch."""

    cost_usd: QuantilesView
    start_s: QuantilesView = Field(description="Until the program starts for the first time.")
    run_s: QuantilesView = Field(description="One undisturbed run.")
    finish_s: QuantilesView = Field(description="Until the program has ended well.")
    run_assumed: bool = Field(default=False, description="Nothing bounds the run time, so one hour was taken.")
    machine: str = Field(default="", description="The class of machine, such as `spot 1xL4`.")


class ChangeView(Expectation):
    """One bound of a spec, changed."""

    field: str
    words: str = Field(description="As a person would say it.")
    value: str = Field(description="What to write there; empty to leave the field out.")


class RelaxationView(Expectation):
    """Changes that would make an infeasible spec feasible, and what would run it then."""

    changes: list[ChangeView]
    offer: str
    provider: str
    price_usd_per_hour: str
    cost_usd: IntervalView
    start_s: str = Field(description="Expected time from dispatch to the start of the program.")
    now: bool = Field(description="False: what fits is not free at this moment.")
    connected: bool = Field(description="False: only listed; an adapter of its provider has to be connected besides.")


class QuoteView(Expectation):
    """A price that is named: `placet submit --quote QUOTE` is refused once the world has moved beyond it."""

    quote: str
    valid_until: str
    bound_usd: str = Field(description="Accepted as long as nine of ten are expected to cost at most this.")


class CoverageView(Expectation):
    """How many actual values fell within what was forecast; good figures are close to the quantile's own."""

    count: int
    below_p50: float | None = Field(description="Share at or below `p50`; 0.5 when the forecasts are right.")
    below_p90: float | None = Field(description="Share at or below `p90`; 0.9 when they are right.")
    within: float | None = Field(description="Share between `p10` and `p90`; 0.8 when they are right.")


class CalibrationRow(Expectation):
    """All workloads of one provider and class of machine; both are empty for all together."""

    provider: str
    machine: str
    workloads: int
    cost_usd: CoverageView
    start_s: CoverageView
    run_s: CoverageView
    finish_s: CoverageView


class CalibrationPoint(Expectation):
    """One forecast and what became of it."""

    workload_id: str
    quantity: str = Field(description="cost_usd, start_s, run_s, finish_s")
    provider: str
    machine: str
    p10: float
    p50: float
    p90: float
    actual: float


class CalibrationView(Expectation):
    """Forecasts held against what became of them."""

    considered: int = Field(description="How many ended workloads were looked at, the latest first.")
    forecast: int = Field(description="How many of them had a forecast.")
    since: str | None = Field(default=None, description="When the oldest of them was accepted.")
    rows: list[CalibrationRow] = []
    points: list[CalibrationPoint] = Field(default=[], description="For a plot; only when asked for.")
