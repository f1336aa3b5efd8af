"""Is this process itself fit to judge? While its clock has just jumped, nothing is concluded from the time."""

from placet.ports.ambient import Clock

# The wall clock may differ so much from one look to the next before that counts as a jump: slewing does not.
JUMP_S = 5.0
# So long after a jump no attempt is ended by the clock, and no absence counts.
HANDS_OFF_S = 30.0


class Health:
    """Compares the wall clock with the monotonic one, look by look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = self._drift_s()
        self._until_s = 0.0
        self._why = ""

    def _drift_s(self) -> float:
        return self._clock.now_ms() / 1000 - self._clock.monotonic_s()

    def look(self) -> str:
        """Why nothing destructive may follow from the time now; empty when all is well."""
        ahead_s, now_s = self._drift_s(), self._clock.monotonic_s()
        jump_s, self._ahead_s = ahead_s - self._ahead_s, ahead_s
        if abs(jump_s) >= JUMP_S:
            self._until_s = now_s + HANDS_OFF_S
            self._why = f"the clock of this machine jumped by {jump_s:+.0f} s"
        return self._why if now_s < self._until_s else ""
