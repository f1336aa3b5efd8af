"""Allocations that bear our mark and that no attempt stands for: what each is, what it costs, what becomes of it."""

import hashlib
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from enum import StrEnum

from placet.domain.allocations import Handle
from placet.domain.states import ORPHAN_MOVES, OrphanState, advance
from placet.domain.values import evolve

HOUR_MS = 3_600_000
MICRO = Decimal("0.000001")


class OrphanReason(StrEnum):
    """Why no attempt stands for it."""

    OVER = "attempt_over"
    TWIN = "twin"
    NO_RECORD = "no_record"
    FOREIGN = "foreign"


WHY = {
    OrphanReason.OVER: "its attempt is recorded as over and deleted",
    OrphanReason.TWIN: "its attempt runs on another allocation of the same name",
    OrphanReason.NO_RECORD: "nothing is recorded of it: the database may have been restored from an older copy",
    OrphanReason.FOREIGN: "it bears the name of one of our attempts and not its mark, so that it is not ours",
}


@dataclass(frozen=True, kw_only=True)
class Orphan:
    """One of them. ``proof`` says how it is known to be gone, or why it is none any more."""

    handle: Handle
    reason: OrphanReason
    state: OrphanState
    first_seen_ms: int
    last_seen_ms: int
    sightings: int = 1
    price_usd_per_hour: Decimal | None = None
    requested_ms: int | None = None
    requested_by: str = ""
    closed_ms: int | None = None
    proof: str = ""

    @property
    def id(self) -> str:
        """The same for the same allocation, whoever saw it."""
        named = "\0".join((self.handle.provider, self.handle.key, self.handle.native_id))
        return "or_" + hashlib.blake2b(named.encode(), digest_size=8).hexdigest()

    @property
    def open(self) -> bool:
        """May it still run or cost?"""
        return self.state is not OrphanState.CLOSED

    @property
    def cost_usd(self) -> Decimal | None:
        """What it has cost since it was first seen, at least; ``None`` where nobody knows its price."""
        if self.price_usd_per_hour is None:
            return None
        cost = self.price_usd_per_hour * (self.last_seen_ms - self.first_seen_ms) / HOUR_MS
        return cost.quantize(MICRO, rounding=ROUND_UP)


def requested(orphan: Orphan, by: str, now_ms: int) -> Orphan:
    """It is to be deleted."""
    if orphan.state is OrphanState.RELEASING:
        return orphan
    state = advance(ORPHAN_MOVES, orphan.state, OrphanState.RELEASING)
    return evolve(orphan, state=state, requested_ms=now_ms, requested_by=by)


def closed(orphan: Orphan, proof: str, now_ms: int) -> Orphan:
    """It is dealt with."""
    return evolve(orphan, state=advance(ORPHAN_MOVES, orphan.state, OrphanState.CLOSED), closed_ms=now_ms, proof=proof)
