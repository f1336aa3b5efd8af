"""Bounded waiting for a condition that no signal announces; not a way to sleep."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

FIRST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.05


def wait_until(predicate: Callable[[], T], timeout_s: float, what: str) -> T:
    """Returns the first truthy value of the predicate; fails, naming what was awaited, after timeout_s."""
    never = threading.Event()
    deadline = monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        value = predicate()
        if value:
            return value
        if monotonic() >= deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}; last value: {value!r}")
        never.wait(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)


async def wait_until_async(predicate: Callable[[], T | Awaitable[T]], timeout_s: float, what: str) -> T:
    """The same for coroutines: the predicate may be plain or return an awaitable."""
    loop = asyncio.get_running_loop()
    deadline = monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        outcome = predicate()
        value = await outcome if isinstance(outcome, Awaitable) else outcome
        if value:
            return value
        if monotonic() >= deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}; last value: {value!r}")
        tick = loop.create_future()
        loop.call_later(pause_s, _settle, tick)
        await tick
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)


def _settle(tick: "asyncio.Future[None]") -> None:
    if not tick.done():
        tick.set_result(None)
