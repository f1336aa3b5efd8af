"""Coverage: shares of actual values below what was forecast."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from placet.domain.calibration import Coverage, Outcome, Quantity
from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.offers import Demand, Interval, Outlook, Ranked
from placet.domain.records import Record
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, WorkloadState
from placet.stages import forecast as stage
from placet.stages.calibration import calibrate, outcome
from tests.support.values import ATTEMPT, GPU_OFFER, NOW_MS, WORKLOAD


def quantiles(p10: float, p50: float, p90: float) -> Quantiles:
    return Quantiles(p10=Decimal(str(p10)), p50=Decimal(str(p50)), p90=Decimal(str(p90)))


EXPECTED = Forecast(
    cost_usd=quantiles(1, 2, 4),
    start_s=quantiles(10, 20, 40),
    run_s=quantiles(50, 100, 200),
    finish_s=quantiles(60, 120, 240),
    machine="spot 1xL4",
)
FIRST = replace(
    ATTEMPT,
    state=AttemptState.COLLECTED,
    placement=replace(ATTEMPT.placement, forecast=EXPECTED),
    started_ms=NOW_MS + 30_000,
    exited_ms=NOW_MS + 110_000,
    cost_usd=Decimal("1.5"),
)
ENDED = replace(WORKLOAD, state=WorkloadState.SUCCEEDED, finished_ms=NOW_MS + 120_000)


def test_a_success_is_compared_in_all_it_was_forecast_for() -> None:
    made = outcome(Record(workload=ENDED, attempts=(FIRST,)))
    assert made is not None
    assert dict(made.actual) == {Quantity.START: 30, Quantity.RUN: 80, Quantity.FINISH: 110, Quantity.COST: 1.5}
    assert (made.provider, made.forecast) == ("somewhere", EXPECTED)


def test_all_attempts_count_and_the_forecast_is_the_first_ones() -> None:
    lost = replace(FIRST, state=AttemptState.LOST, started_ms=None)
    second = replace(
        FIRST, epoch=2, placement=ATTEMPT.placement, started_ms=NOW_MS + 500_000, exited_ms=NOW_MS + 600_000
    )
    made = outcome(Record(workload=ENDED, attempts=(lost, second)))
    assert made is not None
    assert dict(made.actual) == {Quantity.START: 500, Quantity.RUN: 100, Quantity.FINISH: 600, Quantity.COST: 3.0}
    unseen = outcome(Record(workload=ENDED, attempts=(replace(lost, exited_ms=None), second)))
    assert unseen is not None
    assert Quantity.COST not in dict(unseen.actual), "the most it may have cost is no measurement"


def test_what_did_not_succeed_is_compared_in_its_start_alone() -> None:
    failed = replace(ENDED, state=WorkloadState.FAILED)
    made = outcome(Record(workload=failed, attempts=(FIRST,)))
    assert made is not None
    assert [quantity for quantity, _ in made.actual] == [Quantity.START]
    assumed = replace(FIRST, placement=replace(FIRST.placement, forecast=replace(EXPECTED, run_assumed=True)))
    made = outcome(Record(workload=ENDED, attempts=(assumed,)))
    assert made is not None
    assert [quantity for quantity, _ in made.actual] == [Quantity.START]


@pytest.mark.parametrize(
    "record",
    [
        Record(workload=ENDED),
        Record(workload=ENDED, attempts=(ATTEMPT,)),
        Record(workload=WORKLOAD, attempts=(FIRST,)),
        Record(workload=replace(ENDED, state=WorkloadState.FAILED), attempts=(replace(FIRST, started_ms=None),)),
    ],
)
def test_what_has_no_forecast_or_no_end_is_left_out(record: Record) -> None:
    assert outcome(record) is None


def made(provider: str, machine: str, start_s: float) -> Outcome:
    return Outcome(
        workload_id="w",
        created_ms=NOW_MS,
        provider=provider,
        forecast=replace(EXPECTED, machine=machine),
        actual=((Quantity.START, start_s),),
    )


def test_rows_are_all_then_each_provider_with_its_classes() -> None:
    outcomes = [made("a", "x", 5), made("a", "x", 20), made("a", "y", 30), made("b", "x", 50)]
    rows = calibrate(outcomes)
    assert [(row.provider, row.machine, row.workloads) for row in rows] == [
        ("", "", 4), ("a", "", 3), ("a", "x", 2), ("a", "y", 1), ("b", "", 1), ("b", "x", 1)
    ]  # fmt: skip
    covered = dict(rows[0].coverage)
    assert covered[Quantity.START] == Coverage(count=4, below_p50=0.5, below_p90=0.75, within=0.5)
    assert covered[Quantity.COST] == Coverage(count=0)


def test_what_was_certain_and_came_true_counts_as_right() -> None:
    free = replace(EXPECTED, cost_usd=quantiles(0, 0, 0))
    one = replace(made("a", "x", 5), forecast=free, actual=((Quantity.COST, 0.0),))
    [covered] = [coverage for quantity, coverage in calibrate([one])[0].coverage if quantity is Quantity.COST]
    assert (covered.below_p50, covered.below_p90, covered.within) == (0.5, 0.9, 0.8)
    dear = replace(one, actual=((Quantity.COST, 0.1),))
    [covered] = [coverage for quantity, coverage in calibrate([dear])[0].coverage if quantity is Quantity.COST]
    assert (covered.below_p50, covered.below_p90, covered.within) == (0.0, 0.0, 0.0)


def test_a_world_that_is_as_believed_is_covered_as_promised() -> None:
    """Starts and run times drawn from what is believed, by chance and not by the lattice of the forecast."""
    chance = np.random.default_rng(7)
    outlook = Outlook(start_share=1.0, startup_s=100.0, startup_p90_s=250.0, losses_per_hour=0.0)
    usual = Interval(low=Decimal(100), likely=Decimal(200), high=Decimal(600), reason="r")
    ranked = Ranked(offer=GPU_OFFER, cost_usd=usual, score=Decimal(0), outlook=outlook)
    expected = stage.forecast(ranked, Demand(usual_s=usual), Repeat.SAFE)
    assert expected is not None
    sigma = np.log(2.5) / 1.2816
    starts = 100.0 * np.exp(sigma * chance.standard_normal(4000))
    runs = np.interp(chance.random(4000), stage.SHARES, (100 / 1.5, 100, 200, 600, 900))
    price = float(GPU_OFFER.price_usd_per_hour)
    outcomes = [
        Outcome(
            workload_id=str(number),
            created_ms=NOW_MS,
            provider="p",
            forecast=expected,
            actual=(
                (Quantity.START, start),
                (Quantity.RUN, run),
                (Quantity.FINISH, start + run),
                (Quantity.COST, (start + run) * price / 3600),
            ),
        )
        for number, (start, run) in enumerate(zip(starts.tolist(), runs.tolist(), strict=True))
    ]
    for quantity, coverage in calibrate(outcomes)[0].coverage:
        assert coverage.below_p50 == pytest.approx(0.5, abs=0.03), quantity
        assert coverage.below_p90 == pytest.approx(0.9, abs=0.02), quantity
        assert coverage.within == pytest.approx(0.8, abs=0.03), quantity
