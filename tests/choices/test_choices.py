"""Specs as people write them, and what becomes of each on the demonstration catalogue: expected.yaml is the table.

Offers of a price list cannot be dispatched to; here they are compared as if they could be.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.adapters.catalog.files import demonstration
from placet.adapters.catalog.rows import listing_of
from placet.contract.parse import Parsed, parse
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate, Plan
from placet.domain.spec import Objective, Spec
from placet.stages import admission, placement
from placet.stages.filters import Asked
from placet.stages.listing import normalise
from placet.stages.refusal import refuse
from placet.stages.sizing import size
from tests.support.values import NOW_MS

HERE = Path(__file__).parent
SPECS = {path.stem: path for path in sorted((HERE / "specs").glob("*.yaml"))}
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "expected.yaml").read_text())
LEAST = 40


@cache
def table(*, own: bool) -> OfferTable:
    with (HERE / "own.csv").open(newline="") as file:
        rows = list(csv.DictReader(file)) if own else []
    listed = [listing_of(row, source="own", part="", line=line, observed_ms=NOW_MS) for line, row in enumerate(rows, 2)]
    normalised = normalise([*demonstration(), *listed])
    assert not [aside for aside in normalised.quarantined if aside.listing.source == "own"]
    return OfferTable.of(normalised.offers)


def read(name: str) -> Parsed | tuple[str, ...]:
    """The spec, or the fields of what reading and admission say."""
    parsed = parse(SPECS[name].read_bytes(), now_ms=NOW_MS, form="yaml")
    if not isinstance(parsed, Parsed):
        return tuple(problem.field for problem in parsed)
    refused = admission.admit(parsed.spec, NOW_MS)
    return tuple(problem.field for problem in refused) or parsed


def asked(spec: Spec) -> Asked:
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS, hypothetical=True)


def test_every_spec_is_in_the_table_and_there_are_enough() -> None:
    assert set(SPECS) == set(EXPECTED)
    assert len(SPECS) >= LEAST


@pytest.mark.parametrize("name", SPECS)
def test_what_becomes_of_it(name: str) -> None:
    expected, parsed = EXPECTED[name], read(name)
    if not isinstance(parsed, Parsed):
        assert list(parsed) == expected["mistakes"]
        return
    assert "mistakes" not in expected
    offers, request = table(own=expected.get("with") == "own"), asked(parsed.spec)
    plan = placement.place(request, offers, seed=name)
    if "refused" in expected:
        assert plan.fate is Fate.NEVER
        assert not placement.feasible(request, offers)
        assert [problem.field for problem in placement.refusals(request, offers)] == expected["refused"]
        check_ways_out(request, offers)
        return
    assert placement.feasible(request, offers)
    if "waits" in expected:
        assert plan.fate is Fate.NOT_NOW
        assert [drop.verdict.filter for drop in plan.drops] == [expected["waits"]]
        return
    assert plan.fate is Fate.FITS
    check_choice(plan, expected)
    if parsed.spec.objective is Objective.COST:
        check_nothing_alike_is_cheaper(plan, request, offers)


def check_ways_out(request: Asked, offers: OfferTable) -> None:
    """What is proposed in place of a refusal is chosen, at the price that is said, when it is asked for."""
    refused = refuse(request, offers, OfferTable.of([]), size)
    assert refused.problems
    assert refused.relaxations
    for way in refused.relaxations:
        assert way.spec.labels == request.spec.labels
        plan = placement.place(asked(way.spec), offers, seed="")
        assert plan.fate is (Fate.FITS if way.now else Fate.NOT_NOW)
        if way.now:
            assert plan.ranked[0].offer == way.offer


def check_choice(plan: Plan, expected: dict[str, Any]) -> None:
    best = plan.ranked[0]
    if "kind" in expected:
        assert str(best.offer.capacity_type) == expected["kind"]
    else:
        chosen = expected["chosen"]
        assert best.offer.id in (chosen if isinstance(chosen, list) else [chosen])
    if "cost" in expected:
        assert float(best.cost_usd.likely) <= expected["cost"]


def check_nothing_alike_is_cheaper(plan: Plan, request: Asked, offers: OfferTable) -> None:
    """Said without scores: of offers that are sold and start in the same way, the cheapest that fits is taken."""
    best = plan.ranked[0].offer
    dropped = {drop.offer_id for drop in placement.why_not(request, offers)}
    preferred = request.spec.constraints.regions.preferred
    for row in range(len(offers)):
        offer = offers.offer(row)
        alike = (offer.capacity_type, offer.startup_s) == (best.capacity_type, best.startup_s)
        plain = not preferred and (offer.gpu is None) == (best.gpu is None)
        if offer.id not in dropped and alike and plain:
            assert offer.price_usd_per_hour >= best.price_usd_per_hour, offer.id
