"""Exploration: rarely, cheaply, never where it hurts, and the same each time for the same workload."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.experience import Evidence, Experience
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.spec import CapacityType, Constraints, Repeat, Spec
from placet.stages.explaining import decision, replay, what_if
from placet.stages.exploring import TRIED_ENOUGH, WORSE_AT_MOST
from placet.stages.filters import Asked
from placet.stages.learning import learn
from placet.stages.placement import EXPLORED, place
from placet.stages.sizing import size
from placet.testing.conformance.store_values import new_workload
from tests.support.values import GPU_OFFER, NOW_MS, SPEC

BEST = replace(GPU_OFFER, id="best", region="r", price_usd_per_hour=Decimal(1), startup_s=Decimal(10))
NEW = replace(BEST, id="new", provider="other", price_usd_per_hour=Decimal("1.03"))
DEAR = replace(NEW, id="dear", price_usd_per_hour=Decimal("1.5"))


def tried(offer: Offer, count: int) -> Experience:
    """All of these starts succeeded, as quickly as listed."""
    evidence = Evidence(
        offer_id=offer.id, provider=offer.provider, region=offer.region, gpu_model="L4",
        capacity_type=str(CapacityType.ON_DEMAND), at_ms=NOW_MS, started=True, startup_s=10.0, hours=1.0,
    )  # fmt: skip
    return learn(Experience(), [evidence] * count)


def asked(share: float, spec: Spec = SPEC, experience: Experience | None = None) -> Asked:
    known = tried(BEST, 20) if experience is None else experience
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS, experience=known, exploration=share)


def first(wanted: Asked, *offers: Offer, seed: str = "wl_1") -> str:
    return place(wanted, OfferTable.of(offers), seed=seed).ranked[0].offer.id


def test_an_offer_that_is_nearly_as_good_and_little_known_is_tried() -> None:
    ranked = place(asked(1.0), OfferTable.of([BEST, DEAR, NEW]), seed="wl_1").ranked
    assert [one.offer.id for one in ranked] == ["new", "best", "dear"]
    assert (EXPLORED, "0") in ranked[0].parts
    assert all((EXPLORED, "0") not in one.parts for one in ranked[1:])
    assert ranked[0].score <= ranked[1].score * Decimal(1 + WORSE_AT_MOST)


def test_never_when_it_is_switched_off_too_dear_or_known_well_enough() -> None:
    assert first(asked(0.0), BEST, NEW) == "best"
    assert first(asked(1.0), BEST, DEAR) == "best"
    both = learn(tried(BEST, 20), [])
    for _ in range(int(TRIED_ENOUGH)):
        both = learn(both, [Evidence(
            offer_id="new", provider="other", region="r", gpu_model="L4", capacity_type="on_demand", at_ms=NOW_MS,
            started=True, startup_s=10.0, hours=1.0,
        )])  # fmt: skip
    assert first(asked(1.0, experience=both), BEST, NEW) == "best"
    assert first(asked(1.0, experience=Experience()), BEST, NEW) == "best", "nothing is known of the best either"


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, repeat=Repeat.AT_MOST_ONCE),
        replace(SPEC, constraints=Constraints(deadline_ms=NOW_MS + 10**9)),
    ],
)
def test_never_for_what_has_one_chance_or_little_time(spec: Spec) -> None:
    assert first(asked(1.0, spec), BEST, NEW) == "best"


def test_never_after_a_failure() -> None:
    assert first(replace(asked(1.0), excluded=("gone",)), BEST, NEW) == "best"


def test_the_share_is_kept_and_the_same_workload_draws_the_same() -> None:
    table, wanted = OfferTable.of([BEST, NEW]), asked(0.2)
    draws = [place(wanted, table, seed=f"wl_{number}").ranked[0].offer.id for number in range(1000)]
    assert 150 < draws.count("new") < 250
    assert draws[:50] == [place(wanted, table, seed=f"wl_{number}").ranked[0].offer.id for number in range(50)]


def test_an_exploring_decision_replays_and_says_what_would_have_won() -> None:
    workload, table, wanted = replace(new_workload(1), spec=SPEC), OfferTable.of([BEST, NEW]), asked(1.0)
    made = decision(workload, wanted, table, place(wanted, table, seed=workload.id))
    assert made.ranked[0].offer_id == "new"
    assert replay(SPEC, made).differences == ()
    wins = {one.change: one.winner.offer_id for one in what_if(SPEC, made) if one.winner}
    assert wins["without exploring"] == "best"
