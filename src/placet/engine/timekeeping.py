"""One wall clock for all servers of a store: the store's. Each server's own may be wrong by any amount."""

from placet.ports.ambient import Clock

# Less than this is the way to the store and back, not a wrong clock.
TOLERATED_MS = 500


class StoreClock:
    """This machine's clock, corrected by how far it is off that of the store.

    What several servers compare (beats, wake times, deadlines, ages) is read off one clock in this way, and one that
    jumps is set again at the next beat.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._behind_ms

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def pause(self, duration_s: float) -> None:
        await self._clock.pause(duration_s)

    def set(self, store_ms: int) -> None:
        """The store has just said what time it is."""
        behind_ms = store_ms - self._clock.now_ms()
        if abs(behind_ms - self._behind_ms) > TOLERATED_MS:
            self._behind_ms = behind_ms


def untouched(store_ms: int) -> None:
    """For who has a clock that is right by itself."""
    del store_ms
