"""From a demand and a snapshot of offers to a plan: ranked offers, and every dropped one counted by its reason."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from placet.domain.offer_table import Bits, Numbers, OfferTable
from placet.domain.offers import Drop, Fate, Offer, Plan, Ranked, Verdict
from placet.domain.problems import Problem
from placet.stages.filters import ALL_FILTERS, NEVER_FILTERS, Asked, Filter
from placet.stages.scores import Scores, cost_interval, first_group, score

RANKED_MAX = 20
# A plan carries this many dropped offers with their reasons; ``why_not`` tells of all of them.
DROPS_SHOWN = 5


def place(asked: Asked, table: OfferTable, *, seed: str) -> Plan:
    """The plan for one workload. ``seed`` (its id) settles ties, so that the same record gives the same plan."""
    fits, first = _first_failures(asked, table)
    counts = np.bincount(first, minlength=len(ALL_FILTERS) + 1)
    ranked = _rank(asked, table, fits, seed) if counts[0] else ()
    fate = _fate(counts)
    shown = _shown_drops(asked, table, first, fate)
    return Plan(
        ranked=ranked,
        drops=shown,
        drop_counts=tuple(
            (check.name, int(count)) for check, count in zip(ALL_FILTERS, counts[1:], strict=True) if count
        ),
        fate=fate,
        reason="" if fate is Fate.FITS else _reason(shown, int(counts[1:].sum())),
    )


def _first_failures(asked: Asked, table: OfferTable) -> tuple[Bits, NDArray[np.intp]]:
    """Which offers fit, and for each offer 0 or one more than the index of the first filter that it fails."""
    alive = np.ones(len(table), dtype=np.bool_)
    first = np.zeros(len(table), dtype=np.intp)
    for index, check in enumerate(ALL_FILTERS):
        passed = check.passes(asked, table)
        if passed is None:
            continue
        dropped = alive & ~passed
        if dropped.any():
            first[dropped] = index + 1
            alive &= passed
    return alive, first


def _fate(counts: NDArray[np.intp]) -> Fate:
    if counts[0]:
        return Fate.FITS
    waits = counts[1 + len(NEVER_FILTERS) :].any()
    return Fate.NOT_NOW if waits else Fate.NEVER


def _rank(asked: Asked, table: OfferTable, fits: Bits, seed: str) -> tuple[Ranked, ...]:
    fitting = table if fits.all() else table.take(np.flatnonzero(fits))
    groups = first_group(asked, fitting)
    if groups is not None:
        fitting = fitting.take(np.flatnonzero(groups == groups.min()))
    scores = score(asked, fitting)
    best = _least(scores.total, _tie_breaks(fitting, seed))
    return tuple(_ranked(asked, fitting, scores, int(row)) for row in best)


def _least(values: Numbers, ties: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The positions of the least values in order; among equals the tie-break decides."""
    count = min(RANKED_MAX, len(values))
    bound = np.partition(values, count - 1)[count - 1]
    below, equal = np.flatnonzero(values < bound), np.flatnonzero(values == bound)
    room = count - len(below)
    if len(equal) > room:
        equal = equal[np.argpartition(ties[equal], room - 1)[:room]]
    chosen = np.concatenate([below, equal])
    return chosen[np.lexsort((ties[chosen], values[chosen]))]


def _tie_breaks(table: OfferTable, seed: str) -> NDArray[np.uint64]:
    """A number per offer that depends on its id and the seed alone."""
    salt = np.uint64(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little") | 1)
    mixed = (table.id_hash ^ salt) * salt
    return mixed ^ (mixed >> np.uint64(29))


def _ranked(asked: Asked, table: OfferTable, scores: Scores, row: int) -> Ranked:
    parts = tuple((name, _plain(values[row])) for name, values in scores.parts.items() if values[row])
    offer = table.offer(row)
    return Ranked(
        offer=offer,
        cost_usd=cost_interval(asked, offer, scores, row),
        score=Decimal(_plain(scores.total[row])),
        parts=parts or ((str(asked.spec.objective), "0"),),
    )


def _plain(value: np.float64) -> str:
    """At most six places, as a person would write it."""
    return format(Decimal(repr(round(float(value), 6))).normalize(), "f")


def _shown_drops(asked: Asked, table: OfferTable, first: NDArray[np.intp], fate: Fate) -> tuple[Drop, ...]:
    """Some drops with their reasons: those that may be waited for first, when something waits for them."""
    dropped = np.flatnonzero(first > (len(NEVER_FILTERS) if fate is Fate.NOT_NOW else 0))
    return tuple(_drop(asked, table, int(row), int(first[row])) for row in dropped[:DROPS_SHOWN])


def _drop(asked: Asked, table: OfferTable, row: int, first: int) -> Drop:
    check = ALL_FILTERS[first - 1]
    offer = table.offer(row)
    return Drop(offer_id=offer.id, verdict=_verdict(check, asked, offer))


def _verdict(check: Filter, asked: Asked, offer: Offer) -> Verdict:
    return Verdict(fate=check.fate, filter=check.name, field=check.field, reason=check.reason(asked, offer))


def _reason(shown: Sequence[Drop], dropped: int) -> str:
    if not shown:
        return "no offers are known"
    more = f" (and {dropped - 1} more)" if dropped > 1 else ""
    return f"{shown[0].offer_id}: {shown[0].verdict.reason}{more}"


def feasible(asked: Asked, table: OfferTable) -> bool:
    """Could any offer ever fit? Much less work than a plan."""
    alive = np.ones(len(table), dtype=np.bool_)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        if passed is not None:
            alive &= passed
    return bool(alive.any())


def why_not(asked: Asked, table: OfferTable) -> tuple[Drop, ...]:
    """Every dropped offer with its first reason."""
    _, first = _first_failures(asked, table)
    return tuple(_drop(asked, table, int(row), int(first[row])) for row in np.flatnonzero(first))


def all_failures(asked: Asked, table: OfferTable, row: int) -> tuple[Verdict, ...]:
    """Every bound that can never be met by one offer."""
    offer = table.offer(row)
    failed = [
        check for check in NEVER_FILTERS if (passed := check.passes(asked, table)) is not None and not passed[row]
    ]
    return tuple(_verdict(check, asked, offer) for check in failed)


def refusals(asked: Asked, table: OfferTable) -> tuple[Problem, ...]:
    """Why no offer can ever fit, told by the offer that misses least: one problem for each bound it breaks."""
    if not len(table):
        return (
            Problem(
                code="no_feasible_offer",
                field="",
                what="no provider offers anything",
                why="no provider is configured, or none could be reached",
                fix="`placet doctor` says which providers are missing what",
            ),
        )
    misses = np.zeros(len(table), dtype=np.int64)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        if passed is not None:
            misses += ~passed
    nearest = int(np.argmin(misses))
    offer_id = table.text("id", nearest)
    return tuple(_problem(verdict, offer_id, len(table)) for verdict in all_failures(asked, table, nearest))


def _problem(verdict: Verdict, offer_id: str, count: int) -> Problem:
    return Problem(
        code="no_feasible_offer",
        field=verdict.field,
        what=f"none of {count} offers fits; the nearest, {offer_id}, {verdict.reason}",
        why=f"{verdict.field} is a strict bound and is never relaxed silently",
        fix=f"relax {verdict.field}, or add a provider that meets it (`placet offers` lists what exists)",
    )
