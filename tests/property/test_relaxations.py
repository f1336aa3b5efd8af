"""Laws of refusals: what could run is never refused, and what is proposed does help, at the price that is said."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Gpu, Offer
from placet.domain.spec import Accelerator, CapacityType, Constraints, Repeat, Resources, Selection, Spec
from placet.stages.admission import admit
from placet.stages.changing import CHANGERS
from placet.stages.filters import Asked
from placet.stages.placement import feasible, place
from placet.stages.refusal import refuse
from placet.stages.relaxations import FIXED, TOLD_MAX, broken, relaxations
from placet.stages.sizing import size
from tests.support.values import NOW_MS, OFFER, SPEC

names = st.sampled_from(["a", "b", "c"])
places = st.sampled_from(["", "EU", "US"])
gpus = st.none() | st.builds(
    lambda model, count, memory, features, capability: Gpu(
        model=model,
        count=count,
        memory_bytes=memory * 10**9,
        features=tuple(sorted(features)),
        compute_capability=capability,
    ),
    st.sampled_from(["L4", "A100", "H100"]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([24, 40, 80]),
    st.sets(st.sampled_from(["bf16", "fp8"])),
    st.sampled_from([None, "8.0", "9.0"]),
)
offers = st.lists(
    st.builds(
        lambda number, provider, region, jurisdiction, gpu, kind, price, cores, startup, full, again: replace(
            OFFER,
            id=f"offer{number}",
            provider=provider,
            region=region,
            jurisdiction=jurisdiction,
            compliance=("hipaa",) if number % 3 == 0 else (),
            gpu=gpu,
            capacity_type=kind,
            price_usd_per_hour=price,
            cpu_cores=Decimal(cores),
            startup_s=Decimal(startup),
            availability=Availability.FULL if full else Availability.FREE,
            may_rerun=again,
            runtimes=("container",) if number % 5 == 0 else ("process", "container"),
        ),
        st.integers(0, 10**6),
        names,
        names,
        places,
        gpus,
        st.sampled_from(CapacityType),
        st.decimals(0, 10, places=3),
        st.integers(1, 16),
        st.integers(0, 600),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda offer: offer.id,
)
bounds = st.builds(
    lambda cap, deadline, allowed, denied, regions, jurisdictions, tags, kinds: Constraints(
        runtime_s=Decimal(1800),
        cost_usd=cap,
        deadline_ms=None if deadline is None else NOW_MS + deadline * 1000,
        providers=Selection(allowed=tuple(sorted(allowed)), denied=tuple(sorted(denied - allowed))),
        regions=Selection(allowed=tuple(sorted(regions))),
        jurisdictions=tuple(sorted(jurisdictions)),
        compliance=tuple(tags),
        capacity_types=tuple(sorted(kinds)),
    ),
    st.none() | st.decimals(0, 3, places=2),
    st.none() | st.integers(1, 700),
    st.sets(names, max_size=2),
    st.sets(names, max_size=1),
    st.sets(names, max_size=2),
    st.sets(st.sampled_from(["EU", "US"]), max_size=1),
    st.lists(st.just("hipaa"), max_size=1),
    st.sets(st.sampled_from(CapacityType), max_size=2),
)
needs = st.builds(
    lambda cores, count, memory, models, features, capability: Resources(
        accelerator=Accelerator.GPU if count else Accelerator.NONE,
        gpu_count=count,
        gpu_memory_bytes=memory * 10**9 if count and memory else None,
        gpu_models=tuple(sorted(models)) if count else (),
        gpu_features=tuple(sorted(features)) if count else (),
        compute_capability=capability if count else None,
        cpu_cores=None if cores is None else Decimal(cores),
    ),
    st.none() | st.integers(1, 20),
    st.sampled_from([0, 1, 4]),
    st.none() | st.sampled_from([24, 80, 141]),
    st.sets(st.sampled_from(["L4", "H100"]), max_size=1),
    st.sets(st.sampled_from(["bf16", "fp8"]), max_size=1),
    st.sampled_from([None, "9.0"]),
)
specs = st.builds(
    lambda constraints, resources, repeat: replace(SPEC, constraints=constraints, resources=resources, repeat=repeat),
    bounds,
    needs,
    st.sampled_from(Repeat),
)
NOTHING = OfferTable.of([])


def asked(spec: Spec) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS)


@given(specs, offers)
def test_what_could_run_is_never_refused_and_what_is_refused_could_not(spec: Spec, known: list[Offer]) -> None:
    table = OfferTable.of(known)
    refused = refuse(asked(spec), table, NOTHING, size)
    assert bool(refused.problems) is not feasible(asked(spec), table)
    if not refused.problems:
        assert refused.relaxations == ()
    assert all(problem.code and problem.what and problem.why and problem.fix for problem in refused.problems)


@given(specs, offers)
def test_each_way_out_helps_at_the_price_that_is_said(spec: Spec, known: list[Offer]) -> None:
    table = OfferTable.of(known)
    ways = relaxations(asked(spec), table, size)
    assert len(ways) <= TOLD_MAX
    for way in ways:
        assert 1 <= len(way.changes) <= len(CHANGERS)
        assert way.spec != spec
        again = asked(way.spec)
        assert feasible(again, table)
        plan = place(again, table, seed="")
        assert way.now is bool(plan.ranked)
        if plan.ranked:
            assert (plan.ranked[0].offer, plan.ranked[0].cost_usd) == (way.offer, way.cost_usd)
            assert way.spec.constraints.cost_usd is None or way.cost_usd.low <= way.spec.constraints.cost_usd


@given(specs, offers)
def test_a_pair_is_told_only_where_no_single_change_helps(spec: Spec, known: list[Offer]) -> None:
    table = OfferTable.of(known)
    ways = relaxations(asked(spec), table, size)
    if any(len(way.changes) == 2 for way in ways):
        marked = broken(asked(spec), table)
        assert all(len(way.changes) == 2 for way in ways)
        for way in ways:
            first, second = way.changes
            assert not marked.alone(first.filter).any() or not marked.alone(second.filter).any()


# Where a field of a change stands in a spec: the part, and its attribute.
PLACES = {
    "constraints.providers": ("constraints", "providers"),
    "constraints.regions": ("constraints", "regions"),
    "constraints.jurisdictions": ("constraints", "jurisdictions"),
    "constraints.compliance": ("constraints", "compliance"),
    "constraints.capacity_types": ("constraints", "capacity_types"),
    "constraints.maximum_estimated_cost": ("constraints", "cost_usd"),
    "constraints.maximum_runtime_seconds": ("constraints", "runtime_s"),
    "constraints.deadline": ("constraints", "deadline_ms"),
    "resources.gpu_count": ("resources", "gpu_count"),
    "resources.gpu_models": ("resources", "gpu_models"),
    "resources.minimum_gpu_memory_gb": ("resources", "gpu_memory_bytes"),
    "resources.gpu_features": ("resources", "gpu_features"),
    "resources.minimum_compute_capability": ("resources", "compute_capability"),
    "resources.cpu_cores": ("resources", "cpu_cores"),
}


def taken_back(spec: Spec, before: Spec, field: str) -> Spec:
    """The spec with what one change wrote as it was before."""
    if field == "repeat":
        return replace(spec, repeat=before.repeat)
    part, name = PLACES[field.removesuffix(".allowed").removesuffix(".denied")]
    return replace(spec, **{part: replace(getattr(spec, part), **{name: getattr(getattr(before, part), name)})})


def runs(spec: Spec, table: OfferTable) -> bool:
    return feasible(asked(spec), table) and not admit(spec, NOW_MS)


@given(specs, offers)
def test_no_change_of_a_way_out_can_be_left_out(spec: Spec, known: list[Offer]) -> None:
    table = OfferTable.of(known)
    for way in relaxations(asked(spec), table, size):
        assert runs(way.spec, table)
        for change in way.changes:
            assert not runs(taken_back(way.spec, spec, change.field), table)


@given(specs, offers)
def test_what_breaks_only_bounds_that_can_give_has_a_way_out(spec: Spec, known: list[Offer]) -> None:
    """Two changes were once the most; now as many are found as the nearest offer needs."""
    spec = replace(spec, repeat=Repeat.SAFE, resources=Resources(cpu_cores=spec.resources.cpu_cores))
    table = OfferTable.of(known)
    marked = broken(asked(spec), table)
    fewest = [kind.bit_count() for kind in marked.kinds if not kind & FIXED]
    ways = relaxations(asked(spec), table, size)
    assert bool(ways) is (bool(fewest) and not marked.feasible)
    for way in ways:
        assert len(way.changes) <= min(fewest)


BOUNDS = ("providers", "regions", "jurisdictions", "compliance", "capacity_types", "cost_usd", "deadline_ms")
NEEDS = ("gpu_memory_bytes", "gpu_models", "gpu_features", "compute_capability", "cpu_cores")


@given(specs, offers, st.sampled_from((*BOUNDS, *NEEDS)))
def test_dropping_any_bound_never_makes_the_best_worse(spec: Spec, known: list[Offer], name: str) -> None:
    if name in BOUNDS:
        free = replace(spec, constraints=replace(spec.constraints, **{name: getattr(Constraints(), name)}))
    else:
        free = replace(spec, resources=replace(spec.resources, **{name: getattr(Resources(), name)}))
    before = place(asked(spec), OfferTable.of(known), seed="s").ranked
    after = place(asked(free), OfferTable.of(known), seed="s").ranked
    if before:
        assert after[0].score <= before[0].score
