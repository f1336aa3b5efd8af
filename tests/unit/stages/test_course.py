"""Spot for a workload that can go on elsewhere: read off its record and the offers, and made a question again."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.failures import Cause, Failure
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Offer
from placet.domain.quotes import Quoted
from placet.domain.records import Attempt
from placet.domain.spec import CapacityType, Constraints, Repeat, Spec
from placet.domain.states import AttemptState
from placet.stages import course, recovery
from placet.stages.filters import Asked
from placet.stages.placement import place
from placet.stages.sizing import size
from placet.stages.spot import Action
from tests.support.values import ATTEMPT, NOW_MS, OFFER, SPEC, WORKLOAD

HOUR_MS = 3_600_000
STEADY = replace(OFFER, id="steady", capacity_type=CapacityType.ON_DEMAND, price_usd_per_hour=Decimal("3.00"))
CHEAP = replace(
    OFFER, id="cheap", capacity_type=CapacityType.SPOT, price_usd_per_hour=Decimal("0.90"), preemptible=True
)
GONE = replace(CHEAP, availability=Availability.FULL)


def resumable(*, hours: float, work_hours: int = 4, **bounds: object) -> Spec:
    constraints = Constraints(
        deadline_ms=NOW_MS + int(hours * HOUR_MS),
        runtime_s=Decimal(work_hours * 3600),
        **bounds,  # type: ignore[arg-type]  # fields of Constraints by name
    )
    return replace(SPEC, repeat=Repeat.RESUMABLE, constraints=constraints)


def at(spec: Spec, now_ms: int) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=now_ms)


def looked(
    spec: Spec,
    *offers: Offer,
    now_ms: int = NOW_MS,
    attempts: tuple[Attempt, ...] = (),
    before: course.Course | None = None,
) -> course.Course | None:
    return course.look(at(spec, now_ms), OfferTable.of(offers), replace(WORKLOAD, spec=spec), attempts, before)


def decided(spec: Spec, *offers: Offer, **more: object) -> Action:
    found = looked(spec, *offers, **more)  # type: ignore[arg-type]  # keywords of looked
    assert found is not None
    return found.decision.action


def running(offer: Offer, since_ms: int) -> Attempt:
    note = replace(ATTEMPT.placement, offer_id=offer.id)
    return replace(ATTEMPT, placement=note, state=AttemptState.RUNNING, created_ms=since_ms, started_ms=since_ms)


def test_only_what_can_go_on_and_says_how_long_it_takes_and_until_when() -> None:
    spec = resumable(hours=48)
    assert course.follows(spec)
    assert not course.follows(replace(spec, repeat=Repeat.SAFE))
    assert not course.follows(replace(spec, constraints=replace(spec.constraints, deadline_ms=None)))
    assert not course.follows(replace(spec, constraints=replace(spec.constraints, runtime_s=None)))
    assert not course.follows(resumable(hours=48, capacity_types=(CapacityType.ON_DEMAND,)))


def test_time_is_spent_on_spot_and_never_beyond_the_deadline() -> None:
    assert decided(resumable(hours=48), STEADY, CHEAP) is Action.SPOT
    assert decided(resumable(hours=48), STEADY, GONE) is Action.WAIT
    assert decided(resumable(hours=4.3), STEADY, GONE) is Action.ON_DEMAND
    assert looked(resumable(hours=48), STEADY) is None, "there is no spot to decide about"


def test_what_is_held_is_kept_until_the_slack_is_gone() -> None:
    spec = resumable(hours=8, work_hours=4)
    on_spot, on_demand = running(CHEAP, NOW_MS), running(STEADY, NOW_MS)
    early, late = NOW_MS + HOUR_MS, NOW_MS + 269 * 60_000
    assert decided(spec, STEADY, GONE, now_ms=early, attempts=(on_spot,)) is Action.STAY, (
        "we hold what is gone for others"
    )
    assert decided(spec, STEADY, CHEAP, now_ms=early, attempts=(on_demand,)) is Action.SPOT, "it is worth the move"
    assert decided(resumable(hours=4.3), STEADY, CHEAP, attempts=(on_demand,)) is Action.STAY
    lost = replace(running(CHEAP, NOW_MS), state=AttemptState.LOST, exited_ms=NOW_MS + HOUR_MS)
    again = replace(running(CHEAP, late), epoch=2, started_ms=None)
    found = looked(spec, STEADY, CHEAP, now_ms=late, attempts=(lost, again))
    assert found is not None
    table, then = OfferTable.of([STEADY, CHEAP]), at(spec, late)
    assert course.moves(found, then, table), "3.25 hours are left, a change takes 0.25, and 3.5 hours remain"
    # Another 3.25 hours cost 9.75.
    for left_usd, moves in (("9.76", True), ("9.74", False), ("-1", False)):
        quoted = Quoted(bound_usd=Decimal(11), left_usd=Decimal(left_usd), done_s=2700.0)
        assert course.moves(found, replace(then, quoted=quoted), table) is moves


def test_a_lost_attempt_counts_up_to_its_last_checkpoint() -> None:
    spec = resumable(hours=48)
    lost = replace(running(CHEAP, NOW_MS), state=AttemptState.LOST, exited_ms=NOW_MS + HOUR_MS)
    found = looked(spec, STEADY, CHEAP, now_ms=NOW_MS + 2 * HOUR_MS, attempts=(lost,))
    assert found is not None
    assert found.work_left_s == 3.25 * 3600


def test_history_goes_on_while_the_places_are_the_same() -> None:
    spec = resumable(hours=48)
    first = looked(spec, STEADY, CHEAP)
    later = looked(spec, STEADY, GONE, now_ms=NOW_MS + HOUR_MS, before=first)
    assert later is not None
    assert later.history.places[0].losses > 0
    elsewhere = looked(spec, STEADY, replace(CHEAP, region="there"), now_ms=NOW_MS + HOUR_MS, before=first)
    assert elsewhere is not None
    assert all(record.losses == 0 for record in elsewhere.history.places), "another set of places is a new history"


@pytest.mark.parametrize(
    ("spec", "offers", "chosen"),
    [
        (resumable(hours=48), (STEADY, CHEAP), "cheap"),
        (
            resumable(hours=7),
            (STEADY, CHEAP, replace(CHEAP, id="there", region="there", price_usd_per_hour=Decimal("1.80"))),
            "cheap",
        ),
        (resumable(hours=4.3), (STEADY, GONE, replace(OFFER, id="own", capacity_type=CapacityType.RESERVED)), "own"),
    ],
)
def test_placement_is_asked_within_the_decision(spec: Spec, offers: tuple[Offer, ...], chosen: str) -> None:
    found = looked(spec, *offers)
    assert found is not None
    narrow = course.narrowed(at(spec, NOW_MS), found)
    plan = place(narrow, OfferTable.of(offers), seed="seed")
    assert plan.ranked[0].offer.id == chosen
    assert narrow.within is not None
    assert narrow.within.of(spec) == narrow.spec, "so that it can be done again from a record"
    kinds = {ranked.offer.capacity_type is CapacityType.SPOT for ranked in plan.ranked}
    assert kinds == {found.decision.action is Action.SPOT}


def test_being_moved_or_taken_back_spends_no_budget() -> None:
    spec = resumable(hours=48)
    for cause in (Cause.MOVED, Cause.PREEMPTED):
        for _ in range(9):
            step = recovery.recover(
                replace(WORKLOAD, spec=spec), ATTEMPT, Failure(cause=cause, message=""), now_ms=NOW_MS
            )
            assert isinstance(step, recovery.Again)
            assert (step.user_failures, step.infrastructure_failures, step.exclude_offer) == (0, 0, None)
    counted = recovery.recover(WORKLOAD, ATTEMPT, Failure(cause=Cause.PREEMPTED, message=""), now_ms=NOW_MS)
    assert counted.infrastructure_failures == 1, "without a deadline nothing else would end it"
