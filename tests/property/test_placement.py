"""Laws of every plan, over generated offers and specs."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Fate, Free, Offer
from placet.domain.spec import CapacityType, Constraints, Objective, Repeat, Resources, Selection, Spec
from placet.stages.filters import Asked
from placet.stages.placement import all_failures, place, why_not
from placet.stages.sizing import size
from tests.support.values import NOW_MS, OFFER, SPEC

names = st.sampled_from(["a", "b", "c"])
money = st.decimals(0, 10, places=2)
offers = st.lists(
    st.builds(
        lambda number, provider, price, cores, slots, kind, full, connected: replace(
            OFFER,
            id=f"offer{number}",
            provider=provider,
            price_usd_per_hour=price,
            cpu_cores=Decimal(cores),
            free=Free(slots=slots),
            capacity_type=kind,
            availability=Availability.FULL if full else Availability.UNKNOWN,
            connected=connected,
            price_source="" if connected else "prices.csv",
        ),
        st.integers(0, 10**6),
        names,
        money,
        st.integers(1, 16),
        st.integers(0, 2),
        st.sampled_from(CapacityType),
        st.booleans(),
        st.sampled_from([True, True, False]),
    ),
    max_size=8,
    unique_by=lambda offer: offer.id,
)
specs = st.builds(
    lambda cores, cap, allowed, objective, repeat: replace(
        SPEC,
        resources=Resources(cpu_cores=None if cores is None else Decimal(cores)),
        constraints=Constraints(
            cost_usd=cap, runtime_s=Decimal(600), providers=Selection(allowed=tuple(sorted(allowed)))
        ),
        objective=objective,
        repeat=repeat,
    ),
    st.none() | st.integers(1, 16),
    st.none() | money,
    st.sets(names, max_size=2),
    st.sampled_from(Objective),
    st.sampled_from(Repeat),
)


def asked(spec: Spec) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS)


@given(specs, offers)
def test_no_ranked_offer_breaks_a_strict_bound_and_every_drop_has_one_reason(spec: Spec, known: list[Offer]) -> None:
    plan = place(asked(spec), OfferTable.of(known), seed="s")
    for ranked in plan.ranked:
        assert all_failures(asked(spec), OfferTable.of([ranked.offer]), 0) == ()
        assert ranked.offer.connected
    drops = why_not(asked(spec), OfferTable.of(known))
    fates = sorted([ranked.offer.id for ranked in plan.ranked] + [drop.offer_id for drop in drops])
    assert fates == sorted(offer.id for offer in known)
    assert sum(count for _, count in plan.drop_counts) == len(drops)
    assert (plan.fate is Fate.FITS) == bool(plan.ranked)
    assert all(drop.verdict.reason for drop in plan.drops)


@given(specs, offers)
def test_adding_an_offer_never_makes_the_best_worse(spec: Spec, known: list[Offer]) -> None:
    before = place(asked(spec), OfferTable.of(known[:-1]), seed="s").ranked
    after = place(asked(spec), OfferTable.of(known), seed="s").ranked
    if before:
        assert after[0].score <= before[0].score


@given(specs, offers)
def test_dropping_a_bound_never_makes_the_best_worse(spec: Spec, known: list[Offer]) -> None:
    bounded = place(asked(spec), OfferTable.of(known), seed="s").ranked
    free = replace(spec, constraints=replace(spec.constraints, providers=Selection(), cost_usd=None))
    relaxed = place(asked(free), OfferTable.of(known), seed="s").ranked
    if bounded:
        assert relaxed[0].score <= bounded[0].score
