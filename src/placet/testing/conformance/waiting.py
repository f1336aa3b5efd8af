"""Bounded waiting for what a suite expects of the outside world."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PAUSE_S = 0.01

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T | None]], limit_s: float, what: str) -> T:
    """The first answer that is neither ``None`` nor false; an ``AssertionError`` that says what was waited for."""
    end_s = time.monotonic() + limit_s
    while True:
        seen = await look()
        if seen:
            return seen
        if time.monotonic() > end_s:
            raise AssertionError(f"within {limit_s:g} s there was no {what}")
        await asyncio.sleep(PAUSE_S)
