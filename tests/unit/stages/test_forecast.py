"""Quantiles of cost, start and end."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from placet.domain.experience import Beliefs
from placet.domain.lessons import History, Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Demand, Interval, Outlook, Ranked
from placet.domain.spec import CapacityType, Constraints, Repeat
from placet.stages import forecast as stage
from placet.stages.filters import Asked
from placet.stages.forecast import assumptions, forecast, grounds
from placet.stages.histories import run_time
from placet.stages.learning import SPREAD_TO_NINTH_DECILE, expected_course
from placet.stages.placement import place
from placet.stages.sizing import kind_of, size
from tests.support.values import GPU_OFFER, NOW_MS, OFFER, SPEC

HOUR = Interval(low=Decimal(1800), likely=Decimal(3600), high=Decimal(7200), reason="runs like it")
SPOT = Outlook(start_share=0.75, startup_s=120.0, startup_p90_s=300.0, losses_per_hour=0.12)
CALM = Outlook(start_share=1.0, startup_s=60.0, startup_p90_s=60.0, losses_per_hour=0.0)


def ranked(outlook: Outlook | None, price: str = "3.60") -> Ranked:
    offer = replace(GPU_OFFER, price_usd_per_hour=Decimal(price))
    return Ranked(offer=offer, cost_usd=HOUR, score=Decimal(0), outlook=outlook)


def test_without_trouble_only_the_run_time_varies() -> None:
    made = forecast(ranked(CALM), Demand(runtime_s=HOUR), Repeat.SAFE)
    assert made is not None
    assert made.start_s.p10 == made.start_s.p90 == 60
    assert [float(part) for part in (made.run_s.p10, made.run_s.p50, made.run_s.p90)] == pytest.approx(
        [1800 + 0.2 * 1800, 3600, 3600 + 0.8 * 3600], rel=0.01
    )
    assert float(made.cost_usd.p50) == pytest.approx(3.60 * 3660 / 3600, rel=0.01)
    assert float(made.finish_s.p50) == pytest.approx(3660, rel=0.01)
    assert made.machine == "on_demand 2xL4"
    assert not made.run_assumed


def test_what_equal_workloads_took_counts_more_than_the_limit() -> None:
    limit = Interval(low=Decimal(60), likely=Decimal(100), high=Decimal(86_400), reason="at most the declared limit")
    usual = Interval(low=Decimal(60), likely=Decimal(100), high=Decimal(200), reason="40 equal workloads")
    made = forecast(ranked(CALM), Demand(runtime_s=limit, usual_s=usual), Repeat.SAFE)
    assert made is not None
    parts = [float(part) for part in (made.run_s.p10, made.run_s.p50, made.run_s.p90)]
    assert parts == pytest.approx([60, 100, 200], rel=0.01)
    assert made.finish_s.p90 < 270


def test_start_up_has_the_stated_median_and_ninth_decile() -> None:
    steady = replace(SPOT, start_share=1.0, losses_per_hour=0.0)
    made = forecast(ranked(steady), Demand(runtime_s=HOUR), Repeat.SAFE)
    assert made is not None
    assert float(made.start_s.p50) == pytest.approx(120, rel=0.02)
    assert float(made.start_s.p90) == pytest.approx(300, rel=0.02)


@pytest.mark.parametrize("repeat", [Repeat.SAFE, Repeat.RESUMABLE])
@pytest.mark.parametrize("hours", [0.5, 2.0, 6.0])
def test_the_mean_course_is_the_one_the_ranking_expects(repeat: Repeat, hours: float) -> None:
    course = stage._Course(
        hourly_usd=1.0,
        least_usd=0.0,
        quantum_s=0.001,
        start_share=0.75,
        startup_s=120.0,
        startup_p90_s=120.0,
        losses_per_hour=0.12,
        run_s=(hours * 3600,) * 5,
        resumable=repeat is Repeat.RESUMABLE,
    )
    believed = Beliefs(
        start_share=np.array([0.75]),
        startup_s=np.array([120.0]),
        startup_high_s=np.array([120.0]),
        losses_per_hour=np.array([0.12]),
        weight=np.zeros(1),
    )
    expected = expected_course(
        hours, np.array([120.0 / 3600]), believed, resumable=repeat is Repeat.RESUMABLE, checkpoint_h=stage.CHECKPOINT_H
    )
    assert stage.follow(course).cost_usd.mean() == pytest.approx(expected.hours[0], rel=0.06)


def test_what_may_be_lost_costs_more_in_the_tail_and_checkpoints_help() -> None:
    demand = Demand(runtime_s=replace(HOUR, low=Decimal(20_000), likely=Decimal(20_000), high=Decimal(20_000)))
    calm = forecast(ranked(CALM), demand, Repeat.SAFE)
    again = forecast(ranked(SPOT), demand, Repeat.SAFE)
    resumed = forecast(ranked(SPOT), demand, Repeat.RESUMABLE)
    assert calm is not None
    assert again is not None
    assert resumed is not None
    assert calm.cost_usd.p90 < resumed.cost_usd.p90 < again.cost_usd.p90
    assert calm.finish_s.p90 < resumed.finish_s.p90 < again.finish_s.p90


def test_minimum_charges_and_quanta_are_paid_per_attempt() -> None:
    charged = replace(ranked(CALM), offer=replace(GPU_OFFER, minimum_charge_usd=Decimal(9)))
    made = forecast(charged, Demand(runtime_s=HOUR), Repeat.SAFE)
    assert made is not None
    assert made.cost_usd.p10 == made.cost_usd.p90 == 9
    hourly = replace(ranked(CALM), offer=replace(GPU_OFFER, price_usd_per_hour=Decimal(1), billing_quantum_s=3600))
    by_hours = forecast(hourly, Demand(runtime_s=HOUR), Repeat.SAFE)
    assert by_hours is not None
    assert by_hours.cost_usd.p10 in (1, 2)


def test_an_unknown_run_time_is_one_hour_and_said_to_be_assumed() -> None:
    made = forecast(ranked(CALM), Demand(), Repeat.SAFE)
    assert made is not None
    assert made.run_assumed
    assert made.run_s.p10 == made.run_s.p90 == 3600


def test_equal_inputs_give_equal_figures_and_nothing_believed_gives_none() -> None:
    assert forecast(ranked(SPOT), Demand(), Repeat.SAFE) == forecast(ranked(SPOT), Demand(), Repeat.SAFE)
    assert forecast(ranked(None), Demand(), Repeat.SAFE) is None


def test_the_best_offer_has_an_outlook_and_a_stated_decile_is_believed() -> None:
    spot = replace(OFFER, id="spot", capacity_type=CapacityType.SPOT, startup_s=Decimal(10), startup_p90_s=Decimal(100))
    plan = place(Asked(spec=SPEC, demand=Demand(), now_ms=NOW_MS), OfferTable.of([spot]), seed="")
    best = plan.ranked[0].outlook
    assert best is not None
    assert (best.startup_s, best.startup_p90_s) == (10, 100)
    quick = replace(spot, startup_p90_s=Decimal(5))  # less than the median: not believed
    plan = place(Asked(spec=SPEC, demand=Demand(), now_ms=NOW_MS), OfferTable.of([quick, OFFER]), seed="")
    assert [one.outlook is None for one in plan.ranked] == [False, True]
    best = place(Asked(spec=SPEC, demand=Demand(), now_ms=NOW_MS), OfferTable.of([quick]), seed="").ranked[0].outlook
    assert best is not None
    assert best.startup_p90_s == pytest.approx(10 * SPREAD_TO_NINTH_DECILE)


@pytest.mark.parametrize("limit_s", [None, Decimal(60)])
@pytest.mark.parametrize("seconds", [(), (8.0,), (8.0,) * 9])
def test_no_sentence_is_said_twice(limit_s: Decimal | None, seconds: tuple[float, ...]) -> None:
    spec = replace(SPEC, constraints=Constraints(runtime_s=limit_s))
    history = History(run_times_s=seconds, runtime_s=run_time(seconds) if seconds else None)
    lessons = Lessons(histories={("t", kind_of(spec)): history})
    demand = size(spec, tenant="t", lessons=lessons)
    [best] = place(Asked(spec=spec, demand=demand, now_ms=NOW_MS), OfferTable.of([OFFER]), seed="").ranked
    for told in (grounds(best, demand), assumptions(best, demand, spec.repeat)):
        assert told
        assert not [one for one in told if sum(other.endswith(one) for other in told) > 1]
