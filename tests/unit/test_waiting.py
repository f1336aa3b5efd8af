"""The bounded waits that other tests rely on."""

import asyncio
import threading

import pytest

from tests.support.waiting import wait_until, wait_until_async


def test_returns_the_first_truthy_value() -> None:
    ready = threading.Event()
    timer = threading.Timer(0.01, ready.set)
    timer.start()
    assert wait_until(ready.is_set, 5, "the timer") is True
    timer.join()


def test_names_what_was_awaited_in_vain() -> None:
    with pytest.raises(AssertionError, match="for a miracle; last value: 0"):
        wait_until(lambda: 0, 0.01, "a miracle")


async def test_async_takes_plain_and_awaitable_predicates() -> None:
    ready = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, ready.set)

    async def value() -> str:
        return "there" if ready.is_set() else ""

    assert await wait_until_async(value, 5, "the event") == "there"
    assert await wait_until_async(ready.is_set, 5, "the event") is True
    with pytest.raises(AssertionError, match="for nothing"):
        await wait_until_async(lambda: None, 0.01, "nothing")
