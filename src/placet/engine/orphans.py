"""What people see of orphans and ask for. The reaper finds them and deletes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placet.domain.orphans import Orphan, OrphanReason, requested
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.store import Store

CLOSED_SHOWN_MS = 7 * 24 * 3_600_000


@dataclass(frozen=True, kw_only=True)
class NotOurs:
    """It is not deleted, whoever asks: nothing proves that it is ours."""

    orphan: Orphan


class Orphans:
    """The use cases. ``sweep_now`` makes the reaper look at once."""

    def __init__(self, store: Store, clock: Clock, sweep_now: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._sweep_now = sweep_now

    async def listed(self, *, with_closed: bool = False) -> Sequence[Orphan]:
        """Open ones, and those closed in the last week where they are asked for."""
        since_ms = self._clock.now_ms() - CLOSED_SHOWN_MS if with_closed else None
        return await self._store.orphans(closed_since_ms=since_ms)

    async def delete(self, orphan_id: str, actor: str) -> Orphan | NotOurs | None:
        """Ask for its deletion; ``None`` when there is no such orphan. Repeating it changes nothing."""
        orphan = await self._store.orphan(orphan_id)
        if orphan is None or not orphan.open:
            return orphan
        if orphan.reason is OrphanReason.FOREIGN:
            return NotOurs(orphan=orphan)
        wanted = requested(orphan, actor, self._clock.now_ms())
        if wanted is not orphan:
            await passing(Point.ORPHANS, self._store.put_orphans([wanted]))
        self._sweep_now()
        return wanted
