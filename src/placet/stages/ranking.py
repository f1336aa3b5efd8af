"""The best few of the offers that fit. Only offers that can still be among them are scored; the outcome is the same.

Offers of one provider and kind of capacity that are listed with about the same start-up time make a *lane*, in the
order of their prices. An offer that was tried before is scored at once. What is believed of any other is at best what
is believed of its lane (``learning.best_case``), and with all beliefs fixed no score falls as the price rises
(``scores.dearest``). So there is a price for each lane above which, at the best that is believed, an offer scores worse
than the last of the best found, and nothing after it in that lane can be among them.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placet.domain.offer_table import Bits, Codes, Numbers, OfferTable, Whole
from placet.stages.filters import Asked
from placet.stages.learning import LEAST_STARTUP_S, best_case, tried_rows
from placet.stages.scores import Scores, cheap_totals, dearest, first_group, score, totals

RANKED_MAX = 20
# So many are scored at once without asking which of them could win.
SCORED_AT_ONCE = 4096
# With more lanes than this, walking them costs more than it saves.
LANES_MAX = 1024
# Of more than this the best are chosen by their totals alone, where these are much less work than whole scores.
MANY_AT_ONCE = 256
# The first step is so many times what would do if the best were evenly spread; the cheapest fit less often than others.
FIRST_STEP_TIMES = 32
STEP_GROWS = 16
# No price per hour is higher, in millionths of a dollar; in one number with its lane.
PRICE_TOP = 2**46 - 1
LANE_APART = 2**47

Rows = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Best:
    """The best offers in order: a table of them alone, and their scores, row by row."""

    offers: OfferTable
    scores: Scores


@dataclass(frozen=True, kw_only=True, eq=False)
class Lanes:
    """The rows of a snapshot by lane and price. Lane ``i`` is ``order[starts[i]:starts[i + 1]]``; ``keys`` are lane and
    price in one number, in the same order. Of each lane: provider, capacity type, least start-up time listed."""

    order: Rows
    starts: Rows
    keys: Whole
    providers: Codes
    capacity_types: Codes
    startup_s: Numbers

    def upto(self, limits: Numbers) -> Rows:
        """Where in each lane the offers end that cost no more than its limit."""
        prices = np.clip(np.floor(limits), -1.0, float(PRICE_TOP)).astype(np.int64)
        return self.keys.searchsorted(np.arange(len(limits)) * LANE_APART + prices, side="right")


def best_of(asked: Asked, table: OfferTable, fits: Bits, count: int, seed: str) -> Best:
    """The best of the ``count`` offers that fit, of which there is one at least; ``seed`` settles ties."""
    groups = first_group(asked, table)
    if groups is not None:
        first = fits & (groups == groups[fits].min())
        fits, count = first, int(np.count_nonzero(first))
    if count <= SCORED_AT_ONCE or len(lanes_of(table).startup_s) > LANES_MAX:
        fitting = table if count == len(table) else table.take(np.flatnonzero(fits))
        return _best_of_all(asked, fitting, seed)
    return _best_of_lanes(asked, table, fits, count, seed)


def _best_of_all(asked: Asked, table: OfferTable, seed: str) -> Best:
    scores = score(asked, table)
    if len(table) == 1:
        return Best(offers=table, scores=scores)
    best = _least(scores.total, table, seed)
    return Best(offers=table.take(best), scores=scores.take(best))


def _best_of_lanes(asked: Asked, table: OfferTable, fits: Bits, count: int, seed: str) -> Best:
    """Lane after lane is left when it can add nothing."""
    lanes = lanes_of(table)
    at, ends = lanes.starts[:-1].copy(), lanes.starts[1:].copy()
    step = 1 + FIRST_STEP_TIMES * RANKED_MAX * len(fits) // (count * len(at))
    kinds = lanes.providers, lanes.capacity_types
    hoped = best_case(asked.experience, table, kinds, lanes.startup_s, now_ms=asked.now_ms)
    dearest_of = dearest(asked, hoped)
    rows, fits = _tried(asked, table, fits)
    best, scores = rows[:0], None
    open_ = np.arange(len(at))
    while len(open_):
        upto = np.minimum(at + step, ends)
        ahead = zip(at[open_].tolist(), upto[open_].tolist(), strict=True)
        further = np.concatenate([lanes.order[begin:end] for begin, end in ahead])
        rows = np.concatenate([rows, further[fits[further]]])
        if len(rows) > MANY_AT_ONCE and cheap_totals(asked):
            rows = rows[_least(totals(asked, table.take(rows)), table.take(rows), seed)]
        if len(rows):
            best = np.concatenate([best, rows])
            new = score(asked, table.take(rows))
            scores = new if scores is None else scores.and_(new)
            kept = _least(scores.total, table.take(best), seed)
            best, scores, rows = best[kept], scores.take(kept), rows[:0]
        at, step = upto, step * STEP_GROWS
        if scores is not None and len(best) == RANKED_MAX:
            # An equal score may still win its tie, so only worse ones are left out.
            ends = np.minimum(ends, lanes.upto(dearest_of(scores.total.item(-1))))
        open_ = np.flatnonzero(at < ends)
    assert scores is not None, "best_of is asked for offers that fit, of which there is one at least"
    return Best(offers=table.take(best), scores=scores)


def _tried(asked: Asked, table: OfferTable, fits: Bits) -> tuple[Rows, Bits]:
    """Of the offers that fit: those that were tried themselves, and which are the others."""
    if not asked.experience.tallies:
        return np.empty(0, dtype=np.intp), fits
    rows, others = tried_rows(asked.experience, table), fits.copy()
    others[rows] = False
    return rows[fits[rows]], others


def lanes_of(table: OfferTable) -> Lanes:
    """The lanes of a snapshot, made once: start-up times within a factor of 1.4 share one."""
    lanes: Lanes | None = table.derived.get("lanes")
    if lanes is None:
        lanes = table.derived["lanes"] = _lanes(table)
    return lanes


def _lanes(table: OfferTable) -> Lanes:
    likeness = np.floor(np.log2(np.maximum(table.startup_s, LEAST_STARTUP_S)) * 2).astype(np.int64)
    likeness -= likeness.min(initial=0)
    kind = table.provider.astype(np.int64) * len(table.words["capacity_type"].texts) + table.capacity_type
    lane_of = kind * (likeness.max(initial=0) + 1) + likeness
    order = np.lexsort((table.price_micro, lane_of))
    sorted_lanes = lane_of[order]
    begins = np.flatnonzero(np.diff(sorted_lanes, prepend=-1))
    return Lanes(
        order=order,
        starts=np.append(begins, len(order)),
        keys=np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order)))) * LANE_APART
        + np.minimum(table.price_micro[order], PRICE_TOP),
        providers=table.provider[order[begins]],
        capacity_types=table.capacity_type[order[begins]],
        startup_s=np.minimum.reduceat(table.startup_s[order], begins) if len(begins) else np.empty(0),
    )


def _least(values: Numbers, table: OfferTable, seed: str) -> Rows:
    """The rows of the least values in order, one value per row of the table; among equals the tie-break decides."""
    count = min(RANKED_MAX, len(values))
    bound = np.partition(values, count - 1)[count - 1]
    chosen = np.flatnonzero(values <= bound)
    if len(chosen) > count:
        below, equal = chosen[values[chosen] < bound], chosen[values[chosen] == bound]
        room = count - len(below)
        ties = tie_breaks(table, equal, seed)
        chosen = np.concatenate([below, equal[np.argpartition(ties, room - 1)[:room]]])
    return chosen[np.lexsort((tie_breaks(table, chosen, seed), values[chosen]))]


def tie_breaks(table: OfferTable, rows: Rows, seed: str) -> NDArray[np.uint64]:
    """A number per row that depends on its offer's id and the seed alone."""
    salt = np.uint64(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little") | 1)
    mixed = (table.words["id"].hashes.take(table.id[rows]) ^ salt) * salt
    return mixed ^ (mixed >> np.uint64(29))
