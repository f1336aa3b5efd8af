"""Every read, for REST, command line and agents alike. It changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from placet.domain.account import Account
from placet.domain.allocations import ContractCard, LogChunk
from placet.domain.calibration import Calibration, Outcome
from placet.domain.decisions import Decision
from placet.domain.listings import Corrected, Quarantined
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Drop, Offer
from placet.domain.records import Artifact, Attempt, Event, EventKind, Record, Workload, WorkloadFilter
from placet.domain.spec import Spec
from placet.domain.states import WORKLOAD_FINAL, WorkloadState
from placet.engine.effects import log_location
from placet.engine.market import LISTS_WITHIN_S, Market
from placet.ports.ambient import Clock
from placet.ports.artifacts import Artifacts
from placet.ports.provider import Provider
from placet.ports.store import Store
from placet.stages import calibration
from placet.stages.account import account
from placet.stages.explaining import Replay, WhatIf, again, replay, what_if
from placet.stages.placement import why_not

# A follower that hears nothing looks again after this long, so that a lost hint costs time and nothing else.
FOLLOW_LOOK_S = 2.0
FOLLOW_PAGE = 200
# Growing logs give no hint; they are read again this soon, and then less and less often while nothing comes.
LOG_LOOK_S = 0.05
LOG_LOOK_MAX_S = 1.0
PIECE_BYTES = 256 * 1024
ACCOUNT_EVENTS = 1000
EXPLAINED_MAX = 20  # the last so many attempts
CORRECTED_MAX = 1000
CALIBRATED_MAX = 10_000
CALIBRATED_PAGE = 200


@dataclass(frozen=True, kw_only=True)
class LogPage:
    """Bytes of one stream of one attempt; ``sealed`` when nothing will follow ``next_offset``."""

    epoch: int
    stream: str
    offset: int
    data: bytes
    next_offset: int
    dropped: int
    sealed: bool


@dataclass(frozen=True, kw_only=True)
class QueryPorts:
    """What queries read from."""

    store: Store
    artifacts: Artifacts
    providers: Mapping[str, Provider]
    clock: Clock
    offers: Market
    link_s: int = 900


@dataclass(frozen=True, kw_only=True)
class OfferList:
    """Some offers, and how many more there are."""

    offers: tuple[Offer, ...]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One choice, what would have won if, the kept offers that were dropped, and the choice made again if asked."""

    decision: Decision
    drops: tuple[Drop, ...]
    what_if: tuple[WhatIf, ...]
    replay: Replay | None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A workload and the choices behind its attempts, as far as they were recorded."""

    record: Record
    explained: tuple[Explained, ...]


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """What was not believed of price lists, and what only after a correction; and how much more of each there is."""

    quarantined: tuple[Quarantined, ...]
    left_out: int
    corrected: tuple[Corrected, ...]
    corrected_left_out: int


class Queries:
    """Reads for one tenant at a time; what another tenant owns does not exist."""

    def __init__(self, ports: QueryPorts) -> None:
        self._ports = ports
        self._changed: dict[str, set[asyncio.Event]] = {}

    def stored(self, workload_ids: frozenset[str]) -> None:
        """A hint from the store that wakes the followers of these workloads; an empty set wakes all."""
        for workload_id in workload_ids or frozenset(self._changed):
            for event in self._changed.get(workload_id, ()):
                event.set()

    async def get(self, tenant: str, workload_id: str) -> Record | None:
        """A workload with its attempts."""
        records = await self._ports.store.load([workload_id])
        return records[0] if records and records[0].workload.tenant == tenant else None

    async def list(self, wanted: WorkloadFilter) -> Sequence[Workload]:
        """Workloads, newest first."""
        return await self._ports.store.list(wanted)

    async def simulated(self, workloads: Sequence[Workload]) -> frozenset[str]:
        """The ids of those that were tried on what is not real. Others are not looked up: they name no provider, and no
        provider of this server is simulated."""
        here = any(provider.card.simulated for provider in self._ports.providers.values())
        perhaps = [one.id for one in workloads if one.epoch and (here or one.spec.constraints.providers.allowed)]
        records = await self._ports.store.load(perhaps) if perhaps else []
        return frozenset(
            record.workload.id for record in records if any(attempt.placement.simulated for attempt in record.attempts)
        )

    async def counts(self) -> dict[WorkloadState, int]:
        """How many workloads are in each state."""
        return await self._ports.store.counts()

    async def events(self, tenant: str, workload_id: str, after_seq: int, limit: int) -> Sequence[Event] | None:
        """A page of the account's lines."""
        if await self._ports.store.find(tenant, workload_id) is None:
            return None
        return await self._ports.store.events(workload_id, after_seq=after_seq, limit=limit)

    async def find(self, tenant: str, workload_id: str) -> Workload | None:
        """A workload."""
        return await self._ports.store.find(tenant, workload_id)

    async def follow_events(self, workload: Workload, after_seq: int) -> AsyncIterator[Sequence[Event]]:
        """Events as they come, as many at once as there are; ends with the end of the workload.

        Nothing is skipped or repeated.
        """
        final = workload.final
        with _Watched(self._changed, workload.id) as changed:
            while True:
                changed.clear()
                page = await self._ports.store.events(workload.id, after_seq=after_seq, limit=FOLLOW_PAGE)
                if page:
                    after_seq = page[-1].seq
                    final = final or any(map(_ends, page))
                    yield page
                if len(page) == FOLLOW_PAGE:
                    continue
                if final:
                    return
                await _heard(changed, FOLLOW_LOOK_S)

    async def logs(
        self, tenant: str, workload_id: str, *, epoch: int | None, stream: str, offset: int, limit: int
    ) -> LogPage | None:
        """At most ``limit`` bytes of a stream from an offset; ``None`` when there is no such workload or attempt."""
        record = await self.get(tenant, workload_id)
        attempt = None if record is None else _attempt(record, epoch)
        if record is None or attempt is None:
            return None
        data = bytearray()
        dropped, sealed = 0, False
        async for chunk in self._pieces(record.workload, attempt, stream, offset):
            if chunk.dropped and data:
                break
            dropped = dropped or chunk.dropped
            offset = chunk.offset if not data else offset
            room = limit - len(data)
            data += chunk.data[:room]
            if len(chunk.data) >= room:
                sealed = chunk.final and len(chunk.data) == room
                break
            sealed = chunk.final
        return LogPage(
            epoch=attempt.epoch,
            stream=stream,
            offset=offset,
            data=bytes(data),
            next_offset=offset + len(data),
            dropped=dropped,
            sealed=sealed,
        )

    async def follow_logs(
        self, tenant: str, workload_id: str, *, epoch: int | None, stream: str, offset: int
    ) -> AsyncIterator[LogChunk]:
        """Bytes as they come, until the stream is sealed. Without an epoch, the newest attempt's from its start."""
        pause_s = LOG_LOOK_S
        with _Watched(self._changed, workload_id) as changed:
            while True:
                changed.clear()
                record = await self.get(tenant, workload_id)
                if record is None:
                    return
                attempt = _attempt(record, epoch)
                grown = False
                if attempt is not None:
                    epoch = attempt.epoch
                    async for chunk in self._pieces(record.workload, attempt, stream, offset):
                        offset = chunk.offset + len(chunk.data)
                        grown = grown or bool(chunk.data)
                        if chunk.data or chunk.dropped or chunk.final:
                            yield chunk
                        if chunk.final:
                            return
                if record.workload.final and not grown:
                    return
                pause_s = LOG_LOOK_S if grown else min(pause_s * 2, LOG_LOOK_MAX_S)
                await _heard(changed, pause_s)

    async def _pieces(self, workload: Workload, attempt: Attempt, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        """From the artifact store once the log is kept there, else from the provider."""
        seal = next((seal for seal in attempt.logs if seal.stream == stream), None)
        location = log_location(self._ports.artifacts, workload, attempt.epoch, stream)
        kept = None if seal is None else await self._ports.artifacts.stat(location)
        if seal is not None and (kept is not None or seal.bytes_kept == 0):
            async for chunk in self._kept(location, offset, seal.bytes_kept, seal.bytes_total - seal.bytes_kept):
                yield chunk
            return
        sealed = False
        if attempt.handle is not None and attempt.released_ms is None:
            async for chunk in self._ports.providers[attempt.provider].logs(attempt.handle, stream, offset):
                offset, sealed = chunk.offset + len(chunk.data), chunk.final
                yield chunk
        if seal is not None and not sealed and await self._ports.artifacts.stat(location) is not None:
            # It was moved and deleted at the provider since this record was read.
            async for chunk in self._kept(location, offset, seal.bytes_kept, seal.bytes_total - seal.bytes_kept):
                yield chunk

    async def _kept(self, location: str, offset: int, size_bytes: int, dropped: int) -> AsyncIterator[LogChunk]:
        if offset < size_bytes:
            async for data in self._ports.artifacts.read(location, offset, size_bytes - offset):
                yield LogChunk(stream="", offset=offset, data=data)
                offset += len(data)
        yield LogChunk(stream="", offset=offset, data=b"", dropped=dropped, final=True)

    async def artifacts(self, tenant: str, workload_id: str) -> Sequence[Artifact] | None:
        """The delivered outputs."""
        if await self._ports.store.find(tenant, workload_id) is None:
            return None
        return await self._ports.store.artifacts(workload_id)

    async def artifact(self, tenant: str, workload_id: str, path: str, epoch: int | None) -> Artifact | None:
        """One output; without an epoch, the newest one's."""
        found = [
            artifact
            for artifact in await self.artifacts(tenant, workload_id) or ()
            if artifact.path == path and epoch in (None, artifact.epoch)
        ]
        if not found:
            return None
        return max(found, key=lambda artifact: artifact.epoch)

    def artifact_bytes(self, artifact: Artifact, start: int, stop: int) -> AsyncIterator[bytes]:
        """An output's bytes, from ``start`` to before ``stop``."""
        return self._ports.artifacts.read(artifact.location, start, stop - start)

    async def artifact_link(self, artifact: Artifact, media_type: str) -> str | None:
        """An address at the store from which the output can be had for a while; ``None`` where it has none."""
        return await self._ports.artifacts.link(
            artifact.location,
            within_s=self._ports.link_s,
            filename=artifact.path.rpartition("/")[2],
            media_type=media_type,
        )

    async def account(self, tenant: str, workload_id: str) -> Account | None:
        """The nine answers at this moment."""
        record = await self.get(tenant, workload_id)
        if record is None:
            return None
        events = await self._ports.store.events(workload_id, limit=ACCOUNT_EVENTS)
        return account(record, events, now_ms=self._ports.clock.now_ms())

    async def explanation(self, tenant: str, workload_id: str, *, replay: bool) -> Explanation | None:
        """Why each attempt runs where it runs."""
        record = await self.get(tenant, workload_id)
        if record is None:
            return None
        decisions = await self._ports.store.decisions(workload_id)
        spec = record.workload.spec

        def all_explained() -> tuple[Explained, ...]:
            return tuple([_explained(spec, decision, replay) for decision in decisions[-EXPLAINED_MAX:]])

        return Explanation(record=record, explained=await asyncio.to_thread(all_explained))

    async def calibration(self, tenant: str, limit: int) -> Calibration:
        """Forecasts against what became of them, over so many of the tenant's workloads that ended, newest first."""
        considered, before = 0, None
        outcomes: list[Outcome] = []
        while considered < limit:
            size = min(CALIBRATED_PAGE, limit - considered)
            states = tuple(sorted(WORKLOAD_FINAL))
            page = await self._ports.store.list(WorkloadFilter(tenant=tenant, states=states, before=before, limit=size))
            records = {record.workload.id: record for record in await self._ports.store.load([one.id for one in page])}
            compared = (calibration.outcome(records[one.id]) for one in page if one.id in records)
            outcomes += [one for one in compared if one is not None]
            considered += len(page)
            if len(page) < size:
                break
            before = page[-1].id
        rows = await asyncio.to_thread(calibration.calibrate, outcomes)
        return Calibration(considered=considered, rows=rows, outcomes=tuple(outcomes))

    async def result(self, tenant: str, workload_id: str) -> str | None:
        """The final document, once there is one."""
        if await self._ports.store.find(tenant, workload_id) is None:
            return None
        return await self._ports.store.result(workload_id)

    async def offers(self, *, connected: bool | None, limit: int) -> OfferList:
        """Offers, price lists included: those that can be dispatched to first, then by price."""
        market = self._ports.offers
        await market.settled(LISTS_WITHIN_S)
        table = market() if connected else market.everything()
        rows = np.lexsort((table.price_micro, ~table.connected))
        if connected is False:
            rows = rows[~table.connected[rows]]
        offers = tuple(table.offer(int(row)) for row in rows[:limit])
        return OfferList(offers=offers, left_out=len(rows) - len(offers))

    async def quarantine(self, limit: int) -> Quarantine:
        """What price lists say and was not believed, source by source, and what only after a correction."""
        market = self._ports.offers
        await market.settled(LISTS_WITHIN_S)
        shelves = market.listed.shelves
        aside = tuple(islice((one for shelf in shelves for one in shelf.quarantined), limit))
        corrected = tuple(islice((one for shelf in shelves for one in shelf.corrected), CORRECTED_MAX))
        return Quarantine(
            quarantined=aside,
            left_out=sum(len(shelf.quarantined) for shelf in shelves) - len(aside),
            corrected=corrected,
            corrected_left_out=sum(len(shelf.corrected) for shelf in shelves) - len(corrected),
        )

    def stale(self, offer: Offer) -> bool:
        """Is its price older than its list may be, or was it not confirmed by the last reading?"""
        return self._ports.offers.stale(offer, self._ports.clock.now_ms())

    def providers(self) -> tuple[tuple[str, ContractCard, Sequence[Offer]], ...]:
        """Every provider with its card and what it offers now."""
        return tuple((name, each.card, each.offers()) for name, each in self._ports.providers.items())

    @property
    def market(self) -> Market:
        """Where offers are from."""
        return self._ports.offers


def _ends(event: Event) -> bool:
    """Is it the last move of a workload? An account goes no further."""
    return event.kind is EventKind.MOVED and event.to_state in WORKLOAD_FINAL


def _explained(spec: Spec, decision: Decision, replayed: bool) -> Explained:
    return Explained(
        decision=decision,
        drops=why_not(again(spec, decision), OfferTable.of(decision.offers)),
        what_if=what_if(spec, decision),
        replay=replay(spec, decision) if replayed else None,
    )


class _Watched:
    """Registers an event that the store's hints set, for as long as somebody follows."""

    def __init__(self, registry: dict[str, set[asyncio.Event]], workload_id: str) -> None:
        self._registry, self._workload_id = registry, workload_id
        self._event = asyncio.Event()

    def __enter__(self) -> asyncio.Event:
        self._registry.setdefault(self._workload_id, set()).add(self._event)
        return self._event

    def __exit__(self, *_: object) -> None:
        followers = self._registry[self._workload_id]
        followers.discard(self._event)
        if not followers:
            del self._registry[self._workload_id]


async def _heard(changed: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):  # wait_for may swallow a cancellation
            await changed.wait()
    except TimeoutError:
        return


def _attempt(record: Record, epoch: int | None) -> Attempt | None:
    if epoch is None:
        return record.attempts[-1] if record.attempts else None
    return next((attempt for attempt in record.attempts if attempt.epoch == epoch), None)
