"""The ledger of one workload, or of a tenant's latest ones. It changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from placet.domain.records import WorkloadFilter
from placet.ports.ambient import Clock
from placet.ports.store import Store
from placet.stages.ledger import Entry, entries

WORKLOADS_MAX = 10_000
PAGE = 200


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Entries, the latest workload first, and of how many workloads they are; ``since_ms`` is when the oldest began."""

    entries: tuple[Entry, ...]
    workloads: int
    since_ms: int | None


class Ledgers:
    """The use cases."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def of_workload(self, tenant: str, workload_id: str) -> Ledger | None:
        """``None`` when there is no such workload."""
        if await self._store.find(tenant, workload_id) is None:
            return None
        return await self._ledger([workload_id])

    async def of_tenant(self, tenant: str, limit: int) -> Ledger:
        """Of so many workloads, the latest."""
        ids: list[str] = []
        while len(ids) < limit:
            wanted = WorkloadFilter(tenant=tenant, limit=min(PAGE, limit - len(ids)), before=ids[-1] if ids else None)
            page = await self._store.list(wanted)
            ids += [workload.id for workload in page]
            if len(page) < wanted.limit:
                break
        return await self._ledger(ids)

    async def _ledger(self, ids: Sequence[str]) -> Ledger:
        now_ms = self._clock.now_ms()
        found: list[Entry] = []
        since_ms: int | None = None
        orphans = await self._store.orphans(closed_since_ms=0)
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            records = {record.workload.id: record for record in await self._store.load(page)}
            for workload_id in page:
                record = records.get(workload_id)
                if record is not None:
                    found += entries(record.workload, record.attempts, now_ms, orphans)
                    since_ms = record.workload.created_ms
        return Ledger(entries=tuple(found), workloads=len(ids), since_ms=since_ms)
