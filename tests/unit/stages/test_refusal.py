"""Refusals in words: which bound binds, under which code, and what would help at what price."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.contract.codes import CODES
from placet.domain.models import ModelHint, ModelUse
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Demand, Gpu, Interval, Offer
from placet.domain.spec import (
    Accelerator,
    CapacityType,
    Constraints,
    Repeat,
    Resources,
    Runtime,
    RuntimeKind,
    Selection,
    Spec,
)
from placet.domain.units import GB, HOUR_MS
from placet.stages import relaxations
from placet.stages.changing import CHANGERS
from placet.stages.filters import NEVER_FILTERS, Asked
from placet.stages.refusal import ACCEPTED, NOUNS, Refusal, doubts, refuse
from placet.stages.sizing import size
from tests.support.values import GPU_OFFER, NOW_MS, OFFER, SPEC

NOTHING = OfferTable.of([])
GPU_SPEC = replace(SPEC, resources=Resources(accelerator=Accelerator.GPU, gpu_count=1))
PAID = replace(OFFER, id="paid", price_usd_per_hour=Decimal("3.20"), startup_s=Decimal(60))
SPOT = replace(PAID, id="spot", capacity_type=CapacityType.SPOT, price_usd_per_hour=Decimal("1.12"))


def refused(spec: Spec, *offers: Offer, listed: tuple[Offer, ...] = ()) -> Refusal:
    asked = Asked(spec=spec, demand=size(spec), now_ms=NOW_MS)
    made = refuse(asked, OfferTable.of(list(offers)), OfferTable.of(list(listed)), size)
    assert all(problem.code in CODES for problem in made.problems)
    return made


def bounded(**bounds: object) -> Spec:
    return replace(SPEC, constraints=replace(Constraints(runtime_s=Decimal(3600)), **bounds))  # type: ignore[arg-type]  # one bound at a time


def test_what_fits_is_accepted_even_when_it_is_full() -> None:
    assert refused(SPEC, OFFER) == ACCEPTED
    assert refused(SPEC, replace(OFFER, availability=Availability.FULL)) == ACCEPTED


def test_a_cap_below_the_cheapest_cost_says_which_cap_would_do() -> None:
    made = refused(bounded(cost_usd=Decimal(2)), PAID)
    [problem] = made.problems
    assert (problem.code, problem.field) == ("over_budget", "constraints.maximum_estimated_cost")
    assert "may cost $3.25, the cap is $2.00" in problem.what
    assert problem.fix.startswith("raise the cost cap to $3.26: $3.20/h, starts in about 1m 00s; or ")
    changes = {change.field: change.value for way in made.relaxations for change in way.changes}
    assert changes == {"constraints.maximum_estimated_cost": "3.26", "constraints.maximum_runtime_seconds": "2189"}
    assert "end it after 36m 29s at the latest: $3.20/h" in problem.fix


def test_nobody_is_told_to_end_before_the_work_is_likely_done() -> None:
    spec = bounded(cost_usd=Decimal(2))
    usual = Interval(low=Decimal(2000), likely=Decimal(2500), high=Decimal(3000), reason="r")
    asked = Asked(spec=spec, demand=replace(size(spec), usual_s=usual), now_ms=NOW_MS)
    made = refuse(asked, OfferTable.of([PAID]), NOTHING, size)
    assert [change.filter for way in made.relaxations for change in way.changes] == ["cost_cap"]
    assert "end it" not in made.problems[0].fix
    [way] = refused(bounded(cost_usd=Decimal("0.10")), PAID).relaxations  # 40 seconds are no run
    assert way.changes[0].field == "constraints.maximum_estimated_cost"


def test_kinds_of_capacity_are_ways_out_with_their_price() -> None:
    made = refused(bounded(capacity_types=(CapacityType.RESERVED,)), PAID, SPOT)
    [problem] = made.problems
    assert problem.field == "constraints.capacity_types"
    assert problem.fix == (
        "allow spot: $1.12/h, starts in about 1m 00s; or allow on_demand: $3.20/h, starts in about 1m 00s"
    )


def test_two_bounds_are_changed_together_where_one_is_not_enough() -> None:
    spec = bounded(capacity_types=(CapacityType.RESERVED,), cost_usd=Decimal(1))
    made = refused(spec, PAID, SPOT)
    assert {problem.field for problem in made.problems} == {
        "constraints.capacity_types",
        "constraints.maximum_estimated_cost",
    }
    assert all(
        problem.fix.startswith("change both: allow spot and raise the cost cap to $1.14") for problem in made.problems
    )


def test_three_bounds_are_changed_together_where_two_are_not_enough() -> None:
    spec = bounded(capacity_types=(CapacityType.RESERVED,), cost_usd=Decimal(1), regions=Selection(allowed=("there",)))
    made = refused(spec, PAID, SPOT)
    assert made.problems
    for problem in made.problems:
        assert problem.fix.startswith(
            "change all 3: allow region here, allow spot and raise the cost cap to $1.14: $1.12"
        )


def test_a_change_that_the_others_make_needless_is_left_out() -> None:
    """The cheapest offer behind one bound has no name to allow; the name of another one lets a third one in."""
    nameless, named = (
        replace(GPU_OFFER, id=model or "?", gpu=Gpu(model=model, count=1, memory_bytes=24 * GB)) for model in ("", "L4")
    )
    nameless = replace(nameless, price_usd_per_hour=Decimal("0.1"))
    far = replace(named, id="far", region="far", cpu_cores=Decimal(1))
    resources = replace(GPU_SPEC.resources, gpu_models=("H100",), cpu_cores=Decimal(2))
    spec = replace(GPU_SPEC, resources=resources, constraints=Constraints(regions=Selection(allowed=("there",))))
    for offers in ((nameless, named, far), (nameless, far)):
        (way,) = refused(spec, *offers).relaxations
        needed = [change.filter for change in way.changes]
        assert needed == (["gpu_model"] if named in offers else ["region", "gpu_model", "cpu"])


def test_of_many_sets_only_so_many_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these changes can be made: the kinds of offers are many, the tries are bounded."""
    tried: list[str] = []

    def none_at_all(asked: Asked, offer: Offer, steps: relaxations.Steps) -> None:
        del asked, steps
        tried.append(offer.id)

    monkeypatch.setattr(relaxations, "_applied", none_at_all)
    offers = [
        replace(
            PAID,
            id=f"{number}",
            region="here" if number & 1 else "there",
            jurisdiction="US" if number & 2 else "EU",
            compliance=("hipaa",) if number & 4 else (),
            capacity_type=CapacityType.SPOT if number & 8 else CapacityType.RESERVED,
            cpu_cores=Decimal(1 if number & 16 else 8),
            memory_bytes=GB if number & 32 else 16 * GB,
        )
        for number in range(64)
    ]
    spec = replace(
        bounded(
            providers=Selection(allowed=("x",)),
            cost_usd=Decimal("0.01"),
            regions=Selection(allowed=("there",)),
            jurisdictions=("EU",),
            compliance=("hipaa",),
            capacity_types=(CapacityType.RESERVED,),
        ),
        resources=Resources(cpu_cores=Decimal(8), memory_bytes=16 * GB),
    )
    assert refused(spec, *offers).relaxations == ()
    assert len(set(tried)) == 1 + relaxations.TRIED_MAX, "the one that breaks two bounds, and so many of the others"


def test_what_is_full_now_is_said_to_start_when_it_is_free() -> None:
    made = refused(bounded(capacity_types=(CapacityType.SPOT,)), replace(PAID, availability=Availability.FULL))
    assert made.problems[0].fix.endswith("$3.20/h, starts when it is free again")
    assert not made.relaxations[0].now


def test_a_deadline_before_anything_could_start() -> None:
    [problem] = refused(bounded(deadline_ms=NOW_MS + 30_000), PAID).problems
    assert (problem.code, problem.field) == ("deadline_too_soon", "constraints.deadline")
    assert "in 30.0 s" in problem.what
    assert "1m 00s to start" in problem.what
    assert problem.fix.startswith("set the deadline to 20")


def test_allowed_regions_outside_the_allowed_jurisdiction() -> None:
    spec = bounded(regions=Selection(allowed=("virginia",)), jurisdictions=("EU",))
    virginia = replace(OFFER, id="us", region="virginia", jurisdiction="US")
    frankfurt = replace(OFFER, id="eu", region="frankfurt", jurisdiction="EU")
    made = refused(spec, virginia, frankfurt)
    [problem] = made.problems
    assert (problem.code, problem.field) == ("region_outside_jurisdiction", "constraints.regions")
    assert "allow jurisdiction US" in problem.fix
    assert "allow region frankfurt" in problem.fix


def test_once_and_only_what_may_be_taken_back() -> None:
    [problem] = refused(replace(SPEC, repeat=Repeat.AT_MOST_ONCE), SPOT).problems
    assert (problem.code, problem.field) == ("only_preemptible", "repeat")
    assert problem.fix.startswith("declare repeat: safe, if the program may run more than once")
    chosen = replace(bounded(providers=Selection(allowed=("cheap",))), repeat=Repeat.AT_MOST_ONCE)
    [problem] = refused(chosen, replace(SPOT, provider="cheap"), PAID).problems
    assert problem.code == "only_preemptible"
    assert "allow provider somewhere" in problem.fix


def test_other_pairs_that_no_offer_meets_are_named() -> None:
    spec = replace(GPU_SPEC, resources=replace(GPU_SPEC.resources, gpu_models=("L4",), gpu_features=("nvlink",)))
    joined = replace(
        GPU_OFFER,
        id="h",
        gpu=Gpu(model="H100", count=8, memory_bytes=80 * GB, features=("nvlink",), compute_capability="9.0"),
    )
    [problem] = refused(spec, GPU_OFFER, joined).problems
    assert problem.code == "bounds_never_meet"
    assert "allow GPU model H100" in problem.fix
    assert "do without nvlink" in problem.fix


def test_a_model_that_is_too_large_for_one_gpu_is_split() -> None:
    hint = ModelHint(id="meta-llama/Llama-3.1-70B", task=ModelUse.INFERENCE)
    spec = replace(GPU_SPEC, model=hint)
    large = replace(GPU_OFFER, gpu=Gpu(model="A100", count=8, memory_bytes=80 * GB))
    made = refused(spec, large)
    assert "split" in made.problems[0].fix
    assert made.relaxations[0].spec.resources.gpu_count > 1


def test_what_is_only_listed_is_a_way_out_of_its_own() -> None:
    listed = replace(SPOT, id="listed", connected=False, price_source="prices.csv")
    made = refused(bounded(cost_usd=Decimal("0.5")), PAID, listed=(listed,))
    assert [way.offer.connected for way in made.relaxations] == [True, True, False, False]


def test_nothing_helps_against_a_runtime_that_nobody_offers() -> None:
    spec = replace(SPEC, runtime=Runtime(kind=RuntimeKind.CONTAINER, image="i"))
    made = refused(spec, OFFER)
    assert made.relaxations == ()
    assert made.problems[0].fix


def test_a_deadline_that_equal_workloads_did_not_meet_is_a_doubt_and_no_refusal() -> None:
    usual = Interval(low=Decimal(3600), likely=Decimal(4000), high=Decimal(5000), reason="7 equal workloads")
    spec = bounded(deadline_ms=NOW_MS + HOUR_MS // 2)
    asked = Asked(spec=spec, demand=Demand(usual_s=usual), now_ms=NOW_MS)
    [doubt] = doubts(asked)
    assert doubt.code == "deadline_unlikely"
    assert doubt.why == "7 equal workloads"
    assert doubts(replace(asked, spec=bounded(deadline_ms=NOW_MS + 2 * HOUR_MS))) == ()
    assert refuse(asked, OfferTable.of([OFFER]), NOTHING, size) == ACCEPTED


@pytest.mark.parametrize(
    "check", [check.name for check in NEVER_FILTERS if check.name not in ("connected", "runtime", "quote_spent")]
)
def test_every_bound_can_be_changed(check: str) -> None:
    assert check in CHANGERS
    assert check in NOUNS or check in ("cost_cap", "deadline")
