"""The simulator of spot traces gives the published figures; what is compared on it can be trusted."""

import statistics

import pytest

from bench.traces import baselines
from bench.traces.sets import CaseSet, set_a, set_b
from bench.traces.simulator import HOUR_S, Outcome, Rule, simulate

TABLE_3_TOLERANCE_H = 0.5


def outcomes(cases: CaseSet, rule: Rule) -> list[Outcome]:
    return [simulate(case, rule) for case in cases.cases]


def usd_per_on_time(found: list[Outcome]) -> float:
    return sum(outcome.usd for outcome in found) / sum(outcome.on_time for outcome in found)


@pytest.mark.parametrize(
    ("rule", "published_usd"), [(baselines.Greedy, 119.0345), (baselines.UniformProgress, 101.6827)]
)
def test_the_leaderboard_is_reproduced_to_the_last_digit(rule: Rule, published_usd: float) -> None:
    found = outcomes(set_a(), rule)
    assert len(found) == 1080
    assert all(outcome.on_time for outcome in found)
    assert round(usd_per_on_time(found), 4) == published_usd


@pytest.mark.parametrize(
    ("rule", "on_demand_h", "spot_h"), [(baselines.Greedy, 30.8, 17.2), (baselines.UniformProgress, 25.1, 22.9)]
)
def test_table_3_of_the_paper_is_reproduced(rule: Rule, on_demand_h: float, spot_h: float) -> None:
    found = outcomes(set_b(), rule)
    assert len(found) == 1128
    assert statistics.mean(outcome.on_demand_work_s for outcome in found) / HOUR_S == pytest.approx(
        on_demand_h, abs=TABLE_3_TOLERANCE_H
    )
    assert statistics.mean(outcome.spot_work_s for outcome in found) / HOUR_S == pytest.approx(
        spot_h, abs=TABLE_3_TOLERANCE_H
    )
