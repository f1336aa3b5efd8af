"""Finds at the providers what no attempt stands for any more, and deletes what may be deleted. Rows before deeds.

An attempt that is over and not proven gone is no orphan: its own workload releases it, until that is proven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placet.domain.allocations import Handle, Verb
from placet.domain.errors import ProviderError
from placet.domain.orphans import Orphan, closed
from placet.domain.records import Record
from placet.engine.effects import Effects
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.provider import Provider
from placet.ports.store import Store
from placet.stages.dispatch import workload_of
from placet.stages.reaping import Listed, Rules, reap

PAGE = 500
# A provider that lists more of ours than this is read no further: its list counts as incomplete, and nothing follows.
LISTED_MAX = 100_000
# Those that were closed so lately are known too: an old list may still show them.
CLOSED_KNOWN_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """How often, the first time soon after the start, and what may be deleted."""

    first_s: float = 5.0
    every_s: float = 60.0
    # What is being deleted is looked at again this soon, and then less and less often.
    again_s: float = 0.5
    rules: Rules = field(default_factory=Rules)


class Reaper:
    """One worker's sweeps; the next one is due at ``due_at_s`` of the monotonic clock."""

    def __init__(
        self, store: Store, providers: Mapping[str, Provider], effects: Effects, clock: Clock, sweeps: Sweeps
    ) -> None:
        self._store = store
        self._call = effects.call
        self._providers = providers
        self._clock = clock
        self._sweeps = sweeps
        self._again_s = sweeps.again_s
        self.due_at_s = clock.monotonic_s() + sweeps.first_s

    def begin(self) -> bool:
        """Is a sweep due? Whoever hears so begins it."""
        now_s = self._clock.monotonic_s()
        if now_s < self.due_at_s:
            return False
        self.due_at_s = now_s + self._sweeps.every_s
        return True

    def hurry(self) -> None:
        """Somebody asked for a deletion: the next sweep is due."""
        self._again_s = self._sweeps.again_s
        self.due_at_s = self._clock.monotonic_s()

    async def sweep(self, deployment: str) -> Sequence[Orphan]:
        """Look at every provider once; what was deleted, with its proof. Raises ``StoreError``."""
        deleted: list[Orphan] = []
        pending = 0
        for name, provider in self._providers.items():
            handles = await self._listed(name, deployment)
            if handles is not None:
                wanted, gone = await self._reap(name, provider, handles)
                deleted += gone
                pending += wanted - len(gone)
        if pending:
            self.due_at_s = min(self.due_at_s, self._clock.monotonic_s() + self._again_s)
        self._again_s = min(self._again_s * 2, self._sweeps.every_s) if pending else self._sweeps.again_s
        return deleted

    async def _reap(self, name: str, provider: Provider, handles: tuple[Handle, ...]) -> tuple[int, list[Orphan]]:
        """How many were to be deleted, and those that are."""
        records = await self._records(handles)
        since_ms = self._clock.now_ms() - CLOSED_KNOWN_MS
        known = await self._store.orphans(provider=name, closed_since_ms=since_ms)
        listed = Listed(
            handles=handles,
            card=provider.card,
            records=records,
            known={orphan.id: orphan for orphan in known},
            any_recorded=bool(records) or any((await self._store.counts()).values()),
        )
        found = reap(listed, self._sweeps.rules, now_ms=self._clock.now_ms())
        # What is to be deleted is written first. One that somebody asked for meanwhile is there for the next sweep.
        await passing(Point.ORPHANS, self._store.put_orphans(found.changed))
        deleted = []
        for orphan in found.release:
            if await self._deleted(name, orphan):
                proof = f"{name} deleted it and shows nothing of it any more"
                deleted.append(closed(orphan, proof, self._clock.now_ms()))
        await passing(Point.ORPHANS, self._store.put_orphans(deleted))
        return len(found.release), deleted

    async def _records(self, handles: Sequence[Handle]) -> dict[str, Record]:
        ids = sorted({workload_id for handle in handles if (workload_id := workload_of(handle.key)) is not None})
        records: dict[str, Record] = {}
        for start in range(0, len(ids), PAGE):
            for record in await self._store.load(ids[start : start + PAGE]):
                records[record.workload.id] = record
        return records

    async def _listed(self, name: str, deployment: str) -> tuple[Handle, ...] | None:
        """All that the provider has of ours; ``None`` when nobody can tell now."""
        handles: list[Handle] = []
        try:
            async with self._call(name, Verb.OWNED) as provider:
                async for handle in provider.owned(deployment):
                    handles.append(handle)
                    if len(handles) > LISTED_MAX:
                        return None
        except ProviderError:
            return None  # the next sweep looks again
        return tuple(handles)

    async def _deleted(self, name: str, orphan: Orphan) -> bool:
        try:
            async with self._call(name, Verb.RELEASE) as provider:
                return await passing(Point.SWEEP, provider.release(orphan.handle))
        except ProviderError:
            return False  # it stays as it is, and the next sweep asks again
