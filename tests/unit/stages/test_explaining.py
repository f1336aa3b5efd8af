"""What is said of a choice: what differs when it is made again, and what would have won if."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.decisions import Decision
from placet.domain.experience import Evidence, Experience
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Free, Offer
from placet.domain.spec import Constraints, Objective, Selection, Spec
from placet.stages.explaining import decision, replay, what_if
from placet.stages.filters import NO_EXPERIENCE, Asked
from placet.stages.learning import learn
from placet.stages.placement import place
from placet.stages.sizing import size
from placet.testing.conformance.store_values import new_workload
from tests.support.values import GPU_OFFER, NOW_MS, SPEC

CHEAP = replace(GPU_OFFER, id="cheap", provider="a", price_usd_per_hour=Decimal(1), startup_s=Decimal(600))
LIKED = replace(CHEAP, id="liked", provider="b", price_usd_per_hour=Decimal("1.05"))
QUICK = replace(CHEAP, id="quick", provider="c", price_usd_per_hour=Decimal(3), startup_s=Decimal(1))
FULL = replace(CHEAP, id="full", free=Free(slots=0), price_usd_per_hour=Decimal("0.1"))
PREFERS_B = replace(SPEC, constraints=Constraints(providers=Selection(preferred=("b",))))


def choose(spec: Spec, *offers: Offer, experience: Experience = NO_EXPERIENCE) -> Decision:
    asked = Asked(spec=spec, demand=size(spec), now_ms=NOW_MS, experience=experience)
    table = OfferTable.of(offers)
    return decision(replace(new_workload(1), spec=spec), asked, table, place(asked, table, seed=new_workload(1).id))


def wins(spec: Spec, made: Decision) -> dict[str, str | None]:
    return {one.change: one.winner.offer_id if one.winner else None for one in what_if(spec, made)}


def test_each_preference_and_objective_is_left_out_in_turn() -> None:
    made = choose(PREFERS_B, CHEAP, LIKED, QUICK, FULL)
    assert made.ranked[0].offer_id == "liked"
    assert made.drop_counts == (("free_capacity", 1),)
    found = wins(PREFERS_B, made)
    assert found["without preferred providers"] == "cheap"
    assert found[f"with objective {Objective.SPEED}"] == "quick"
    assert f"with objective {Objective.COST}" not in found
    assert [one.same for one in what_if(PREFERS_B, made) if one.change == "without preferred providers"] == [False]


def test_what_was_learnt_is_kept_and_can_be_left_out() -> None:
    failed = [
        Evidence(
            offer_id="cheap", provider="a", region=CHEAP.region, gpu_model="L4", capacity_type="on_demand",
            at_ms=NOW_MS, started=False,
        )
        for _ in range(40)
    ]  # fmt: skip
    spec = replace(SPEC, objective=Objective.RELIABILITY)
    made = choose(spec, CHEAP, replace(LIKED, region="r2"), experience=learn(Experience(), failed))
    assert made.ranked[0].offer_id == "liked"
    assert {one.level.value for one in made.known} == {"offer", "place", "provider", "capacity"}
    assert wins(spec, made)["without what attempts have taught"] == "cheap"


def test_a_record_that_was_changed_does_not_replay() -> None:
    made = choose(SPEC, CHEAP, LIKED)
    assert replay(SPEC, made).differences == ()
    dearer = replace(made, offers=(replace(CHEAP, price_usd_per_hour=Decimal(9)), LIKED))
    told = replay(SPEC, dearer).differences
    assert told[0] == "cheap was chosen, now liked is"
    gone = replace(made, offers=(LIKED,))
    assert "2 offers were ranked, now 1 are" in replay(SPEC, gone).differences


def test_the_digest_names_the_snapshot() -> None:
    first, second = choose(SPEC, CHEAP, LIKED), choose(SPEC, CHEAP, LIKED)
    assert first.snapshot == second.snapshot
    assert first.snapshot != choose(SPEC, CHEAP, replace(LIKED, price_usd_per_hour=Decimal(7))).snapshot


@pytest.mark.parametrize("count", [1, 25, 26, 500])
def test_a_record_is_bounded_and_says_what_it_leaves_out(count: int) -> None:
    offers = [replace(CHEAP, id=f"o{number}", free=Free(slots=number % 2)) for number in range(count + 1)]
    made = choose(SPEC, *offers)
    assert made.considered == count + 1
    assert made.whole == (count + 1 <= 25)
    assert len(made.offers) <= 25
    assert replay(SPEC, made).differences == ()
