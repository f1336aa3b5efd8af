"""From a demand and a snapshot of offers to a plan: ranked offers, and every dropped one counted by its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

import numpy as np

from placet.domain.offer_table import Bits, OfferTable
from placet.domain.offers import Drop, Fate, Offer, Outlook, Plan, Ranked, Verdict
from placet.domain.problems import Problem
from placet.stages.exploring import explored
from placet.stages.filters import ALL_FILTERS, NEVER_FILTERS, Asked, Filter
from placet.stages.ranking import Best, best_of
from placet.stages.scores import interval_of

# A plan carries this many dropped offers with their reasons; ``why_not`` tells of all of them.
DROPS_SHOWN = 5
LOOKED_AT_FIRST = 1024
# Among the parts of a score: it is first because little is known of it, not because it scores best.
EXPLORED = "explored"


def place(asked: Asked, table: OfferTable, *, seed: str) -> Plan:
    """The plan for one workload. ``seed`` (its id) settles ties, so that the same record gives the same plan."""
    fits, dropped = _sieve(asked, table)
    total = sum(drops.count for drops in dropped)
    left = len(table) - total
    ranked = ranked_of(asked, *explored(asked, best_of(asked, table, fits, left, seed), seed)) if left else ()
    fate = _fate(bool(ranked), dropped)
    shown = _shown(asked, table, dropped, fate)
    return Plan(
        ranked=ranked,
        drops=shown,
        drop_counts=tuple([(drops.check.name, drops.count) for drops in dropped]),
        fate=fate,
        reason="" if fate is Fate.FITS else _reason(shown, total),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Dropped:
    """What one filter was the first to drop."""

    check: Filter
    rows: Bits
    count: int


def _sieve(asked: Asked, table: OfferTable) -> tuple[Bits, list[_Dropped]]:
    """Which offers fit, and by which filter each of the others was first dropped."""
    alive = np.ones(len(table), dtype=np.bool_)
    dropped = []
    for check in ALL_FILTERS:
        passed = check.passes(asked, table)
        if passed is None:
            continue
        rows = alive > passed
        count = int(np.count_nonzero(rows))
        if count:
            dropped.append(_Dropped(check=check, rows=rows, count=count))
            alive &= passed
    return alive, dropped


def _fate(fits: bool, dropped: Sequence[_Dropped]) -> Fate:
    if fits:
        return Fate.FITS
    return Fate.NOT_NOW if any(drops.check.fate is Fate.NOT_NOW for drops in dropped) else Fate.NEVER


def ranked_of(asked: Asked, best: Best, explores: bool = False) -> tuple[Ranked, ...]:
    """The best offers as values, with their scores, costs and what is believed of them; ``explores`` when the first is
    so because little is known of it."""
    columns = [(name, values.tolist()) for name, values in best.scores.parts.items()]
    totals, expected = best.scores.total.tolist(), best.scores.expected_usd.tolist()
    objective, interval = str(asked.spec.objective), interval_of(asked)
    made = []
    for row, total in enumerate(totals):
        offer, told = best.offers.offer(row), _plain(total)
        parts = tuple(
            [(name, told if values[row] == total else _plain(values[row])) for name, values in columns if values[row]]
        )
        if explores and row == 0:
            parts = (*parts, (EXPLORED, "0"))
        made.append(
            Ranked(
                offer=offer,
                cost_usd=interval(offer, expected[row]),
                score=Decimal(told),
                parts=parts or ((objective, "0"),),
                outlook=_outlook(best, row) if row == 0 else None,
            )
        )
    return tuple(made)


def _outlook(best: Best, row: int) -> Outlook:
    """A ninth decile that the source itself states is believed as long as it is above our median."""
    believed, stated_s = best.scores.believed, best.offers.startup_p90_s.item(row)
    startup_s = believed.startup_s.item(row)
    return Outlook(
        start_share=believed.start_share.item(row),
        startup_s=startup_s,
        startup_p90_s=stated_s if stated_s > startup_s else believed.startup_high_s.item(row),
        losses_per_hour=believed.losses_per_hour.item(row),
    )


def _plain(value: float) -> str:
    """At most six places, as a person would write it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _shown(asked: Asked, table: OfferTable, dropped: Sequence[_Dropped], fate: Fate) -> tuple[Drop, ...]:
    """Some drops with their reasons; only those that may be waited for, when something waits for them."""
    shown: list[Drop] = []
    for drops in dropped:
        if fate is Fate.NOT_NOW and drops.check.fate is not Fate.NOT_NOW:
            continue
        shown += [_drop(asked, table, row, drops.check) for row in _first(drops.rows, DROPS_SHOWN - len(shown))]
    return tuple(shown)


def _first(rows: Bits, count: int) -> list[int]:
    """The first few that are set, without looking at all when they come early."""
    if count <= 0:
        return []
    found = np.flatnonzero(rows[:LOOKED_AT_FIRST])
    if len(found) < count and len(rows) > LOOKED_AT_FIRST:
        found = np.flatnonzero(rows)
    first: list[int] = found[:count].tolist()
    return first


def _drop(asked: Asked, table: OfferTable, row: int, check: Filter) -> Drop:
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


def open_offers(asked: Asked, table: OfferTable) -> tuple[Bits, Bits]:
    """Which offers could ever fit, and which of them fit now. Both are the caller's to change."""
    possible = np.ones(len(table), dtype=np.bool_)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        if passed is not None:
            possible &= passed
    fits, _ = _sieve(asked, table)
    return possible, fits


def why_not(asked: Asked, table: OfferTable, most: int | None = None) -> tuple[Drop, ...]:
    """Every dropped offer with its first reason, or ``most`` of them; those that came furthest are first."""
    _, dropped = _sieve(asked, table)
    found = ((int(row), drops.check) for drops in reversed(dropped) for row in np.flatnonzero(drops.rows))
    return tuple(_drop(asked, table, row, check) for row, check in islice(found, most))


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
        why=f"{verdict.field} is a strict bound and is never relaxed silently"
        if verdict.field
        else "a price list is for comparison, and only what an adapter offers can be dispatched to",
        fix=f"relax {verdict.field}, or add a provider that meets it (`placet offers` lists what exists)"
        if verdict.field
        else "connect its provider (`placet doctor` says which are)",
    )
