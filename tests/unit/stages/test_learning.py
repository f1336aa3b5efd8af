"""What attempts teach: thin evidence leans on its group, old evidence fades, and losses make long runs dear."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.experience import Beliefs, Evidence, Experience
from placet.domain.offer_table import OfferTable
from placet.domain.spec import CapacityType
from placet.stages import learning
from placet.stages.groups import HALF_LIFE_MS
from placet.stages.learning import LOSS_SHAPE, PRIORS, beliefs, expected_course, learn
from tests.support.values import GPU_OFFER, NOW_MS

SPOT = replace(GPU_OFFER, id="spot", capacity_type=CapacityType.SPOT)
SISTER = replace(SPOT, id="sister")
ELSEWHERE = replace(SPOT, id="elsewhere", provider="other", region="far")
TABLE = OfferTable.of([SPOT, SISTER, ELSEWHERE])


def attempt(**facts: object) -> Evidence:
    base = Evidence(
        offer_id="spot",
        provider=SPOT.provider,
        region=SPOT.region,
        gpu_model="L4",
        capacity_type="spot",
        at_ms=NOW_MS,
        started=True,
        startup_s=120.0,
        hours=1.0,
    )
    return replace(base, **facts)  # type: ignore[arg-type]  # fields of Evidence by name


def after(*evidence: Evidence, now_ms: int = NOW_MS) -> Beliefs:
    return beliefs(learn(Experience(), evidence), TABLE, now_ms=now_ms)


def test_without_evidence_the_kind_of_capacity_speaks() -> None:
    believed = after()
    assert believed.start_share.tolist() == [PRIORS[CapacityType.SPOT].start_share] * 3
    assert believed.losses_per_hour.tolist() == [PRIORS[CapacityType.SPOT].losses_per_hour] * 3
    assert believed.startup_s.tolist() == pytest.approx([60.0] * 3)


def test_evidence_counts_most_where_it_was_made_and_less_further_away() -> None:
    believed = after(*[attempt(started=False, startup_s=None, hours=0.0)] * 10)
    here, sister, elsewhere = believed.start_share
    assert here < sister < elsewhere < PRIORS[CapacityType.SPOT].start_share


def test_losses_and_start_up_times_are_learnt() -> None:
    believed = after(*[attempt(taken_away=True, hours=1.0, startup_s=600.0)] * 20)
    assert believed.losses_per_hour[0] > 2 * PRIORS[CapacityType.SPOT].losses_per_hour
    assert 300 < believed.startup_s[0] < 600
    assert believed.startup_high_s[0] > believed.startup_s[0]


def test_old_evidence_fades_to_the_prior() -> None:
    bad = [attempt(started=False, startup_s=None)] * 10
    soon, late = after(*bad), after(*bad, now_ms=NOW_MS + 10 * HALF_LIFE_MS)
    assert soon.start_share[0] < 0.3
    assert late.start_share[0] > 0.7


@given(st.permutations([attempt(at_ms=NOW_MS - hour * 3_600_000, started=hour % 3 > 0) for hour in range(8)]))
def test_the_order_of_attempts_does_not_matter(evidence: list[Evidence]) -> None:
    assert after(*evidence).start_share == pytest.approx(
        after(*sorted(evidence, key=lambda one: one.at_ms)).start_share
    )


def test_a_handful_of_offers_is_believed_the_same_of_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = [attempt(), attempt(started=False, startup_s=None, at_ms=NOW_MS - 10**8), attempt(taken_away=True)]
    few = after(*evidence, now_ms=NOW_MS + 10**8)
    monkeypatch.setattr(learning, "FEW_ROWS", 0)
    many = after(*evidence, now_ms=NOW_MS + 10**8)
    for name, values in vars(few).items():
        assert values == pytest.approx(getattr(many, name), rel=1e-12), name
    assert len(set(few.start_share.tolist())) == 3


def test_a_run_that_starts_over_costs_more_the_longer_and_the_riskier_it_is() -> None:
    believed = after()
    startup_h = np.full(3, 0.05)
    short = expected_course(1.0, startup_h, believed, resumable=False, checkpoint_h=0.25)
    long = expected_course(24.0, startup_h, believed, resumable=False, checkpoint_h=0.25)
    resumed = expected_course(24.0, startup_h, believed, resumable=True, checkpoint_h=0.25)
    assert long.hours[0] / 24.0 > short.hours[0] / 1.0
    assert resumed.hours[0] < long.hours[0]
    assert resumed.hours[0] > 24.0


def test_the_mean_restart_time_agrees_with_a_simulation() -> None:
    rng = np.random.default_rng(7)
    rate, length = 0.3, 4.0
    total, starts = 0.0, 0
    for _ in range(20_000):
        while (gap := rng.exponential(1 / rng.gamma(LOSS_SHAPE, rate / LOSS_SHAPE))) < length:
            total, starts = total + gap, starts + 1
        total, starts = total + length, starts + 1
    believed = replace(after(), losses_per_hour=np.full(3, rate), start_share=np.ones(3))
    course = expected_course(length, np.zeros(3), believed, resumable=False, checkpoint_h=0.0)
    assert total / 20_000 == pytest.approx(course.hours[0], rel=0.03)
    assert starts / 20_000 == pytest.approx(course.attempts[0], rel=0.03)


@pytest.mark.parametrize("resumable", [False, True])
def test_more_losses_and_slower_starts_never_make_a_run_cheaper(resumable: bool) -> None:
    rates = np.array([0.0, 1e-9, 1e-6, 0.001, 0.1, 1.0, 30.0])
    believed = replace(
        after(), losses_per_hour=rates, start_share=np.full(len(rates), 0.9), startup_s=np.full(len(rates), 60.0)
    )
    course = expected_course(10.0, believed.startup_s / 3600, believed, resumable=resumable, checkpoint_h=0.25)
    assert course.hours[0] == pytest.approx(10.0 + 60 / 3600 / 0.9, rel=1e-4)
    assert (np.diff(course.hours) >= -1e-9).all()
    assert (np.diff(course.attempts) >= -1e-9).all()
