"""When a worker asks the store for more to own, and for how much: to claim costs a write, and most news needs none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placet.domain.records import Record
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.store import Claim, Store


@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """The bounds and rhythms of claims."""

    worker: str
    batch_max: int
    owner_timeout_s: float
    takeover_poll_s: float
    # Writes of other servers lead to at most one claim in this time: most of them leave nothing to claim.
    news_s: float = 0.1
    # While nothing is free, so many are looked at in this time, to be told what they wait for.
    lookahead: int = 8
    lookahead_s: float = 0.5


class Claims:
    """Due workloads are taken as places become free; those that found none are gone through once for each new place.

    Of two that are taken for one place the second is told to wait, a decision and a write for nothing, so the two
    kinds take turns. Who found no place is not asked again until there is news of one: it would only be told the same.
    """

    def __init__(self, store: Store, clock: Clock, options: ClaimOptions, free_slots: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._options = options
        self._free_slots = free_slots
        self.wanted = True
        self.due_at_s = 0.0
        # Does somebody perhaps wait who must not be overtaken?
        self.backlog = True
        self._after: str | None = ""  # the last waiter that was asked in this pass; ``None`` when all were
        self._once_more = False
        self._waiters_turn = True

    def want(self) -> None:
        """Claim as soon as possible."""
        self.wanted = True

    def freed(self) -> None:
        """There may be a new place: everyone who waits for one is asked once more."""
        if self._after is None:
            self._after = ""
        else:
            self._once_more = True
        if self.backlog and self._free_slots() > 0:
            self.wanted = True

    def queued(self) -> None:
        """There is one more to claim: at once if something is free, else it is only to be told so."""
        if self._free_slots() > 0:
            self.wanted = True
        else:
            self.soon(self._options.lookahead_s)

    def news(self) -> None:
        """Somebody else wrote what may be ours to claim."""
        self.soon(self._options.news_s)

    def soon(self, within_s: float) -> None:
        """Claim at the latest after this time."""
        self.due_at_s = min(self.due_at_s, self._clock.monotonic_s() + within_s)

    def is_due(self) -> bool:
        """Is it time?"""
        return self.wanted or self._clock.monotonic_s() >= self.due_at_s

    async def take(self, room: int) -> Sequence[Record]:
        """What is owned from now on, at most ``room``; plans the next claim. Raises ``StoreError``."""
        self.wanted = False
        self.due_at_s = self._clock.monotonic_s() + self._options.takeover_poll_s
        free = self._free_slots()
        room = min(room, self._options.batch_max)
        due = min(free or self._options.lookahead, room)
        if due <= 0:
            return ()
        now_ms = self._clock.now_ms()
        self.backlog = True  # until the answer is here nobody overtakes
        records = await self._taken(now_ms, due, min(free, room))
        self.backlog = bool(records) or free < 1
        if records and free < 1:
            self.soon(self._options.lookahead_s)
        wake_ms = await self._store.next_wake_ms()
        if wake_ms is not None and wake_ms > now_ms:
            self.soon((wake_ms - now_ms) / 1000)
        # What a dead owner left running needs no free place: all of it is taken over at once.
        running = any(record.current is not None and not record.current.final for record in records)
        if (len(records) >= due and (free > 0 or running)) or (free > 0 and self._after is not None):
            self.wanted = True
        return records

    async def _taken(self, now_ms: int, due: int, waiters: int) -> Sequence[Record]:
        if not waiters or self._after is None:
            return await self._claim(now_ms, due, 0)
        self._waiters_turn = not self._waiters_turn
        if self._waiters_turn:
            first = await self._claim(now_ms, 0, waiters)
            return [*first, *(await self._claim(now_ms, due - len(first), 0))] if len(first) < due else first
        first = await self._claim(now_ms, due, 0)
        return [*first, *(await self._claim(now_ms, 0, waiters - len(first)))] if len(first) < waiters else first

    async def _claim(self, now_ms: int, due: int, waiters: int) -> Sequence[Record]:
        wanted = Claim(
            owner=self._options.worker,
            now_ms=now_ms,
            limit=due,
            owner_timeout_ms=int(self._options.owner_timeout_s * 1000),
            capacity_waiters=waiters,
            waiters_after=self._after or "",
        )
        records = await passing(Point.CLAIM, self._store.claim(wanted))
        if waiters:
            self._go_on(records, waiters)
        return records

    def _go_on(self, asked: Sequence[Record], wanted: int) -> None:
        """Remember how far the pass is."""
        if len(asked) == wanted:
            self._after = asked[-1].workload.id
        else:
            self._after = "" if self._once_more else None
            self._once_more = False
