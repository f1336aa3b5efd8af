"""One look at a time: what the policy for spot with a deadline chooses, and why."""

import math
from dataclasses import replace

import pytest

from placet.domain.spec import CapacityType
from placet.stages.spot import Action, Held, Place, Situation, decide
from placet.stages.spot_history import LEARNING, History, Record, begin, watch
from placet.stages.spot_values import Market, solve

HOUR_S = 3600.0
SPOT_USD, ON_DEMAND_USD = 1.0, 3.0


def place(name: str, *, there: bool, spot_usd: float | None = SPOT_USD, usd: float | None = ON_DEMAND_USD) -> Place:
    return Place(name=name, spot_there=there, spot_usd_per_hour=spot_usd, on_demand_usd_per_hour=usd)


def situation(*places: Place, left_h: float = 20.0, work_h: float = 10.0, held: Held | None = None) -> Situation:
    return Situation(
        time_left_s=left_h * HOUR_S,
        work_left_s=work_h * HOUR_S,
        planned_s=24 * HOUR_S,
        planned_work_s=12 * HOUR_S,
        changeover_s=0.2 * HOUR_S,
        look_s=600.0,
        held=held,
        places=places,
        history=begin([one.spot_there for one in places]),
    )


def test_with_much_slack_it_waits_for_spot() -> None:
    decision = decide(situation(place("a", there=False), left_h=23, work_h=6))
    assert decision.action is Action.WAIT
    assert decision.place is None
    assert "waiting for spot is expected to cost" in decision.reason
    assert decision.next_best == "on-demand"


def test_spot_that_is_there_is_taken() -> None:
    decision = decide(situation(place("a", there=True)))
    assert (decision.action, decision.place) == (Action.SPOT, "a")
    assert decision.expected_usd is not None
    assert 10.0 < decision.expected_usd < 30.0


def test_the_last_moment_belongs_to_on_demand() -> None:
    decision = decide(situation(place("a", there=True), left_h=10.3, work_h=10))
    assert (decision.action, decision.place) == (Action.ON_DEMAND, "a")
    assert decision.reason == "only on-demand surely meets the deadline: 1080 s of slack are left"


def test_spot_is_left_while_a_change_still_meets_the_deadline() -> None:
    held = Held(capacity=CapacityType.SPOT, place=0)
    safe = situation(place("a", there=True), left_h=10.2 + 601 / HOUR_S, work_h=10, held=held)
    assert decide(safe).action in {Action.STAY, Action.ON_DEMAND}
    last = situation(place("a", there=True), left_h=10.2, work_h=10, held=held)
    # Spot works until the next look, so a look later a change is still in time.
    assert decide(last).reason != decide(replace(last, time_left_s=10.19 * HOUR_S)).reason
    assert decide(replace(last, time_left_s=10.19 * HOUR_S)).reason.startswith("no time is left for a change")


def test_too_late_for_certainty_it_takes_what_ends_soonest() -> None:
    decision = decide(situation(place("a", there=True), left_h=9.0, work_h=10))
    assert decision.action is Action.ON_DEMAND
    assert decision.reason.startswith("the deadline cannot be met for certain")


def test_work_that_ends_before_the_next_look_needs_no_net() -> None:
    held = Held(capacity=CapacityType.SPOT, place=0)
    decision = decide(situation(place("a", there=True), left_h=0.4, work_h=0.1, held=held))
    assert decision.action is Action.STAY


def test_the_steadier_place_is_preferred() -> None:
    asked = situation(place("shaky", there=True), place("steady", there=True))
    shaky = Record(up=True, age_h=1.0, losses=40, losses_usual=10.0)
    steady = Record(up=True, age_h=1.0, losses=2, losses_usual=10.0)
    history = History(places=(shaky, steady), anywhere=Record(up=True, age_h=1.0))
    assert decide(replace(asked, history=history)).place == "steady"


def test_the_cheaper_place_is_preferred_among_equals() -> None:
    decision = decide(situation(place("a", there=True, spot_usd=1.5), place("b", there=True, spot_usd=0.9)))
    assert decision.place == "b"


def test_on_demand_is_left_for_spot_only_when_spot_has_lasted() -> None:
    held = Held(capacity=CapacityType.ON_DEMAND, place=0)
    asked = situation(place("a", there=True), left_h=12.4, work_h=11, held=held)
    young, old = (
        History(places=(Record(up=True, age_h=age_h),), anywhere=Record(up=True, age_h=1.0)) for age_h in (0.0, 20.0)
    )
    assert decide(replace(asked, history=young)).action is Action.STAY
    assert decide(replace(asked, history=old)).action is Action.SPOT


def test_on_demand_moves_to_where_it_is_much_cheaper() -> None:
    held = Held(capacity=CapacityType.ON_DEMAND, place=0)
    dear, cheap = place("dear", there=False, usd=6.0), place("cheap", there=False)
    decision = decide(situation(dear, cheap, left_h=10.9, work_h=10, held=held))
    assert (decision.action, decision.place) == (Action.ON_DEMAND, "cheap")
    near = situation(dear, cheap, left_h=10.1, work_h=10, held=held)
    assert decide(near).action is Action.STAY


def test_spot_dearer_than_on_demand_is_no_choice() -> None:
    decision = decide(situation(place("a", there=True, spot_usd=3.5), left_h=11, work_h=10))
    assert decision.action is Action.ON_DEMAND


def test_without_on_demand_it_does_what_it_can() -> None:
    gone, there = place("a", there=False, usd=None), place("b", there=True, usd=None)
    assert decide(situation(gone)).action is Action.WAIT
    assert decide(situation(gone, there)).place == "b"
    held = Held(capacity=CapacityType.SPOT, place=1)
    assert decide(situation(gone, there, held=held)).action is Action.STAY


def test_a_record_counts_events_and_what_would_be_usual() -> None:
    record = Record(up=True, age_h=0.0)
    for _ in range(3):
        record = record.after(1.0, up=True, memory_h=math.inf)
    assert (record.losses, record.age_h) == (0, 3.0)
    assert record.losses_usual == pytest.approx(1.375 + 0.459 + 0.203)
    lost = record.after(1.0, up=False, memory_h=math.inf)
    assert (lost.losses, lost.age_h, lost.up) == (1, 0.0, False)


def test_what_is_seen_moves_the_factors_and_fades() -> None:
    calm = watch(begin([True]), [True], 10 * HOUR_S)
    assert calm.loss_factor(0) < 1
    shaken = watch(watch(watch(begin([True]), [False], 600), [True], 600), [False], 600)
    assert shaken.loss_factor(0) > 1
    assert shaken.return_factor > 1
    later = watch(shaken, [False], 1000 * HOUR_S)
    assert later.loss_factor(0) == pytest.approx(1.0)


def test_history_knows_whether_another_place_covered_a_loss() -> None:
    assert begin([True]).cover == 0
    first = begin([True, True])
    covered = watch(first, [False, True], 600)
    bare = watch(first, [False, False], 600)
    assert first.cover == pytest.approx(0.2)
    assert bare.cover < first.cover < covered.cover
    assert covered.covered == covered.lost < 1 < bare.lost < LEARNING.prior_events


def test_slack_is_worth_something_and_never_costs() -> None:
    values = solve(Market(1 / 6, 120, 8.0, 0.2, 33, 0, 0, 0))
    work_h = 10.0
    for up in (True, False):
        waits = [values.at(work_h + slack_h, slack_h, 0.0, 1, up=up).wait for slack_h in (0.5, 1.0, 2.0, 4.0, 7.0)]
        starts = [values.at(work_h + slack_h, slack_h, 0.0, 1, up=up).start_on_demand for slack_h in (0.5, 2.0, 7.0)]
        assert waits == sorted(waits, reverse=True)
        assert starts == sorted(starts, reverse=True)
        assert 10 * 0.33 < waits[-1] < 10.0


def test_a_changeover_under_way_makes_staying_dearer() -> None:
    values = solve(Market(1 / 6, 120, 8.0, 0.2, 33, 0, 0, 0))
    settled, pending = (values.at(12.0, 1.0, pending_h, 0, up=True) for pending_h in (0.0, 0.2))
    assert settled.stay_spot < pending.stay_spot
    assert settled.wait == pending.wait
