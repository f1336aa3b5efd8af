"""Time, chance and identity: everything a decision needs that is not a function of its input."""

from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def monotonic_s(self) -> float:
        """Seconds that never go back."""

    async def pause(self, duration_s: float) -> None:
        """Let others run for that long."""


class Ids(Protocol):
    """Sources of identity."""

    def workload_id(self, now_ms: int) -> str:
        """``wl_`` and 29 characters: sorts by time, 105 bits are random."""

    def nonce(self) -> str:
        """128 random bits as text."""


class Secrets(Protocol):
    """Named secret values."""

    async def get(self, tenant: str, name: str) -> str | None:
        """The value, or ``None`` when there is no such secret."""
