"""What sources of listings said last. Each is read in the background at its own pace; one that fails keeps its offers.

There is no thread and no timer where there is no source. Readers never wait: they get whole snapshots, which are
replaced and never changed.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from placet.domain.errors import CatalogUnreadable
from placet.domain.listings import Corrected, Quarantined
from placet.domain.offer_table import OfferTable
from placet.domain.values import evolve
from placet.ports.ambient import Clock
from placet.ports.catalog import Catalog, Found

# After a failure a source is tried again after this long, then twice as long each time, up to its pace or an hour.
RETRY_S = 30.0
RETRY_MOST_S = 3600.0
# Each pause is this share shorter or longer by chance, so that servers do not ask all at once.
JITTER_SHARE = 0.1
EMPTY = OfferTable.of([])


@dataclass(frozen=True, kw_only=True)
class Pace:
    """``every_s`` is the pause between two readings, ``None`` for what never changes; ``within_s`` bounds each one.

    Prices older than ``stale_s`` are stale, however lately they were read.
    """

    every_s: float | None
    within_s: float
    stale_s: float


@dataclass(frozen=True, kw_only=True)
class Source:
    """A catalogue and how often it is read."""

    catalog: Catalog
    pace: Pace


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """What one source has given: its last good reading with its time, and why later ones failed.

    ``version`` is that of the reading, ``priced_ms`` the time of its newest price. ``hidden`` counts offers that an
    earlier source lists too, whose are taken.
    """

    name: str
    stale_s: float
    table: OfferTable = EMPTY
    version: str = ""
    quarantined: tuple[Quarantined, ...] = ()
    corrected: tuple[Corrected, ...] = ()
    warnings: tuple[str, ...] = ()
    hidden: int = 0
    priced_ms: int = 0
    read_ms: int | None = None
    tried_ms: int | None = None
    failures: int = 0
    failure: str = ""
    fix: str = ""

    def stale(self, now_ms: int) -> bool:
        """Are all its prices older than they should be, or unconfirmed by the last reading?"""
        return bool(self.failure) or self.outdated(self.priced_ms, now_ms)

    def outdated(self, priced_ms: int, now_ms: int) -> bool:
        """Is a price of that time too old?"""
        return priced_ms > 0 and now_ms - priced_ms > self.stale_s * 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """All shelves in the order of the sources, and their offers as one table."""

    shelves: tuple[Shelf, ...]
    table: OfferTable


class Catalogs:
    """Reads sources. ``chance`` gives numbers from 0 to 1."""

    def __init__(self, sources: Sequence[Source], clock: Clock, chance: Callable[[], float]) -> None:
        self._sources, self._clock, self._chance = tuple(sources), clock, chance
        self._running: list[asyncio.Task[None]] = []
        self._tried = asyncio.Event()
        self._building = asyncio.Lock()
        shelves = tuple(Shelf(name=source.catalog.name, stale_s=source.pace.stale_s) for source in sources)
        self._snapshot = Snapshot(shelves=shelves, table=EMPTY)

    @property
    def snapshot(self) -> Snapshot:
        """What is known now."""
        return self._snapshot

    def start(self) -> None:
        """Begin to read, one background activity a source."""
        self._running = [
            asyncio.create_task(self._keep(source), name=f"catalog {source.catalog.name}") for source in self._sources
        ]

    async def stop(self) -> None:
        """End all reading. Idempotent."""
        for activity in self._running:
            activity.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = []

    async def settled(self, within_s: float) -> None:
        """Wait until every source was tried once, or for that long."""
        if not self._running or self._tried.is_set():
            return
        try:
            async with asyncio.timeout(within_s):
                await self._tried.wait()
        except TimeoutError:
            return  # who looks is told which sources were not read yet

    async def _keep(self, source: Source) -> None:
        while True:
            shelf = await self._refresh(source)
            pause_s = _pause_s(source.pace, shelf.failures)
            if pause_s is None:
                return
            await self._clock.pause(pause_s * (1 + JITTER_SHARE * (2 * self._chance() - 1)))

    async def _refresh(self, source: Source) -> Shelf:
        """One reading, on the shelf when this ends, or why there is none."""
        name = source.catalog.name
        try:
            async with asyncio.timeout(source.pace.within_s):
                found = await source.catalog.read(self._shelf(name).version)
            return await self._shelve(name, found)
        except TimeoutError:
            why, fix = f"no answer within {source.pace.within_s:g} s", "allow it more time, or leave the source out"
        except CatalogUnreadable as error:
            why, fix = str(error), error.fix
        except Exception as error:  # noqa: BLE001 - a fault of one source must not end the server; it is shown
            why, fix = f"a fault in Placet: {type(error).__name__}: {error}", "report it, and leave the source out"
        shelf = self._shelf(name)
        failed = evolve(shelf, tried_ms=self._clock.now_ms(), failures=shelf.failures + 1, failure=why, fix=fix)
        return self._put(failed, self._snapshot.table)

    async def _shelve(self, name: str, found: Found | None) -> Shelf:
        now_ms = self._clock.now_ms()
        if found is None:
            return self._put(_good(self._shelf(name), now_ms), self._snapshot.table)
        async with self._building:
            shelf = await asyncio.to_thread(_filled, _good(self._shelf(name), now_ms), found)
            shelves = tuple(shelf if one.name == name else one for one in self._snapshot.shelves)
            hidden, table = await asyncio.to_thread(_joined, shelves)
            for other in self._snapshot.shelves:
                if other.name != name:
                    self._put(evolve(other, hidden=hidden[other.name]), table)
            return self._put(evolve(shelf, hidden=hidden[name]), table)

    def _shelf(self, name: str) -> Shelf:
        return next(shelf for shelf in self._snapshot.shelves if shelf.name == name)

    def _put(self, shelf: Shelf, table: OfferTable) -> Shelf:
        shelves = tuple(shelf if one.name == shelf.name else one for one in self._snapshot.shelves)
        self._snapshot = Snapshot(shelves=shelves, table=table)
        if all(one.tried_ms is not None for one in shelves):
            self._tried.set()
        return shelf


def _pause_s(pace: Pace, failures: int) -> float | None:
    """How long until the next reading; ``None`` for never."""
    if not failures:
        return pace.every_s
    most_s = RETRY_MOST_S if pace.every_s is None else min(pace.every_s, RETRY_MOST_S)
    return min(RETRY_S * 2.0 ** min(failures - 1, 20), most_s)


def _good(shelf: Shelf, now_ms: int) -> Shelf:
    """The shelf after a reading that went well."""
    return evolve(shelf, read_ms=now_ms, tried_ms=now_ms, failures=0, failure="", fix="")


def _filled(shelf: Shelf, found: Found) -> Shelf:
    """The shelf with what was found, as far as it is believed. Of a large list this takes seconds."""
    from placet.stages.listing import normalise  # most servers read no list

    with _uncollected():
        made = normalise(found.listings)
        table = OfferTable.of(made.offers)
    _ = table.words["id"].hashes  # made here, where nobody waits
    return evolve(
        shelf,
        table=table,
        version=found.version,
        quarantined=made.quarantined,
        corrected=made.corrected,
        warnings=found.warnings,
        priced_ms=int(table.priced_ms.max(initial=0)),
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: it stops the whole process, for longer the more objects a list is made of."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _joined(shelves: Sequence[Shelf]) -> tuple[dict[str, int], OfferTable]:
    """One table of all offers, and how many of each source an earlier one lists too."""
    hidden = dict.fromkeys((shelf.name for shelf in shelves), 0)
    filled = [shelf for shelf in shelves if len(shelf.table)]
    if not filled:
        return hidden, EMPTY
    seen: set[str] = set()
    for shelf in filled:
        ids = shelf.table.id_texts()
        hidden[shelf.name] = len(ids & seen)
        seen |= ids
    table = filled[-1].table
    for shelf in reversed(filled[:-1]):
        table = table.joined(shelf.table)
    _ = table.words["id"].hashes
    return hidden, table
