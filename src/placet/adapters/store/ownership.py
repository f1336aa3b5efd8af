"""Who owns which workload: claims of the due, the abandoned and the waiting, and giving up all at once."""

from collections.abc import Iterable

from placet.adapters.store.codec import Row, SpecCache, perhaps_number, text
from placet.adapters.store.link import Link
from placet.adapters.store.questions import records
from placet.adapters.store.sql import Statement
from placet.adapters.store.tables import workloads
from placet.domain.records import Record
from placet.ports.store import Claim

WAKE = list(workloads.c.keys()).index("wake_ms")


def claim(link: Link, cache: SpecCache, wanted: Claim) -> tuple[list[Record], Iterable[str]]:
    """What the worker owns from now on. To claim is a sign of life, so nobody takes it away again at once."""
    link.run(link.sql.beat, owner=wanted.owner, beat_ms=wanted.now_ms)
    alive_since_ms = wanted.now_ms - wanted.owner_timeout_ms
    stale = link.rows(link.sql.stale_owners, owner=wanted.owner, alive_since_ms=alive_since_ms)

    def take(statement: Statement, limit: int, **params: object) -> list[Row]:
        return link.rows(statement, new_owner=wanted.owner, limit=limit, **params) if limit > 0 else []

    rows: list[Row] = []
    if stale:
        # First, for these may be running and nobody is watching them.
        owners = link.many([text(owner) for (owner,) in stale])
        rows += sorted(take(link.sql.claim_abandoned, wanted.limit, owners=owners, now_ms=wanted.now_ms), key=_turn)
    rows += sorted(take(link.sql.claim_due, wanted.limit - len(rows), now_ms=wanted.now_ms), key=_turn)
    rows += sorted(take(link.sql.claim_waiters, wanted.capacity_waiters, after=wanted.waiters_after), key=_age)
    found = records(link, cache, rows)
    return found, [record.workload.id for record in found]


def _turn(row: Row) -> tuple[bool, int, str]:
    """Whose turn it is among the due, which come back in any order: by wake time, none first, then by age."""
    wake_ms = perhaps_number(row[WAKE])
    return wake_ms is not None, wake_ms or 0, _age(row)


def _age(row: Row) -> str:
    return text(row[0])


def retire(link: Link, owner: str) -> tuple[None, Iterable[str]]:
    freed = [text(workload_id) for (workload_id,) in link.rows(link.sql.release_all, owner=owner)]
    link.run(link.sql.worker_drop, owner=owner)
    return None, freed
