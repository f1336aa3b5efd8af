"""From a demand and a snapshot of offers to a plan: ranked offers, and every dropped one with its first reason."""

import hashlib
from collections.abc import Sequence

from placet.domain.offers import Drop, Fate, Offer, Plan, Ranked, Verdict
from placet.domain.problems import Problem
from placet.stages.filters import (
    ALL_FILTERS,
    FILTER_FIELDS,
    NEVER_FILTERS,
    Asked,
    all_failures,
    first_failure,
)
from placet.stages.scores import first_group, score

RANKED_MAX = 20


def place(asked: Asked, offers: Sequence[Offer], *, seed: str) -> Plan:
    """The plan for one workload. ``seed`` (its id) settles ties, so that the same record gives the same plan."""
    ranked: list[tuple[tuple[int, object, str], Ranked]] = []
    drops: list[Drop] = []
    for offer in offers:
        verdict = first_failure(ALL_FILTERS, asked, offer)
        if verdict is not None:
            drops.append(Drop(offer_id=offer.id, verdict=verdict))
            continue
        points = score(asked.spec, asked.demand, offer)
        parts = tuple((name, format(value.normalize(), "f")) for name, value in points.parts)
        place_in_line = (first_group(asked.spec, offer), points.total, _tie_break(seed, offer.id))
        ranked.append((place_in_line, Ranked(offer=offer, cost_usd=points.cost_usd, score=points.total, parts=parts)))
    ranked.sort(key=lambda entry: entry[0])
    best = tuple(entry for _, entry in ranked[:RANKED_MAX])
    return Plan(ranked=best, drops=tuple(drops), fate=_fate(bool(best), drops), reason=_reason(bool(best), drops))


def _fate(fits: bool, drops: Sequence[Drop]) -> Fate:
    if fits:
        return Fate.FITS
    return Fate.NOT_NOW if any(drop.verdict.fate is Fate.NOT_NOW for drop in drops) else Fate.NEVER


def _reason(fits: bool, drops: Sequence[Drop]) -> str:
    if fits:
        return ""
    waiting = [drop for drop in drops if drop.verdict.fate is Fate.NOT_NOW]
    chosen = waiting or list(drops)
    if not chosen:
        return "no offers are known"
    first = chosen[0]
    more = f" (and {len(chosen) - 1} more)" if len(chosen) > 1 else ""
    return f"{first.offer_id}: {first.verdict.reason}{more}"


def _tie_break(seed: str, offer_id: str) -> str:
    return hashlib.sha256(f"{seed}/{offer_id}".encode()).hexdigest()


def refusals(asked: Asked, offers: Sequence[Offer]) -> tuple[Problem, ...]:
    """Why no offer can ever fit, told by the offer that misses least: one problem for each bound it breaks."""
    if not offers:
        return (
            Problem(
                code="no_feasible_offer",
                field="",
                what="no provider offers anything",
                why="no provider is configured, or none could be reached",
                fix="`placet doctor` says which providers are missing what",
            ),
        )
    misses = [(all_failures(NEVER_FILTERS, asked, offer), offer) for offer in offers]
    nearest, offer = min(misses, key=lambda miss: (len(miss[0]), miss[1].id))
    return tuple(_problem(verdict, offer, len(offers)) for verdict in nearest)


def _problem(verdict: Verdict, offer: Offer, count: int) -> Problem:
    field = FILTER_FIELDS[verdict.filter]
    return Problem(
        code="no_feasible_offer",
        field=field,
        what=f"none of {count} offers fits; the nearest, {offer.id}, {verdict.reason}",
        why=f"{field} is a strict bound and is never relaxed silently",
        fix=f"relax {field}, or add a provider that meets it (`placet offers` lists what exists)",
    )
