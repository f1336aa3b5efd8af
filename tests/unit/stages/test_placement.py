"""Filters, scores and plans: each bound drops what it must, each drop has a reason, each choice can be explained."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Fate, Free, Offer, Plan
from placet.domain.spec import (
    Accelerator,
    CapacityType,
    Constraints,
    Objective,
    Repeat,
    Resources,
    Runtime,
    RuntimeKind,
    Selection,
    Spec,
)
from placet.stages import filters
from placet.stages.filters import Asked, version_key
from placet.stages.placement import place, refusals
from placet.stages.sizing import size
from tests.support.values import GPU_OFFER, NOW_MS, OFFER, SPEC

GPU_24 = Resources(accelerator=Accelerator.GPU, gpu_count=1, gpu_memory_bytes=24 * 10**9)


def asked(spec: Spec) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS)


def plan(spec: Spec, *offers: Offer) -> Plan:
    return place(asked(spec), OfferTable.of(offers or (OFFER, GPU_OFFER)), seed="seed")


def test_a_cpu_workload_prefers_the_offer_without_a_gpu() -> None:
    assert [ranked.offer.id for ranked in plan(SPEC).ranked] == ["small", "large"]


def test_a_gpu_workload_gets_a_gpu_and_the_drop_says_why() -> None:
    made = plan(replace(SPEC, resources=GPU_24))
    assert [ranked.offer.id for ranked in made.ranked] == ["large"]
    assert made.drops[0].verdict.reason == "has 0 GPU, asked for 1"
    assert made.drop_counts == (("gpu_count", 1),)


def with_bounds(**bounds: object) -> Spec:
    return replace(SPEC, constraints=Constraints(**bounds))  # type: ignore[arg-type]  # fields of Constraints by name


def with_needs(**needs: object) -> Spec:
    return replace(SPEC, resources=replace(GPU_24, **needs))  # type: ignore[arg-type]  # fields of Resources by name


@pytest.mark.parametrize(
    ("spec", "offer", "filter_name"),
    [
        (with_bounds(providers=Selection(denied=("somewhere",))), OFFER, "provider"),
        (with_bounds(providers=Selection(allowed=("elsewhere",))), OFFER, "provider"),
        (with_bounds(regions=Selection(denied=("here",))), OFFER, "region"),
        (with_bounds(jurisdictions=("EU",)), OFFER, "jurisdiction"),
        (with_bounds(compliance=("hipaa",)), OFFER, "compliance"),
        (with_bounds(capacity_types=(CapacityType.SPOT,)), OFFER, "capacity_type"),
        (with_bounds(cost_usd=Decimal("0.5"), runtime_s=Decimal(3600)), GPU_OFFER, "cost_cap"),
        (with_bounds(deadline_ms=NOW_MS + 1000), GPU_OFFER, "deadline"),
        (replace(SPEC, repeat=Repeat.AT_MOST_ONCE), replace(OFFER, preemptible=True), "repeat"),
        (replace(SPEC, repeat=Repeat.AT_MOST_ONCE), replace(OFFER, may_rerun=True), "repeat"),
        (replace(SPEC, runtime=Runtime(kind=RuntimeKind.CONTAINER, image="i")), OFFER, "runtime"),
        (replace(SPEC, resources=Resources(cpu_cores=Decimal(5))), OFFER, "cpu"),
        (replace(SPEC, resources=Resources(memory_bytes=17 * 10**9)), OFFER, "memory"),
        (replace(SPEC, resources=Resources(disk_bytes=2)), replace(OFFER, disk_bytes=1), "disk"),
        (replace(SPEC, resources=Resources(nodes=2)), OFFER, "nodes"),
        (with_needs(gpu_count=3), GPU_OFFER, "gpu_count"),
        (with_needs(gpu_models=("H100",)), GPU_OFFER, "gpu_model"),
        (with_needs(gpu_families=("A100",)), GPU_OFFER, "gpu_model"),
        (with_needs(gpu_memory_bytes=25 * 10**9), GPU_OFFER, "gpu_memory"),
        (with_needs(gpu_features=("nvlink",)), GPU_OFFER, "gpu_features"),
        (with_needs(compute_capability="9.0"), GPU_OFFER, "compute_capability"),
        (with_needs(driver_version="550"), GPU_OFFER, "driver"),
        (with_needs(cuda_version="12.4"), GPU_OFFER, "cuda"),
    ],
)
def test_each_strict_bound_drops_for_ever(spec: Spec, offer: Offer, filter_name: str) -> None:
    made = plan(spec, offer)
    assert made.fate is Fate.NEVER
    assert [drop.verdict.filter for drop in made.drops] == [filter_name]
    problems = refusals(asked(spec), OfferTable.of([offer]))
    assert problems
    assert all(problem.code == "no_feasible_offer" and problem.field and problem.fix for problem in problems)


@pytest.mark.parametrize(
    "offer",
    [
        replace(OFFER, free=Free(slots=0)),
        replace(OFFER, availability=Availability.FULL),
        replace(OFFER, free=Free(cpu_cores=Decimal(1))),
        replace(OFFER, free=Free(memory_bytes=1)),
    ],
)
def test_what_is_taken_now_may_be_waited_for(offer: Offer) -> None:
    spec = replace(SPEC, resources=Resources(cpu_cores=Decimal(2), memory_bytes=2))
    made = plan(spec, offer)
    assert made.fate is Fate.NOT_NOW
    assert offer.id in made.reason


def test_filters_judge_many_offers_as_they_judge_few(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [
        replace(GPU_OFFER, id=f"offer{number}", free=free, gpu=replace(GPU_OFFER.gpu, count=count))  # type: ignore[type-var]  # it has GPUs
        for number, (free, count) in enumerate(
            (free, count)
            for free in (Free(), Free(slots=0), Free(slots=1, gpus=1), Free(gpus=4, cpu_cores=Decimal(1)))
            for count in (1, 2, 4)
        )
    ]
    unknown = [replace(offer, free=Free()) for offer in offers]
    for spec in (with_needs(gpu_count=2), with_needs(cpu_cores=Decimal(2), memory_bytes=2)):
        for some in (offers, unknown):
            few = plan(spec, *some)
            with monkeypatch.context() as patched:
                patched.setattr(filters, "MANY_ROWS", 0)
                assert plan(spec, *some) == few
                busy = OfferTable.of(unknown).with_free({"free_slots": np.zeros(len(unknown))})
                assert place(asked(spec), busy, seed="s").fate is Fate.NOT_NOW


@pytest.mark.parametrize("taken", [False, True], ids=["all", "some of a table"])
def test_amounts_are_judged_alike_by_value_and_by_rank(monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    offers = [
        replace(
            OFFER, id=f"{disk} {memory} {startup}", disk_bytes=disk, memory_bytes=memory, startup_s=Decimal(startup)
        )
        for disk in (None, 5, 9)
        for memory in (3, 4)
        for startup in (1, 60)
    ]
    table = OfferTable.of([OFFER, *offers])
    if taken:
        table = table.take(np.arange(1, len(table)))
    for disk in (None, 1, 5, 6, 9, 10):
        for memory in (1, 3, 4, 5):
            spec = replace(
                with_needs(disk_bytes=disk, memory_bytes=memory),
                constraints=Constraints(deadline_ms=NOW_MS + 30_000),
            )
            few = place(asked(spec), table, seed="s")
            with monkeypatch.context() as patched:
                patched.setattr(filters, "MANY_ROWS", 0)
                assert place(asked(spec), table, seed="s") == few


def test_an_offer_that_just_failed_is_left_alone() -> None:
    spec = replace(SPEC)
    made = place(replace(asked(spec), excluded=("small",)), OfferTable.of([OFFER, GPU_OFFER]), seed="s")
    assert [ranked.offer.id for ranked in made.ranked] == ["large"]


def test_objectives_choose_differently() -> None:
    cheap = replace(OFFER, id="cheap", price_usd_per_hour=Decimal("0.10"), startup_s=Decimal(600))
    quick = replace(OFFER, id="quick", price_usd_per_hour=Decimal(5), startup_s=Decimal(1))
    first = {
        objective: plan(replace(SPEC, objective=objective), cheap, quick).ranked[0].offer.id for objective in Objective
    }
    assert first == {
        Objective.COST: "cheap",
        Objective.SPEED: "quick",
        Objective.BALANCED: "quick",
        Objective.RELIABILITY: "cheap",
    }


def test_reserved_capacity_comes_first_when_asked() -> None:
    owned = replace(OFFER, id="owned", capacity_type=CapacityType.RESERVED, price_usd_per_hour=Decimal(9))
    assert plan(with_bounds(reserved_first=True), OFFER, owned).ranked[0].offer.id == "owned"
    assert plan(SPEC, OFFER, owned).ranked[0].offer.id == "small"


def test_a_preference_decides_between_equals_and_never_excludes() -> None:
    twin = replace(OFFER, id="twin", region="there")
    made = plan(with_bounds(regions=Selection(preferred=("there",))), OFFER, twin)
    assert [ranked.offer.id for ranked in made.ranked] == ["twin", "small"]


def test_the_same_seed_gives_the_same_plan() -> None:
    twins = OfferTable.of([replace(OFFER, id=f"twin{index}") for index in range(10)])
    assert place(asked(SPEC), twins, seed="a") == place(asked(SPEC), twins, seed="a")
    orders = {tuple(r.offer.id for r in place(asked(SPEC), twins, seed=str(seed)).ranked) for seed in range(5)}
    assert len(orders) > 1


def test_versions_compare_as_numbers() -> None:
    assert version_key("12.10") > version_key("12.9")


def test_without_offers_the_refusal_points_at_the_providers() -> None:
    assert "doctor" in refusals(asked(SPEC), OfferTable.of([]))[0].fix


def test_a_begun_hour_counts_as_a_whole_where_hours_are_billed() -> None:
    by_hour = replace(OFFER, id="by-hour", price_usd_per_hour=Decimal(1), billing_quantum_s=3600)
    by_second = replace(OFFER, id="by-second", price_usd_per_hour=Decimal(2))
    minute = replace(SPEC, constraints=Constraints(runtime_s=Decimal(60)))
    asked = Asked(spec=minute, demand=size(minute), now_ms=NOW_MS)
    first, second = place(asked, OfferTable.of([by_hour, by_second]), seed="").ranked
    assert (first.offer.id, second.offer.id) == ("by-second", "by-hour")
    assert 1 <= second.cost_usd.likely <= second.cost_usd.high
    assert first.cost_usd.likely < Decimal("0.04")
