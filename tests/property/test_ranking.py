"""Leaving out what cannot win changes nothing: the ranking equals that of a plain evaluation of every offer."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domain.experience import Evidence, Experience
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.spec import CapacityType, Constraints, Objective, Repeat, Selection, Spec
from placet.stages import groups, ranking
from placet.stages.filters import Asked
from placet.stages.learning import learn
from placet.stages.scores import score
from placet.stages.sizing import size
from tests.support.values import GPU_OFFER, NOW_MS, SPEC

RANKED = 2
HOUR_MS = 3_600_000

names = st.sampled_from(["a", "b", "c/d"])


def some_offers(rng: np.random.Generator) -> list[Offer]:
    """A few lanes with many offers each, at prices so close that beliefs and wishes decide."""
    kinds, providers = rng.choice([*CapacityType], 2), rng.choice(["a", "b", "c/d"], 2)
    startups = rng.choice(["0", "0.05", "5", "180", "200", "3600"], 2)
    prices = rng.choice([1, 2, 10]) + rng.integers(0, 20, 40) / 20
    return [
        replace(
            GPU_OFFER,
            id=f"offer{rng.integers(10**6)}-{number}",
            provider=str(rng.choice(providers)),
            region=str(rng.choice(["", "r1", "r2"])),
            price_usd_per_hour=Decimal(str(price)) if rng.random() < 0.95 else Decimal(0),
            startup_s=Decimal(str(rng.choice(startups))),
            minimum_charge_usd=Decimal(int(rng.random() < 0.1)),
            capacity_type=CapacityType(rng.choice(kinds)),
            gpu=GPU_OFFER.gpu if rng.random() < 0.8 else None,
        )
        for number, price in enumerate(prices)
    ]


def some_attempts(rng: np.random.Generator, known: list[Offer]) -> Experience:
    """What attempts on some of the offers, and on some that are gone, have taught."""
    evidence = []
    for offer in rng.choice(np.array(known, dtype=object), rng.integers(0, 8)):
        started = rng.random() < 0.7
        evidence.append(
            Evidence(
                offer_id=offer.id if rng.random() < 0.9 else "gone",
                provider=offer.provider,
                region=offer.region,
                gpu_model=offer.gpu.model if offer.gpu else "",
                capacity_type=str(offer.capacity_type),
                at_ms=NOW_MS - HOUR_MS * int(rng.integers(0, 400)),
                started=started,
                startup_s=float(rng.lognormal(3, 3)) if started else None,
                hours=float(rng.exponential(20)) if started else 0.0,
                taken_away=started and rng.random() < 0.3,
            )
        )
    return learn(Experience(), evidence)


specs = st.builds(
    lambda runtime, objective, repeat, preferred, latency, reserved: replace(
        SPEC,
        constraints=Constraints(
            runtime_s=runtime,
            providers=Selection(preferred=tuple(sorted(preferred))),
            startup_latency_s=latency,
            reserved_first=reserved,
        ),
        objective=objective,
        repeat=repeat,
    ),
    st.none() | st.sampled_from([Decimal(1), Decimal(600), Decimal(100_000)]),
    st.sampled_from(Objective),
    st.sampled_from(Repeat),
    st.sets(names, max_size=2),
    st.none() | st.just(Decimal(10)),
    st.booleans(),
)


@settings(max_examples=300)
@given(specs, st.integers(0, 2**32), st.sampled_from([0.3, 0.9, 1.0]), st.sampled_from([0, 2**20]))
def test_the_ranking_is_that_of_a_plain_evaluation(spec: Spec, number: int, share: float, listed_max: int) -> None:
    rng, seed = np.random.default_rng(number), str(number)
    known = some_offers(rng)
    table = OfferTable.of(known)
    fits = rng.random(len(known)) < share
    fits[0] = True
    asked = Asked(spec=spec, demand=size(spec), now_ms=NOW_MS, experience=some_attempts(rng, known))
    with pytest.MonkeyPatch.context() as patched:
        # Small enough that lanes are really left early.
        patched.setattr(ranking, "SCORED_AT_ONCE", 0)
        patched.setattr(ranking, "RANKED_MAX", RANKED)
        patched.setattr(ranking, "FIRST_STEP_TIMES", 0)
        patched.setattr(ranking, "STEP_GROWS", 1)
        patched.setattr(ranking, "MANY_AT_ONCE", RANKED)
        patched.setattr(groups, "LISTED_MAX", listed_max)
        best = ranking.best_of(asked, table, fits, int(fits.sum()), seed)
    ids = [best.offers.offer(row).id for row in range(len(best.offers))]

    rows = np.flatnonzero(fits)
    if spec.constraints.reserved_first:
        reserved = [row for row in rows if known[row].capacity_type is CapacityType.RESERVED]
        rows = np.array(reserved) if reserved else rows
    totals = score(asked, table.take(rows)).total
    ties = ranking.tie_breaks(table, rows, seed)
    order = sorted(range(len(rows)), key=lambda at: (totals[at], ties[at]))[:RANKED]
    assert ids == [known[rows[at]].id for at in order]
    assert best.scores.total.tolist() == pytest.approx(totals[order].tolist(), rel=1e-12)
