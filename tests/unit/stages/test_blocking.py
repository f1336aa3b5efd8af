"""What fails again and again is left alone for a while, by one tenant, and never for ever."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.domain.blocks import Scope
from placet.domain.failures import MEANINGS, Cause, Fault
from placet.domain.lessons import NO_LESSONS, Ended, Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate
from placet.stages.blocking import FORGOTTEN_MS, ONE_EVENT_MS, RULES, STREAKS_MAX, Rule, blocks
from placet.stages.explaining import decision, replay, what_if
from placet.stages.filters import Asked
from placet.stages.lessons import remember
from placet.stages.placement import place, why_not
from placet.stages.sizing import size
from placet.testing.conformance.store_values import new_workload
from tests.support.values import GPU_OFFER, NOW_MS, SPEC

A = replace(GPU_OFFER, id="a", provider="p", region="r1", price_usd_per_hour=Decimal(1))
B = replace(A, id="b", price_usd_per_hour=Decimal(2))
C = replace(A, id="c", region="r2", price_usd_per_hour=Decimal(3))
D = replace(A, id="d", provider="q", price_usd_per_hour=Decimal(4))
TABLE = OfferTable.of([A, B, C, D])
DOCUMENTED = Path(__file__).parents[3] / "docs" / "learning.md"
FAILED = Ended(
    tenant="t",
    workload_id="wl_1",
    epoch=1,
    kind="k",
    offer_id="a",
    provider="p",
    region="r1",
    gpu_model="L4",
    capacity_type="on_demand",
    created_ms=NOW_MS,
    finished_ms=NOW_MS,
)


def after(cause: Cause, *times_ms: int, lessons: Lessons = NO_LESSONS) -> Lessons:
    """The attempts on ``a`` that failed at some times after now."""
    failed = [replace(FAILED, cause=cause, epoch=epoch, finished_ms=NOW_MS + at) for epoch, at in enumerate(times_ms)]
    return remember(lessons, failed)


def asked(lessons: Lessons, now_ms: int, tenant: str = "t") -> Asked:
    return Asked(spec=SPEC, demand=size(SPEC), now_ms=now_ms, blocks=blocks(lessons, tenant, now_ms))


def left_alone(lessons: Lessons, now_ms: int, tenant: str = "t") -> set[str]:
    dropped = why_not(asked(lessons, now_ms, tenant), TABLE)
    return {drop.offer_id for drop in dropped if drop.verdict.filter == "blocked"}


def times(rule: Rule, count: int) -> list[int]:
    """Moments of separate events in a row."""
    return [number * (ONE_EVENT_MS + 1) for number in range(count)]


REACH = {Scope.OFFER: {"a"}, Scope.PLACE: {"a", "b"}, Scope.PROVIDER: {"a", "b", "c"}}


@pytest.mark.parametrize("cause", list(RULES))
def test_each_cause_blocks_as_far_as_its_rule_says_and_only_when_repeated(cause: Cause) -> None:
    rule = RULES[cause]
    moments = times(rule, rule.after)
    last_ms = NOW_MS + moments[-1]
    assert left_alone(after(cause, *moments[:-1]), last_ms) == set()
    lessons = after(cause, *moments)
    assert left_alone(lessons, last_ms) == REACH[rule.scope]
    assert left_alone(lessons, last_ms + rule.first_ms - 1) == REACH[rule.scope]
    assert left_alone(lessons, last_ms + rule.first_ms) == set()
    assert left_alone(lessons, last_ms, tenant="u") == set()


@pytest.mark.parametrize("cause", sorted(set(Cause) - set(RULES)))
def test_no_other_cause_ever_blocks(cause: Cause) -> None:
    assert blocks(after(cause, *times(RULES[Cause.LOST], 50)), "t", NOW_MS) == ()


def test_only_infrastructure_can_be_blocked() -> None:
    assert {MEANINGS[cause].fault for cause in RULES} == {Fault.INFRASTRUCTURE}


@pytest.mark.parametrize("cause", list(RULES))
def test_each_block_is_twice_as_long_and_none_is_for_ever(cause: Cause) -> None:
    rule, lessons, at_ms, spans = RULES[cause], NO_LESSONS, 0, []
    for number in range(40):
        lessons = after(cause, at_ms, lessons=lessons)
        found = blocks(lessons, "t", NOW_MS + at_ms)
        spans += [block.until_ms - NOW_MS - at_ms for block in found]
        at_ms = max([block.until_ms - NOW_MS for block in found], default=at_ms) + ONE_EVENT_MS + number
    assert spans[:2] == [rule.first_ms, min(2 * rule.first_ms, rule.most_ms)]
    assert max(spans) == rule.most_ms
    assert spans == sorted(spans)


def test_failures_of_one_moment_are_one_event() -> None:
    assert left_alone(after(Cause.LOST, *[number * 100 for number in range(50)]), NOW_MS + 5_000) == set()


def test_what_fails_every_second_is_left_alone_all_the_same() -> None:
    rule = RULES[Cause.NO_CAPACITY]
    each_second = [number * 1000 for number in range(2 + rule.after * ONE_EVENT_MS // 1000)]
    assert left_alone(after(Cause.NO_CAPACITY, *each_second), NOW_MS + each_second[-1] + 1)


def test_one_that_gets_through_clears_the_memory() -> None:
    lessons = after(Cause.PROVIDER_ERROR, *times(RULES[Cause.PROVIDER_ERROR], 3))
    now_ms = NOW_MS + times(RULES[Cause.PROVIDER_ERROR], 3)[-1]
    through = replace(FAILED, permit_ms=now_ms, finished_ms=now_ms + 1, cause=Cause.EXIT_CODE)
    elsewhere = replace(through, region="r2", offer_id="c")
    assert left_alone(remember(lessons, [elsewhere]), now_ms) == {"a", "b"}
    assert left_alone(remember(lessons, [replace(through, finished_ms=NOW_MS - 1)]), now_ms) == {"a", "b"}
    assert left_alone(remember(lessons, [replace(through, permit_ms=None)]), now_ms) == {"a", "b"}
    assert remember(lessons, [through]).streaks == {}


def test_old_streaks_are_forgotten_and_their_number_is_bounded() -> None:
    lessons = after(Cause.LOST, 0, ONE_EVENT_MS, 2 * ONE_EVENT_MS + FORGOTTEN_MS)
    (streak,) = lessons.streaks["t"]
    assert streak.events == 1
    many = [
        replace(FAILED, cause=Cause.LOST, offer_id=f"o{number}", finished_ms=NOW_MS + number) for number in range(99)
    ]
    assert len(remember(NO_LESSONS, many).streaks["t"]) == STREAKS_MAX


def test_the_only_way_is_waited_for_and_the_reason_names_the_time_and_the_evidence() -> None:
    lessons = after(Cause.AUTH, 0)
    wanted = asked(lessons, NOW_MS)
    plan = place(wanted, OfferTable.of([A]), seed="s")
    assert plan.fate is Fate.NOT_NOW
    assert plan.drops[0].verdict.reason == (
        "left alone until 2027-01-15T08:02:00.000Z: p failed once (credentials_refused), "
        "the last time attempt 0 of wl_1"
    )
    assert place(wanted, TABLE, seed="s").ranked[0].offer.id == "d"
    assert place(asked(lessons, wanted.blocks[0].until_ms), OfferTable.of([A]), seed="s").fate is Fate.FITS


def test_a_decision_keeps_its_blocks() -> None:
    wanted = asked(after(Cause.AUTH, 0), NOW_MS)
    made = decision(replace(new_workload(1), spec=SPEC), wanted, TABLE, place(wanted, TABLE, seed=new_workload(1).id))
    assert made.blocks == wanted.blocks
    assert replay(SPEC, made).differences == ()
    wins = {one.change: one.winner.offer_id for one in what_if(SPEC, made) if one.winner}
    assert wins["with the offers that are blocked"] == "a"


def test_the_documentation_has_the_same_rules() -> None:
    words = {Scope.OFFER: "the offer", Scope.PLACE: "the provider's region", Scope.PROVIDER: "the provider"}
    spans = {30_000: "30 s", 60_000: "1 min", 3_600_000: "1 h"} | {n * 60_000: f"{n} min" for n in (2, 5, 15, 30)}
    rows = [row.strip("| ").split(" | ") for row in DOCUMENTED.read_text().splitlines() if row.startswith("| `")]
    told = {cause.strip(" `"): rest for causes, *rest in rows for cause in causes.split(",")}
    assert told == {
        rule_cause.value: [words[rule.scope], str(rule.after), spans[rule.first_ms], spans[rule.most_ms]]
        for rule_cause, rule in RULES.items()
    }
