"""From finished attempts to what is expected of offers. Old evidence fades, thin evidence leans on coarser groups.

Start success is a Beta-binomial, losses are a Gamma-Poisson over hours, start-up times are log-normal; the prior of a
group is what is believed of the next coarser one, worth a few attempts (an empirical-Bayes shrinkage chain: offer,
provider and region and GPU and capacity type, provider and capacity type, capacity type).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placet.domain.experience import Beliefs, Evidence, Experience, Level, Tally
from placet.domain.offer_table import Codes, Numbers, OfferTable
from placet.domain.spec import CapacityType
from placet.stages.groups import HALF_LIFE_MS, PRIOR_ATTEMPTS, PRIOR_HOURS, AllCounted, Counted, Groups, Keys

STARTUP_SPREAD = 0.6
NINTH_DECILE = 1.2816
# Fitted to recorded spot availability of nine zones (`python -m bench.rentals.fit`). Of all moments with spot 0.56 are
# followed by three hours with it and 0.17 by a day; this shape says 0.53 and 0.19, a constant rate 0.38 and 0.01.
LOSS_SHAPE = 0.7
SPREAD_TO_NINTH_DECILE = math.exp(NINTH_DECILE * STARTUP_SPREAD)
LEAST_STARTUP_S = 0.1
FEW_ROWS = 8
# All decisions of one minute see evidence at the same age.
FADES_EVERY_MS = 60_000
# Between the parts of a group's name; names of regions hold slashes and spaces.
BETWEEN = "\n"

LEVELS = (Level.CAPACITY, Level.PROVIDER, Level.PLACE, Level.OFFER)


@dataclass(frozen=True, kw_only=True)
class Prior:
    """What is believed of a kind of capacity before anything was tried."""

    start_share: float
    losses_per_hour: float


# Spot: 2 to 7.5 losses of availability a day and zone in published traces; reserved and on-demand machines fail 2 to
# 6.5 times in 1,000 node-days.
PRIORS = {
    CapacityType.RESERVED: Prior(start_share=0.99, losses_per_hour=0.0002),
    CapacityType.ON_DEMAND: Prior(start_share=0.92, losses_per_hour=0.0003),
    CapacityType.SERVERLESS: Prior(start_share=0.95, losses_per_hour=0.002),
    CapacityType.SPOT: Prior(start_share=0.75, losses_per_hour=0.12),
}


def learn(experience: Experience, evidence: Iterable[Evidence]) -> Experience:
    """The experience with more attempts in it. The order of the attempts does not matter beyond rounding."""
    tallies = dict(experience.tallies)
    for one, more in _summed(list(evidence)):
        for level in LEVELS:
            key = level, group_of(level, one.offer_id, one.provider, one.region, one.gpu_model, one.capacity_type)
            known = tallies.get(key)
            tallies[key] = more if known is None else _sum(known, more)
    return Experience(tallies=tallies)


def group_of(level: Level, offer_id: str, provider: str, region: str, gpu_model: str, capacity_type: str) -> str:
    """The name of the group of this level that an offer belongs to."""
    match level:
        case Level.OFFER:
            return offer_id
        case Level.PLACE:
            return BETWEEN.join((provider, region, gpu_model, capacity_type))
        case Level.PROVIDER:
            return BETWEEN.join((provider, capacity_type))
        case Level.CAPACITY:
            return capacity_type


def _summed(evidence: Sequence[Evidence]) -> list[tuple[Evidence, Tally]]:
    """One of the attempts on each offer, and what all of them on it say; much less work than one at a time."""
    at_ms = max((one.at_ms for one in evidence), default=0)
    sums: dict[tuple[str, str, str, str, str], tuple[Evidence, list[float]]] = {}
    for one in evidence:
        where = (one.offer_id, one.provider, one.region, one.gpu_model, one.capacity_type)
        known = sums.get(where)
        if known is None:
            known = sums[where] = (one, [0.0] * 6)
        weight, counted = _weight(at_ms - one.at_ms), known[1]
        counted[0 if one.started else 1] += weight
        if one.started and one.startup_s is not None:
            log_startup = math.log(max(one.startup_s, LEAST_STARTUP_S))
            counted[2] += weight * log_startup
            counted[3] += weight * log_startup**2
        counted[4] += weight * one.hours
        counted[5] += weight if one.taken_away else 0.0
    return [(one, _tally(at_ms, counted)) for one, counted in sums.values()]


def _tally(at_ms: int, counted: Sequence[float]) -> Tally:
    starts, failed_starts, log_startup, log_startup_squared, hours, losses = counted
    return Tally(
        at_ms=at_ms,
        starts=starts,
        failed_starts=failed_starts,
        log_startup=log_startup,
        log_startup_squared=log_startup_squared,
        hours=hours,
        losses=losses,
    )


def _sum(one: Tally, other: Tally) -> Tally:
    """Both brought to the later of their times, added up."""
    at_ms = max(one.at_ms, other.at_ms)
    return _tally(
        at_ms, [sum(pair) for pair in zip(_counts(_faded(one, at_ms)), _counts(_faded(other, at_ms)), strict=True)]
    )


def _counts(tally: Tally) -> tuple[float, ...]:
    return (
        tally.starts,
        tally.failed_starts,
        tally.log_startup,
        tally.log_startup_squared,
        tally.hours,
        tally.losses,
    )


def _weight(age_ms: int) -> float:
    return float(0.5 ** (age_ms / HALF_LIFE_MS))


def _faded(tally: Tally, at_ms: int) -> Tally:
    if at_ms == tally.at_ms:
        return tally
    weight = _weight(at_ms - tally.at_ms)
    return _tally(at_ms, [weight * count for count in _counts(tally)])


def beliefs(experience: Experience, table: OfferTable, *, now_ms: int) -> Beliefs:
    """What is expected of every row, coarse groups first, each level correcting the one before by its own evidence."""
    if not experience.tallies:
        known: Beliefs | None = table.derived.get("untried")
        if known is None:
            known = table.derived["untried"] = _untried(table)
        return known
    now_ms -= now_ms % FADES_EVERY_MS
    # By the snapshot, not by the part of it: the two ways differ in the last digit, and equals have to stay equal.
    if len(table.words["id"].texts) <= FEW_ROWS:
        return _of_few(experience, table, now_ms)
    listed = table.startup_s
    least = np.maximum(listed, LEAST_STARTUP_S)
    believed = _stacked(table, table.capacity_type, least)
    weight = np.zeros(len(table))
    touched = np.zeros(len(table), dtype=np.bool_)
    groups = _groups(experience, table, now_ms)
    for level in LEVELS:
        held = groups[level]
        tried, at = held.of(_keys(table, level))
        if not tried.any():
            continue
        believed = held.updated(at, believed)
        np.copyto(weight, held.weight.take(at), where=tried)
        touched |= tried
    startup_s = np.exp(believed[2])
    return Beliefs(
        start_share=believed[0],
        startup_s=np.where(listed > 0, np.where(touched, startup_s, least), listed),
        startup_high_s=startup_s * SPREAD_TO_NINTH_DECILE,
        losses_per_hour=believed[1],
        weight=weight,
    )


def _of_few(experience: Experience, table: OfferTable, now_ms: int) -> Beliefs:
    """The same row by row: of a handful of offers, asking for each group by name is quicker than arrays are. What is
    believed of an offer is kept, for the next decision mostly looks at the same few."""
    kept = table.of_words.get("believed")
    if kept is None or kept[0] is not experience or kept[1] != now_ms:
        kept = table.of_words["believed"] = (experience, now_ms, {})
    whole = table.derived.get("believed")
    if whole is not None and whole[0] is kept:
        known: Beliefs = whole[1]
        return known
    offers: dict[int, tuple[float, ...]] = kept[2]
    believed = []
    for row, code in enumerate(table.id.tolist()):
        if code not in offers:
            offers[code] = _of_one(experience, table, row, now_ms)
        believed.append(offers[code])
    starts, startup_s, startup_high_s, rates, weight = np.array(believed, dtype=np.float64).T
    found = Beliefs(
        start_share=starts,
        startup_s=startup_s,
        startup_high_s=startup_high_s,
        losses_per_hour=rates,
        weight=weight,
    )
    table.derived["believed"] = (kept, found)
    return found


def _of_one(experience: Experience, table: OfferTable, row: int, now_ms: int) -> tuple[float, ...]:
    """Start share, start-up time, its ninth decile, loss rate and weight of the evidence."""
    provider, region, model = (table.text(name, row) for name in ("provider", "region", "gpu_model"))
    offer_id, capacity_type = table.text("id", row), table.text("capacity_type", row)
    prior, listed, weight = PRIORS[CapacityType(capacity_type)], table.startup_s.item(row), 0.0
    starts, rates, log_startup = prior.start_share, prior.losses_per_hour, math.log(max(listed, LEAST_STARTUP_S))
    for level in LEVELS:
        tally = experience.tallies.get((level, group_of(level, offer_id, provider, region, model, capacity_type)))
        if tally is not None:
            seen = _faded(tally, max(now_ms, tally.at_ms))
            starts, rates, log_startup = _updated(seen, starts, rates, log_startup)
            weight = seen.starts + seen.failed_starts
    startup_s = math.exp(log_startup)
    return starts, startup_s if listed > 0 else listed, startup_s * SPREAD_TO_NINTH_DECILE, rates, weight


def times_tried(experience: Experience, offer_id: str, *, now_ms: int) -> float:
    """How many attempts on one offer itself count now."""
    tally = experience.tallies.get((Level.OFFER, offer_id))
    if tally is None:
        return 0.0
    return (tally.starts + tally.failed_starts) * _weight(max(now_ms - tally.at_ms, 0))


def _untried(table: OfferTable) -> Beliefs:
    """What is expected of every row before anything was tried; fresh arrays."""
    starts, rates = _priors_of(table, table.capacity_type)
    least = np.maximum(table.startup_s, LEAST_STARTUP_S)
    return Beliefs(
        start_share=starts,
        startup_s=np.where(table.startup_s > 0, least, table.startup_s),
        startup_high_s=least * SPREAD_TO_NINTH_DECILE,
        losses_per_hour=rates,
        weight=np.zeros(len(table)),
    )


def best_case(
    experience: Experience,
    table: OfferTable,
    kinds: tuple[Codes, Codes],
    startup_s: Numbers,
    *,
    now_ms: int,
) -> Beliefs:
    """What no offer is believed to be better than that was never tried itself: one belief per kind of offer.

    ``kinds`` are the codes of providers and capacity types, in order, ``startup_s`` the least start-up time listed for
    each. What is known of capacity type and provider holds for all of a kind. What is known of a place holds for some,
    and a belief is then a mean of that and of what was believed before, which grows with the latter: so the best of
    all places that were tried, and of none, is a bound.
    """
    now_ms -= now_ms % FADES_EVERY_MS
    before = table.derived.get("kinds")
    if before is None or before[0] is not startup_s:
        priors = _stacked(table, kinds[1], np.maximum(startup_s, LEAST_STARTUP_S))
        before = table.derived["kinds"] = (startup_s, priors)
    believed: Numbers = before[1]
    if experience.tallies:
        groups, tried = _groups(experience, table, now_ms), _tried_kinds(experience, table, kinds)
        believed = groups[Level.CAPACITY].updated(tried.capacity, believed)
        believed = groups[Level.PROVIDER].updated(tried.provider, believed)
        if len(tried.places):
            share, rate, until = groups[Level.PLACE].updated(tried.places, believed.take(tried.kind_of_place, axis=1))
            kinds_of, begins = tried.with_places, tried.begins
            believed[0, kinds_of] = np.maximum(believed[0, kinds_of], np.maximum.reduceat(share, begins))
            believed[1, kinds_of] = np.minimum(believed[1, kinds_of], np.minimum.reduceat(rate, begins))
            believed[2, kinds_of] = np.minimum(believed[2, kinds_of], np.minimum.reduceat(until, begins))
    startup = np.where(startup_s > 0, np.exp(believed[2]), startup_s)
    return Beliefs(
        start_share=believed[0],
        startup_s=startup,
        startup_high_s=startup * SPREAD_TO_NINTH_DECILE,
        losses_per_hour=believed[1],
        weight=np.zeros(len(startup)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _TriedKinds:
    """Where the groups of some kinds of offers stand, each kind with every tried place it occurs in, kinds together:
    those of ``with_places[i]`` are from ``begins[i]`` on."""

    capacity: NDArray[Any]
    provider: NDArray[Any]
    places: NDArray[np.intp]
    kind_of_place: NDArray[np.intp]
    with_places: NDArray[np.intp]
    begins: NDArray[np.intp]


def _tried_kinds(experience: Experience, table: OfferTable, kinds: tuple[Codes, Codes]) -> _TriedKinds:
    """The same as long as nothing more is learnt."""
    known = table.derived.get("tried_kinds")
    if known is None or known[0] is not experience or known[1] is not kinds[0]:
        groups, count = _counted(experience, table), len(table.words["capacity_type"].texts)
        keys = kinds[0].astype(np.int64) * count + kinds[1]
        within = len(table.words["region"].texts) * len(table.words["gpu_model"].texts) * count
        places = groups[Level.PLACE].keys
        kind_of, place_of = _pairs(keys, places // within * count + places % count)
        order = np.argsort(kind_of, kind="stable")
        kind_of, place_of = kind_of[order], place_of[order]
        begins = np.flatnonzero(np.diff(kind_of, prepend=-1))
        found = _TriedKinds(
            capacity=groups[Level.CAPACITY].find(kinds[1].astype(np.int64)),
            provider=groups[Level.PROVIDER].find(keys),
            places=place_of,
            kind_of_place=kind_of,
            with_places=kind_of[begins],
            begins=begins,
        )
        known = table.derived["tried_kinds"] = (experience, kinds[0], found)
    tried: _TriedKinds = known[2]
    return tried


def tried_rows(experience: Experience, table: OfferTable) -> NDArray[np.intp]:
    """The rows of offers that were tried themselves; made once per experience and snapshot."""
    known = table.derived.get("tried_rows")
    if known is None or known[0] is not experience:
        codes = (table.words["id"].find(group) for level, group in experience.tallies if level is Level.OFFER)
        order = np.argsort(table.id, kind="stable")
        _, at = _pairs(np.array([code for code in codes if code is not None], dtype=np.int64), table.id[order])
        known = table.derived["tried_rows"] = (experience, order[at])
    rows: NDArray[np.intp] = known[1]
    return rows


def _pairs(one: Keys, other: Keys) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every pair of positions with equal keys."""
    order = np.argsort(one, kind="stable")
    low, high = one[order].searchsorted(other), one[order].searchsorted(other, side="right")
    count = high - low
    of_other = np.repeat(np.arange(len(other)), count)
    within = np.arange(len(of_other)) - np.repeat(np.cumsum(count) - count, count)
    return order[np.repeat(low, count) + within], of_other


def _updated(seen: Tally, starts: float, rates: float, startup_log: float) -> tuple[float, float, float]:
    """Start share, loss rate and logarithm of the start-up time after what was seen, the priors given.

    ``Groups.updated`` does the same with arrays, in the same order, so that equals stay equal to the last digit."""
    return (
        (seen.starts + PRIOR_ATTEMPTS * starts) / (seen.starts + seen.failed_starts + PRIOR_ATTEMPTS),
        (seen.losses + PRIOR_HOURS * rates) / (seen.hours + PRIOR_HOURS),
        (seen.log_startup + PRIOR_ATTEMPTS * startup_log) / (seen.starts + PRIOR_ATTEMPTS),
    )


def _stacked(table: OfferTable, capacity_types: Codes, startup_s: Numbers) -> Numbers:
    """Start share, loss rate and logarithm of the start-up time before anything was tried, one row each."""
    return np.stack([*_priors_of(table, capacity_types), np.log(startup_s)])


def _priors_of(table: OfferTable, capacity_types: Codes) -> tuple[Numbers, Numbers]:
    """Start share and loss rate before anything was tried, one each per code; fresh arrays."""
    starts, rates = _priors(table)
    return starts.take(capacity_types), rates.take(capacity_types)


def _priors(table: OfferTable) -> tuple[Numbers, Numbers]:
    """The same, one each per word."""
    known: tuple[Numbers, Numbers] | None = table.of_words.get("priors")
    if known is None:
        priors = [PRIORS[CapacityType(text)] for text in table.words["capacity_type"].texts]
        known = table.of_words["priors"] = (
            np.array([prior.start_share for prior in priors], dtype=np.float64),
            np.array([prior.losses_per_hour for prior in priors], dtype=np.float64),
        )
    return known


COLUMNS = {
    Level.OFFER: ("id",),
    Level.PLACE: ("provider", "region", "gpu_model", "capacity_type"),
    Level.PROVIDER: ("provider", "capacity_type"),
    Level.CAPACITY: ("capacity_type",),
}


def _keys(table: OfferTable, level: Level) -> Keys:
    """The group of this level that each row belongs to, as ``_key`` numbers it; made once per snapshot."""
    columns = COLUMNS[level]
    if len(columns) == 1:
        column: Codes = getattr(table, columns[0])
        return column

    def make(whole: OfferTable) -> Keys:
        keys: NDArray[np.int64] = getattr(whole, columns[0]).astype(np.int64)
        for column in columns[1:]:
            keys *= len(whole.words[column].texts)
            keys += getattr(whole, column)
        return keys

    return table.worked(f"keys of {level}", make)


def _groups(experience: Experience, table: OfferTable, now_ms: int) -> Mapping[Level, Groups]:
    """All tried groups by level, as codes of the table's words and as they count now; the last ones are kept."""
    faded = table.of_words.get("faded")
    if faded is None or faded[0] is not experience or faded[1] != now_ms:
        faded = table.of_words["faded"] = (experience, now_ms, _all_counted(experience, table).faded(now_ms))
    groups: Mapping[Level, Groups] = faded[2]
    return groups


def _counted(experience: Experience, table: OfferTable) -> Mapping[Level, Counted]:
    return _all_counted(experience, table).levels


def _all_counted(experience: Experience, table: OfferTable) -> AllCounted:
    coded = table.of_words.get("tried")
    if coded is None or coded[0] is not experience:
        coded = table.of_words["tried"] = (experience, _coded(experience, table))
    counted: AllCounted = coded[1]
    return counted


def _coded(experience: Experience, table: OfferTable) -> AllCounted:
    found: dict[Level, list[tuple[int, Tally]]] = {level: [] for level in LEVELS}
    for (level, group), tally in experience.tallies.items():
        key = _key(table, level, group)
        if key is not None:
            found[level].append((key, tally))
    for pairs in found.values():
        pairs.sort(key=lambda pair: pair[0])
    words = {level: [len(table.words[column].texts) for column in COLUMNS[level]] for level in LEVELS}
    return AllCounted.of(found, {level: math.prod(counts) for level, counts in words.items()})


def _key(table: OfferTable, level: Level, group: str) -> int | None:
    """One number for a group of offers; ``None`` when no offer of the table is in it."""
    columns = COLUMNS[level]
    parts = (group,) if len(columns) == 1 else tuple(group.split(BETWEEN))
    key = 0
    for column, part in zip(columns, parts, strict=True):
        code = table.words[column].find(part)
        if code is None:
            return None
        key = key * len(table.words[column].texts) + code
    return key


@dataclass(frozen=True, kw_only=True)
class Course:
    """What one successful workload takes on an offer, attempts that fail included; per row of a table."""

    hours: Numbers
    attempts: Numbers


def expected_course(
    running_h: float, startup_h: Numbers, believed: Beliefs, *, resumable: bool, checkpoint_h: float
) -> Course:
    """Paid hours and attempts until one run of ``running_h`` hours has ended well.

    A program that starts over needs, with the chance S(T) that nothing is lost within T hours, the integral of S up to
    T over S(T) running hours and 1 / S(T) starts in the mean (a renewal argument); one that resumes repeats, at each
    loss, half a checkpoint interval. Every start is paid for from the request on, and fails with chance 1 - s.
    """
    running, tries = _run_and_tries(
        running_h, believed.start_share, believed.losses_per_hour, resumable=resumable, checkpoint_h=checkpoint_h
    )
    return Course(hours=running + tries * startup_h, attempts=tries)


def untried_course(
    running_h: float, startup_h: Numbers, table: OfferTable, *, resumable: bool, checkpoint_h: float
) -> Course:
    """The same where nothing was tried: all but the start-up time depends on the kind of capacity alone."""
    of_kind = _run_and_tries(running_h, *_priors(table), resumable=resumable, checkpoint_h=checkpoint_h)
    running, tries = (values.take(table.capacity_type) for values in of_kind)
    return Course(hours=running + tries * startup_h, attempts=tries)


def _run_and_tries(
    running_h: float, start_share: Numbers, losses_per_hour: Numbers, *, resumable: bool, checkpoint_h: float
) -> tuple[Numbers, Numbers]:
    """Running hours, and starts until one has ended well."""
    rate = np.maximum(losses_per_hour, 1e-9)
    if resumable:
        running = running_h * (1.0 + rate * checkpoint_h / 2.0)
        begun = 1.0 + rate * running
    else:
        survives = undisturbed(rate, running_h)
        grown = (1.0 + rate * running_h / LOSS_SHAPE) ** (1.0 - LOSS_SHAPE) - 1.0
        running = grown * LOSS_SHAPE / ((1.0 - LOSS_SHAPE) * rate) / survives
        begun = 1.0 / survives
    tries: Numbers = begun / np.maximum(start_share, 0.01)
    return running, tries


def undisturbed(losses_per_hour: Numbers, hours: float) -> Numbers:
    """The chance that nothing is lost within some hours of one start: (1 + r T / k) ** -k.

    Losses come in bursts: what has lasted tends to last on. That is a Poisson process whose rate differs from start to
    start by a gamma distribution of shape k and the stated mean.
    """
    chance: Numbers = (1.0 + losses_per_hour * hours / LOSS_SHAPE) ** -LOSS_SHAPE
    return chance
