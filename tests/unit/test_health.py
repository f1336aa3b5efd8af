"""A clock that jumps is noticed, one that drifts is not."""

from placet.engine.health import HANDS_OFF_S, JUMP_S, Health


class TwoClocks:
    """Wall and monotonic time, moved by hand."""

    def __init__(self) -> None:
        self.wall_s = 1_000_000.0
        self.passed_s = 50.0

    def now_ms(self) -> int:
        return int(self.wall_s * 1000)

    def monotonic_s(self) -> float:
        return self.passed_s

    async def pause(self, duration_s: float) -> None:
        self.go(duration_s)

    def go(self, seconds: float, wall_s: float | None = None) -> None:
        self.passed_s += seconds
        self.wall_s += seconds if wall_s is None else wall_s


def test_time_that_passes_and_a_clock_that_drifts_are_no_jump() -> None:
    clock = TwoClocks()
    health = Health(clock)
    for _ in range(100):
        clock.go(60, wall_s=60.1)
        assert health.look() == ""


def test_after_a_jump_hands_are_off_for_a_while() -> None:
    for jump_s in (600.0, -600.0, JUMP_S):
        clock = TwoClocks()
        health = Health(clock)
        clock.go(1, wall_s=1 + jump_s)
        why = health.look()
        assert f"{jump_s:+.0f} s" in why
        clock.go(HANDS_OFF_S - 1)
        assert health.look() == why
        clock.go(1)
        assert health.look() == ""
