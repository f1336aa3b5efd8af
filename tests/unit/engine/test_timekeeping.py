"""One wall clock for all servers of a store."""

from placet.engine.timekeeping import TOLERATED_MS, StoreClock


class Wrong:
    """A clock that is off."""

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return 7.0

    async def pause(self, duration_s: float) -> None:
        self.at_ms += int(duration_s * 1000)


async def test_two_servers_whose_clocks_differ_agree_on_the_time_of_the_store() -> None:
    fast, slow = Wrong(10_600_000), Wrong(9_400_000)
    clocks = StoreClock(fast), StoreClock(slow)
    for clock in clocks:
        clock.set(10_000_000)
        await clock.pause(1.0)
    assert [clock.now_ms() for clock in clocks] == [10_001_000, 10_001_000]
    assert clocks[0].monotonic_s() == 7.0, "durations are nobody's business"


def test_the_way_to_the_store_and_back_does_not_move_the_clock_and_a_jump_does() -> None:
    own = Wrong(1_000_000)
    clock = StoreClock(own)
    clock.set(1_000_000 - TOLERATED_MS)
    assert clock.now_ms() == 1_000_000
    own.at_ms += 3_600_000
    clock.set(1_000_100)
    assert clock.now_ms() == 1_000_100
