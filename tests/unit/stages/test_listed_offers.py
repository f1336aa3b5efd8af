"""What is only listed can be compared with and never dispatched to; own capacity comes first where a spec says so."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate, Plan
from placet.domain.spec import Accelerator, CapacityType, Constraints, Resources, Spec
from placet.stages.filters import Asked
from placet.stages.placement import place, refusals
from placet.stages.sizing import size
from tests.support.values import GPU_OFFER, NOW_MS, OFFER, SPEC

LISTED = replace(GPU_OFFER, id="listed", connected=False, price_source="prices.csv", price_usd_per_hour=Decimal("0.10"))
TABLE = OfferTable.of([OFFER, GPU_OFFER, LISTED])
GPU_SPEC = replace(SPEC, resources=Resources(accelerator=Accelerator.GPU, gpu_count=1))


def asked(spec: Spec, *, hypothetical: bool = False) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS, hypothetical=hypothetical)


def chosen(plan: Plan) -> list[str]:
    return [ranked.offer.id for ranked in plan.ranked]


def test_what_is_only_listed_is_never_chosen_however_cheap() -> None:
    plan = place(asked(GPU_SPEC), TABLE, seed="s")
    assert chosen(plan) == ["large"]
    assert dict(plan.drop_counts)["connected"] == 1
    alone = place(asked(GPU_SPEC), OfferTable.of([LISTED]), seed="s")
    assert (alone.fate, chosen(alone)) == (Fate.NEVER, [])
    assert alone.drops[0].verdict.reason == "is only listed in prices.csv; no adapter here offers it"


def test_it_is_dropped_for_being_unconnected_only_when_it_would_fit() -> None:
    plan = place(asked(replace(SPEC, resources=Resources(accelerator=Accelerator.GPU, gpu_count=8))), TABLE, seed="s")
    assert dict(plan.drop_counts) == {"gpu_count": 3}


def test_for_comparison_it_ranks_with_the_others_and_stays_marked() -> None:
    plan = place(asked(GPU_SPEC, hypothetical=True), TABLE, seed="s")
    assert [(ranked.offer.id, ranked.offer.connected) for ranked in plan.ranked] == [("listed", False), ("large", True)]


def test_a_refusal_does_not_ask_to_relax_what_is_no_bound_of_the_spec() -> None:
    [problem] = refusals(asked(GPU_SPEC), OfferTable.of([LISTED]))
    assert "only listed" in problem.what
    assert "connect" in problem.fix


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        ({"gpu_models": ("H100",)}, ["h100"]),
        ({"gpu_models": ("NVIDIA A100-SXM4-80GB",)}, ["a100-80", "a100-nvml"]),
        ({"gpu_models": ("A100",)}, ["a100-40", "a100-80", "a100-nvml", "a100-bare"]),
        ({"gpu_models": ("a100-80gb", "L4")}, ["a100-80", "a100-nvml", "l4"]),
        ({"gpu_families": ("ampere",)}, ["a100-40", "a100-80", "a100-nvml", "a100-bare"]),
        ({"gpu_families": ("hopper", "ada")}, ["h100", "l4"]),
        ({"gpu_models": ("toaster",)}, []),
    ],
)
def test_a_model_is_the_same_however_it_is_written(needs: dict[str, tuple[str, ...]], fits: list[str]) -> None:
    models = {
        "h100": "H100-80GB", "a100-40": "A100-40GB", "a100-80": "A100-80GB", "a100-nvml": "NVIDIA A100-SXM4-80GB",
        "a100-bare": "A100", "l4": "L4",
    }  # fmt: skip
    assert GPU_OFFER.gpu is not None
    offers = [replace(GPU_OFFER, id=name, gpu=replace(GPU_OFFER.gpu, model=model)) for name, model in models.items()]
    spec = replace(SPEC, resources=Resources(accelerator=Accelerator.GPU, gpu_count=1, **needs))
    assert sorted(chosen(place(asked(spec), OfferTable.of(offers), seed="s"))) == sorted(fits)


def test_own_capacity_comes_first_where_the_spec_says_so() -> None:
    own = replace(OFFER, id="own", capacity_type=CapacityType.RESERVED, price_usd_per_hour=Decimal("9"))
    table = OfferTable.of([own, replace(OFFER, price_usd_per_hour=Decimal("0.01"))])
    assert chosen(place(asked(SPEC), table, seed="s"))[0] == "small"
    first = replace(SPEC, constraints=Constraints(reserved_first=True))
    assert chosen(place(asked(first), table, seed="s"))[0] == "own"
