"""The smallest changes that would make an infeasible request feasible, each with what it would cost and when it starts.

Every offer is marked with the bounds that it breaks. Offers that break one bound alone each show a way out; only where
there are none are pairs looked at, and then ever larger sets: an offer that breaks the fewest bounds is the end of a
smallest set. A way out is believed after the changed request was placed over the same offers, and of three changes or
more none is told that is not needed. The work is bounded: so many offers are tried for single changes, as many for
pairs, and as many for all larger sets together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.domain.offer_table import Bits, OfferTable
from placet.domain.offers import Demand, Offer, Ranked
from placet.domain.relaxations import Change, Relaxation
from placet.domain.spec import Spec
from placet.stages.admission import admit
from placet.stages.changing import RUNTIME_FIELD, Changed, change, distance, other_change
from placet.stages.filters import NEVER_FILTERS, NOT_NOW_FILTERS, Asked
from placet.stages.placement import feasible, ranked_of
from placet.stages.ranking import best_of

# At most so many are told, and so many sets of bounds are tried for one request.
TOLD_MAX = 8
TRIED_MAX = 24
PAIR = 2

Sizer: TypeAlias = Callable[[Spec], Demand]
Steps: TypeAlias = tuple[tuple[str, Callable[[str, Asked, Spec, Offer], Changed | None]], ...]
Masks: TypeAlias = NDArray[np.uint32]
BIT = {check.name: 1 << place for place, check in enumerate(NEVER_FILTERS)}
# What no change of the spec helps against.
FIXED = BIT["connected"] | BIT["runtime"] | BIT["quote_spent"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Broken:
    """Which bounds each offer breaks: bit ``n`` stands for the ``n``-th strict filter; and the sets that occur."""

    masks: Masks
    kinds: tuple[int, ...]

    @property
    def feasible(self) -> bool:
        return 0 in self.kinds

    def alone(self, filter_name: str) -> Bits:
        """The offers that break this bound and no other."""
        only: Bits = self.masks == BIT[filter_name]
        return only


def broken(asked: Asked, table: OfferTable) -> Broken:
    """Every strict bound held against every offer."""
    masks = np.zeros(len(table), dtype=np.uint32)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        if passed is not None:
            masks |= np.where(passed, np.uint32(0), np.uint32(BIT[check.name]))
    return Broken(masks=masks, kinds=tuple(np.unique(masks).tolist()))


def names_of(kind: int) -> tuple[str, ...]:
    """The filters that a mask stands for."""
    return tuple(name for name, bit in BIT.items() if kind & bit)


def relaxations(asked: Asked, table: OfferTable, resize: Sizer) -> tuple[Relaxation, ...]:
    """Ways out of an infeasible request with as few changes as can be, the cheapest first; none when it is feasible or
    nothing helps.

    ``resize`` gives the demand of a changed spec. With ``asked.hypothetical`` what is only listed is looked at too.
    """
    marked = broken(asked, table)
    if marked.feasible or not len(table):
        return ()
    left_to_try = TRIED_MAX
    for together in sorted({kind.bit_count() for kind in marked.kinds if not kind & FIXED}):
        found: dict[tuple[tuple[str, str], ...], Relaxation] = {}
        most = TRIED_MAX if together <= PAIR else left_to_try
        for offer, kind in islice(_candidates(asked, table, marked, together), most):
            left_to_try -= together > PAIR
            for made in _relaxed(asked, table, offer, kind, resize):
                found.setdefault(tuple((one.field, one.value) for one in made.changes), made)
        if found:
            fewest = min(len(made.changes) for made in found.values())
            least = [made for made in found.values() if len(made.changes) == fewest]
            return tuple(sorted(least, key=_order))[:TOLD_MAX]
    return ()


def unconnected(asked: Asked, listed: OfferTable, resize: Sizer) -> tuple[Relaxation, ...]:
    """The same over what is only listed; where that fits as it is, to connect its provider is the whole change."""
    request = replace(asked, hypothetical=True)
    found = best_ever(request, listed)
    if found is None:
        return relaxations(request, listed, resize)
    as_it_is = _made(asked.spec, (), found)
    return () if as_it_is is None else (as_it_is,)


def _order(made: Relaxation) -> tuple[bool, bool, Decimal, str]:
    """What is free before what is not, more money before less work, then by cost."""
    less_work = any(change.field == RUNTIME_FIELD for change in made.changes)
    return not made.now, less_work, made.cost_usd.likely, made.changes[0].field


def _candidates(asked: Asked, table: OfferTable, marked: Broken, together: int) -> Iterator[tuple[Offer, int]]:
    """Offers that so many changes would let in: of each set of bounds the nearest, of kinds of capacity each kind."""
    for kind in marked.kinds:
        if kind.bit_count() != together or kind & FIXED:
            continue
        rows = np.flatnonzero(marked.masks == kind)
        for some in _by_capacity(table, rows) if kind & BIT["capacity_type"] else (rows,):
            yield _best(asked, table, some[_nearest(asked, table.take(some), kind)]), kind


def _by_capacity(table: OfferTable, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    codes = table.capacity_type[rows]
    for code in np.unique(codes).tolist():
        yield rows[codes == code]


def _nearest(asked: Asked, table: OfferTable, kind: int) -> Bits:
    """Which offers are nearest to the bounds that are numbers, the first such bound first."""
    near = np.ones(len(table), dtype=np.bool_)
    for name in names_of(kind):
        far = distance(name, asked, table)
        if far is not None:
            near &= far == far[near].min()
    return near


def _best(asked: Asked, table: OfferTable, rows: NDArray[np.intp]) -> Offer:
    few = table.take(rows)
    return best_of(asked, few, np.ones(len(few), dtype=np.bool_), len(few), "").offers.offer(0)


def _relaxed(asked: Asked, table: OfferTable, offer: Offer, kind: int, resize: Sizer) -> Iterator[Relaxation]:
    """The request changed so that the offer fits, with what is best for it then; in two ways where there are two."""
    names = names_of(kind)
    for last in (change, other_change):
        steps: Steps = (*((name, change) for name in names[:-1]), (names[-1], last))
        if len(steps) > PAIR:
            steps = _needed(asked, table, offer, steps, resize)
        changed = _applied(asked, offer, steps)
        if changed is None:
            continue
        changes, spec = changed
        found = best_ever(replace(asked, spec=spec, demand=resize(spec)), table)
        relaxed = None if found is None else _made(spec, changes, found)
        if relaxed is not None:
            yield relaxed


def _applied(asked: Asked, offer: Offer, steps: Steps) -> tuple[tuple[Change, ...], Spec] | None:
    """The spec after these changes; ``None`` where one cannot be made, or where it contradicts itself then."""
    spec = asked.spec
    changes: list[Change] = []
    for name, way in steps:
        made = way(name, asked, spec, offer)
        if made is None:
            return None
        changes.append(made[0])
        spec = made[1]
    return None if admit(spec, asked.now_ms) else (tuple(changes), spec)


def _needed(asked: Asked, table: OfferTable, offer: Offer, steps: Steps, resize: Sizer) -> Steps:
    """The changes without those that the others make needless, by letting in another offer. A change only widens, so
    what was needed among more is needed among fewer, and each is looked at once."""
    for step in steps:
        fewer = tuple(one for one in steps if one is not step)
        changed = _applied(asked, offer, fewer)
        if changed is not None and feasible(replace(asked, spec=changed[1], demand=resize(changed[1])), table):
            steps = fewer
    return steps


def _made(spec: Spec, changes: tuple[Change, ...], found: "BestEver") -> Relaxation | None:
    if found.ranked.outlook is None:
        return None
    return Relaxation(
        changes=changes,
        spec=spec,
        offer=found.ranked.offer,
        cost_usd=found.ranked.cost_usd,
        start_s=Decimal(repr(round(found.ranked.outlook.startup_s, 1))),
        now=found.now,
    )


@dataclass(frozen=True, kw_only=True)
class BestEver:
    """The best offer for a request, and whether it is free at this moment."""

    ranked: Ranked
    now: bool


def best_ever(asked: Asked, table: OfferTable) -> BestEver | None:
    """The best offer for a request as it is: of those that are free now, else of those that may be later."""
    fits = np.ones(len(table), dtype=np.bool_)
    for check in NEVER_FILTERS:
        passed = check.passes(asked, table)
        fits = fits if passed is None else fits & passed
    free = fits
    for check in NOT_NOW_FILTERS:
        passed = check.passes(asked, table)
        free = free if passed is None else free & passed
    now = bool(free.any())
    chosen = free if now else fits
    count = int(np.count_nonzero(chosen))
    if not count:
        return None
    return BestEver(ranked=ranked_of(asked, best_of(asked, table, chosen, count, ""))[0], now=now)
