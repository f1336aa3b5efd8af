"""The simulated market of `bench.market` is fair: the same world for all, and nobody is told what has not happened."""

import numpy as np
import pytest

from bench.rentals import fit
from bench.rentals.policies import CLAIRVOYANT, FAILOVER, ORACLE, PLACET, POLICIES
from bench.rentals.simulation import Outcome, Policy, Progress, attempt, clock_ms, simulate
from bench.rentals.world import DIFFERENT_PRICES, HOUR_S, SAME_PRICES, World, world
from placet.domain.experience import Evidence
from placet.domain.spec import CapacityType

COUNT = 25


@pytest.fixture(scope="module")
def made() -> World:
    return world(1000, COUNT, DIFFERENT_PRICES, tuning=True)


def run(made: World, name: str) -> tuple[Outcome, ...]:
    return simulate(made, POLICIES[name](made))


def test_a_world_follows_from_its_seed(made: World) -> None:
    again = world(1000, COUNT, DIFFERENT_PRICES, tuning=True)
    assert again.workloads == made.workloads
    assert (again.up == made.up).all()
    assert run(again, PLACET) == run(made, PLACET)
    assert world(1001, COUNT, DIFFERENT_PRICES, tuning=True).workloads != made.workloads


def test_prices_of_spot_differ_only_where_they_are_meant_to() -> None:
    prices: dict[str, set[float]] = {}
    for offer in map((same := world(1, 1, SAME_PRICES).table).offer, range(len(same))):
        if offer.capacity_type is CapacityType.SPOT:
            prices.setdefault(offer.id.rsplit("/", 1)[0], set()).add(float(offer.price_usd_per_hour))
    assert prices
    assert all(len(found) == 1 for found in prices.values())


def test_tuning_and_reporting_see_other_recordings() -> None:
    assert (world(1, 1, SAME_PRICES).up.mean(axis=1) != world(1, 1, SAME_PRICES, tuning=True).up.mean(axis=1)).any()


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_is_done_for_less_than_it_costs(made: World, name: str) -> None:
    policy = POLICIES[name](made)
    for workload, outcome in zip(made.workloads, simulate(made, policy), strict=True):
        fitting = policy.offers(workload)  # type: ignore[attr-defined]  # every policy here has it
        least = workload.run_s / HOUR_S * float(made.usd_per_hour[fitting].min())
        assert not outcome.finished or outcome.usd > least
        assert not outcome.finished or outcome.took_s > workload.run_s
        assert outcome.late or outcome.finished


def test_who_knows_the_future_loses_no_attempt(made: World) -> None:
    assert all(outcome.attempts == 1 for outcome in run(made, CLAIRVOYANT) if outcome.finished)
    assert all(outcome.refusals == 0 for outcome in run(made, ORACLE))
    assert any(outcome.attempts > 1 for outcome in run(made, FAILOVER))


def test_capacity_that_is_not_there_costs_nothing(made: World) -> None:
    progress = Progress(workload=made.workloads[0], left_s=HOUR_S)
    gone = [row for row in range(len(made.table)) if not made.available(row, 0.0)]
    ended = attempt(made, progress, gone[0], 0.0)
    assert (ended.refused, ended.usd, ended.left_s) == (True, 0.0, HOUR_S)


def test_work_that_resumes_keeps_whole_checkpoints(made: World) -> None:
    kept = set()
    for workload in made.workloads:
        for row in range(len(made.table)):
            progress = Progress(workload=workload, left_s=20 * HOUR_S)
            ended = attempt(made, progress, row, 0.0)
            if ended.started and ended.taken_away:
                done = 20 * HOUR_S - ended.left_s
                assert done <= ended.ran_s
                assert done == 0.0 or workload.resumable
                kept.add(done % 900)
    assert kept == {0.0}


def watched(policy: Policy, times: list[tuple[str, int]]) -> Policy:
    """The same policy, with the times at which it chose and was told written down."""

    class Watched:
        def choose(self, progress: Progress, now_s: float) -> int:
            times.append(("choose", clock_ms(now_s)))
            return policy.choose(progress, now_s)

        def observe(self, evidence: Evidence) -> None:
            times.append(("observe", evidence.at_ms))
            policy.observe(evidence)

    return Watched()


def test_nobody_is_told_before_it_has_happened(made: World) -> None:
    times: list[tuple[str, int]] = []
    simulate(made, watched(POLICIES[PLACET](made), times))
    moments = [moment for _, moment in times]
    assert moments == sorted(moments)
    assert {what for what, _ in times} == {"choose", "observe"}


def test_survival_counts_the_moments_that_are_followed_by_enough() -> None:
    steady, broken = np.ones(6, dtype=np.bool_), np.array([True, True, True, False, True, True])
    # Of four moments with two more to come all hold; of three with capacity the last one does not.
    assert fit.survived([steady, broken], 2) == pytest.approx(6 / 7)
