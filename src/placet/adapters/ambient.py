"""The real clock and the real dice; the only place in the control plane where either is asked."""

import asyncio
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Ids count milliseconds from here; 40 bits of them last until 2054.
_EPOCH_MS = 1_577_836_800_000


class SystemClock:
    """This machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def pause(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)


def chance() -> float:
    """A number from 0 to 1, evenly."""
    return secrets.randbits(53) / (1 << 53)


class RandomIds:
    """Identity from the operating system's random source."""

    def workload_id(self, now_ms: int) -> str:
        number = ((now_ms - _EPOCH_MS) & (2**40 - 1)) << 105 | secrets.randbits(105)
        return "wl_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(140, -1, -5))

    def nonce(self) -> str:
        return secrets.token_hex(16)
