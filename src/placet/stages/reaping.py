"""Which of the allocations that bear our mark nobody stands for any more, and which of those are to be deleted.

A create that lands after its attempt was given up, a second machine of one name, a machine that a restored database
has never heard of: each is found only in the provider's own list. What is not certainly ours is shown and left alone.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from placet.domain.allocations import ContractCard, Handle
from placet.domain.orphans import Orphan, OrphanReason, closed, requested
from placet.domain.records import Attempt, Record
from placet.domain.states import AttemptState, OrphanState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.stages.billing import price_usd_per_hour
from placet.stages.dispatch import workload_of

# Of what one list shows, at most this share is begun to be deleted at a time, and always so many.
SHARE_MAX = 0.25
ALWAYS = 5
# A twin is believed when it was seen so often.
TWIN_SIGHTINGS = 2
# A list may be so old: what it no longer shows is believed gone, and what it still shows is believed there, after that.
LIST_AGE_MS = 60 * SECOND_MS
REAPER = "reaper"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What may be deleted without being asked for: what no record tells of only if ``unknown``, and never at once.

    With ``nothing`` nothing is.
    """

    nothing: bool = False
    unknown: bool = False
    quarantine_ms: int = 600 * SECOND_MS
    sightings: int = 3


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One provider's own list, whole, with what is recorded of the workloads it names and of the orphans known."""

    handles: tuple[Handle, ...]
    card: ContractCard
    records: Mapping[str, Record] = field(default_factory=dict)
    known: Mapping[str, Orphan] = field(default_factory=dict)
    any_recorded: bool = True


@dataclass(frozen=True, kw_only=True)
class Reaping:
    """The orphans that are new or changed, to be written first, and those to be deleted then."""

    changed: tuple[Orphan, ...]
    release: tuple[Orphan, ...]


def reap(listed: Listed, rules: Rules, *, now_ms: int) -> Reaping:
    """Judge every allocation of one list, and every open orphan that is not in it."""
    seen = {orphan.id: orphan for orphan in _seen(listed, now_ms)}
    left = max(ALWAYS, math.floor(len(listed.handles) * SHARE_MAX))
    for orphan in sorted(seen.values(), key=lambda orphan: (orphan.first_seen_ms, orphan.id)):
        if left and orphan.state is OrphanState.LISTED and _deletable(orphan, listed, rules, now_ms):
            seen[orphan.id] = requested(orphan, REAPER, now_ms)
            left -= 1
    gone = [closed(orphan, proof, now_ms) for orphan, proof in _not_seen(listed, seen, now_ms)]
    changed = {**seen, **{orphan.id: orphan for orphan in gone}}
    release = ({**listed.known, **changed}).values()
    return Reaping(
        changed=tuple(changed.values()),
        release=tuple(orphan for orphan in release if orphan.state is OrphanState.RELEASING),
    )


def _seen(listed: Listed, now_ms: int) -> Iterator[Orphan]:
    for handle in listed.handles:
        attempt = _attempt_of(handle, listed.records)
        reason = _reason(handle, attempt)
        if reason is None:
            continue
        price = handle.price_usd_per_hour
        fresh = Orphan(
            handle=handle,
            reason=reason,
            state=OrphanState.LISTED,
            first_seen_ms=now_ms,
            last_seen_ms=now_ms,
            price_usd_per_hour=price if price is not None else _price(attempt),
        )
        known = listed.known.get(fresh.id)
        if known is None or (known.closed_ms is not None and now_ms - known.closed_ms >= _wait_ms(listed.card)):
            yield fresh
        elif known.open:
            yield evolve(known, reason=reason, last_seen_ms=now_ms, sightings=known.sightings + 1)


def _attempt_of(handle: Handle, records: Mapping[str, Record]) -> Attempt | None:
    record = records.get(workload_of(handle.key) or "")
    if record is None:
        return None
    return next((attempt for attempt in record.attempts if attempt.key == handle.key), None)


def _price(attempt: Attempt | None) -> Decimal | None:
    return None if attempt is None else price_usd_per_hour(attempt)


def _reason(handle: Handle, attempt: Attempt | None) -> OrphanReason | None:
    if attempt is None:
        return OrphanReason.NO_RECORD
    if handle.nonce and handle.nonce != attempt.nonce:
        return OrphanReason.FOREIGN
    if attempt.state is AttemptState.REFUSED or (attempt.final and attempt.released_ms is not None):
        return OrphanReason.OVER
    known = attempt.handle
    if known is not None and known.native_id and handle.native_id and known.native_id != handle.native_id:
        return OrphanReason.TWIN
    return None


def _deletable(orphan: Orphan, listed: Listed, rules: Rules, now_ms: int) -> bool:
    match orphan.reason:
        case _ if rules.nothing:
            return False
        case OrphanReason.OVER:
            return True
        case OrphanReason.TWIN:
            return orphan.sightings >= TWIN_SIGHTINGS
        case OrphanReason.NO_RECORD:
            age_ms = now_ms - orphan.first_seen_ms
            settled = age_ms >= rules.quarantine_ms and orphan.sightings >= rules.sightings
            return rules.unknown and listed.any_recorded and settled
        case OrphanReason.FOREIGN:
            return False


def _not_seen(listed: Listed, seen: Mapping[str, Orphan], now_ms: int) -> Iterator[tuple[Orphan, str]]:
    """Open ones that somebody stands for again, or that a complete list has not shown for long enough."""
    here = {(handle.key, handle.native_id) for handle in listed.handles}
    for orphan in listed.known.values():
        if not orphan.open or orphan.id in seen:
            continue
        if (orphan.handle.key, orphan.handle.native_id) in here:
            yield orphan, "an attempt stands for it"
        elif listed.card.lists_completely and now_ms - orphan.last_seen_ms >= _wait_ms(listed.card):
            yield orphan, f"not in the complete list of {orphan.handle.provider} any more"


def _wait_ms(card: ContractCard) -> int:
    return max(LIST_AGE_MS, int(card.visibility_s * SECOND_MS))
