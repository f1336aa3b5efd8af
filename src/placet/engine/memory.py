"""What one server keeps in mind of finished attempts: all that the store holds at the start, its own as they end, and
those of other servers soon after. It decides nothing; the store stays the truth, and what is lost here is read again.
"""

import asyncio
import math
from collections.abc import Sequence

from placet.domain.errors import StoreError
from placet.domain.lessons import NO_LESSONS, Ended, Lessons
from placet.domain.records import Transition
from placet.ports.ambient import Clock
from placet.ports.store import Store
from placet.stages.blocking import RULES
from placet.stages.lessons import REMEMBERED_MS, remember

# So many of the latest attempts are read at the start, and of those that others ended since the last reading.
READ_AT_START = 20_000
READ_AGAIN = 5_000
# Others' attempts are read this often, if there was a hint that there are some.
READ_EVERY_S = 20.0
# A row may become visible so long after the moment that it bears, clocks that differ included.
LATE_MS = 60_000
# What ended is counted in bulk, this often: decisions of one second are told the same.
COUNT_EVERY_MS = 1_000


class Memory:
    """The lessons of this moment. Used by one event loop."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lessons = NO_LESSONS
        self._news: list[Ended] = []
        self._counted_ms = 0
        self._urgent = False
        # The attempts that were heard of and that a reading could bring once more, and when they ended.
        self._seen: dict[tuple[str, int], int] = {}
        self._forgot_ms = 0
        self._read_to_ms: int | None = None
        self._wanted = True
        self._reading = False
        self._read_at_s = clock.monotonic_s()

    def lessons(self, now_ms: int) -> Lessons:
        """What decisions of this moment are told."""
        due = self._urgent or abs(now_ms - self._counted_ms) >= COUNT_EVERY_MS
        if self._news and due and not self._reading:
            news, self._news = self._news, []
            self._lessons = remember(self._lessons, news)
            self._counted_ms, self._urgent = now_ms, False
        return self._lessons

    def written(self, transition: Transition) -> None:
        """One of our own writes is stored: the attempts that ended with it are heard of here first."""
        workload = transition.workload
        for attempt in transition.attempts:
            if attempt.final and attempt.finished_ms == workload.updated_ms:
                ended = Ended.of(workload.tenant, attempt)
                self._urgent = self._urgent or ended.cause in RULES  # the next attempt must know of it
                self._news += self._fresh([ended])

    def elsewhere(self) -> None:
        """Another server wrote something, perhaps the end of an attempt."""
        self._wanted = True

    @property
    def due_at_s(self) -> float:
        """When ``read`` is to be called again, by the monotonic clock."""
        return math.inf if self._reading else self._read_at_s

    def begin(self) -> bool:
        """Is it time to read? Then ``read`` must follow."""
        due = self._clock.monotonic_s() >= self.due_at_s
        self._reading = self._reading or due
        return due

    async def read(self) -> None:
        """Take in what the store has and is not known yet; a fault of it is waited out."""
        wanted, self._wanted = self._wanted, False
        try:
            now_ms = self._clock.now_ms()
            if not wanted:  # nobody else wrote anything, and our own was heard of
                pass
            elif self._read_to_ms is None:
                found = self._fresh(await self._store.ended(now_ms - REMEMBERED_MS, READ_AT_START))
                # In a thread: so many at once would keep everything else waiting.
                self._lessons = await asyncio.to_thread(remember, self._lessons, found)
            else:
                self._news += self._fresh(await self._store.ended(self._read_to_ms - LATE_MS, READ_AGAIN))
            self._read_to_ms = now_ms
        except StoreError:
            self._wanted = True
        finally:
            self._reading = False
            self._read_at_s = self._clock.monotonic_s() + READ_EVERY_S

    def _fresh(self, ended: Sequence[Ended]) -> list[Ended]:
        """Those that were not heard of before."""
        fresh = [one for one in ended if (one.workload_id, one.epoch) not in self._seen]
        self._seen.update(((one.workload_id, one.epoch), one.finished_ms) for one in fresh)
        now_ms = self._clock.now_ms()
        if now_ms - self._forgot_ms > LATE_MS:
            self._forgot_ms = now_ms
            oldest_ms = (self._read_to_ms or now_ms) - 2 * LATE_MS
            self._seen = {key: at_ms for key, at_ms in self._seen.items() if at_ms >= oldest_ms}
        return fresh
