"""A server's store in the world: the real one, whose disk is slow, full, busy or silent when that is drawn."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from placet.adapters.store.batch import Item, Move
from placet.adapters.store.link import Database, Link
from placet.adapters.store.memory import Listener, LoopWriter, MemoryDatabase, MemoryStore
from placet.adapters.store.readers import Readers
from placet.adapters.store.writer import Fault
from placet.domain.errors import StoreBusy, StoreFull, StoreUnknown
from placet.testing.world.faults import Faults
from placet.testing.world.process import Process

T = TypeVar("T")

COMMIT_S = 0.002


class Disk:
    """What all servers share: one database, times without room, and a power switch."""

    def __init__(self, database: MemoryDatabase, faults: Faults, faults_s: float) -> None:
        self.database = database
        self.power_cut: Callable[[], None] = lambda: None
        self._faults = faults
        self._full_s = (0.0, 0.0)
        if faults.hit("store_full"):
            begin_s = faults.between("store_full", 0, faults_s)
            self._full_s = (begin_s, begin_s + faults.between("store_full", 10, 300))

    def full(self, now_s: float) -> bool:
        """Is there no room at this moment?"""
        return self._faults.on and self._full_s[0] <= now_s < self._full_s[1]


class WorldWriter(LoopWriter):
    """Commits what the process hands in, unless it is drawn otherwise."""

    def __init__(self, database: Database, changed: Listener, process: Process, disk: Disk, faults: Faults) -> None:
        super().__init__(database, changed)
        self._process = process
        self._disk = disk
        self._faults = faults

    def pause_s(self) -> float:
        return self._faults.between("store_slow", 0.1, 12) if self._faults.hit("store_slow") else COMMIT_S

    async def write(self, items: Sequence[Item]) -> None:
        if any(isinstance(item, Move) for item in items) and self._faults.hit("held_write"):
            self._process.pause(self._faults.between("held_write", 45, 240))
        await self._process.turn("before a write")
        await super().write(items)
        await self._process.turn("after a write")

    def _transact(self, items: Sequence[Item]) -> tuple[Fault | None, frozenset[str]]:
        if self._faults.hit("power_cut"):
            self._disk.power_cut()
            return (lambda: StoreUnknown("the power is gone")), frozenset()
        if self._disk.full(self._process.loop.time()):
            return (lambda: StoreFull("no room")), frozenset()
        if self._faults.hit("store_busy"):
            return (lambda: StoreBusy("locked")), frozenset()
        unknown = self._faults.hit("store_unknown")
        if unknown and self._faults.between("store_unknown", 0, 1) < 0.5:
            return (lambda: StoreUnknown("broken off")), frozenset()
        fault, touched = super()._transact(items)
        if unknown and fault is None:
            return (lambda: StoreUnknown("broken off")), frozenset()
        return fault, touched


class WorldReaders(Readers):
    """Reads at once; before and after it the process may die."""

    def __init__(self, database: Database, process: Process, faults: Faults) -> None:
        super().__init__(database, threads=1)
        self._process = process
        self._faults = faults

    async def read(self, act: Callable[[Link], T], *, one_moment: bool = False) -> T:
        await self._process.turn("before a read")
        if self._faults.hit("store_busy"):
            raise StoreBusy("locked")
        found = await super().read(act, one_moment=one_moment)
        await self._process.turn("after a read")
        return found


class WorldStore(MemoryStore):
    """The store of one process."""

    def __init__(self, disk: Disk, process: Process, faults: Faults) -> None:
        super().__init__(disk.database, lambda database, changed: WorldWriter(database, changed, process, disk, faults))
        self._readers = WorldReaders(disk.database, process, faults)
