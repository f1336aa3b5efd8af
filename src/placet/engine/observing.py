"""A server that only looks: nothing is placed, stopped, released or told, and orphans are listed.

After a database was restored it knows less than happened. What runs is looked for first, by people too, and moved on
when somebody says so.
"""

import asyncio

from placet.domain.errors import StoreError
from placet.engine.reaper import Reaper
from placet.ports.ambient import Clock
from placet.ports.store import Store

RETRY_S = 1.0


class Observer:
    """Sweeps, and deletes only what somebody asks for by its id."""

    def __init__(self, store: Store, clock: Clock, reaper: Reaper) -> None:
        self._store = store
        self._clock = clock
        self._reaper = reaper
        self._news = asyncio.Event()
        self._stopping = False

    def sweep_now(self) -> None:
        """Somebody asked for a deletion."""
        self._reaper.hurry()
        self._news.set()

    async def run(self) -> None:
        """Look until ``stop``; a fault of the store is waited out."""
        while not self._stopping:
            wait_s = RETRY_S
            try:
                if self._reaper.begin():
                    await self._reaper.sweep(await self._store.deployment_id())
                wait_s = max(self._reaper.due_at_s - self._clock.monotonic_s(), 0.0)
            except StoreError:
                pass  # looked at again, a little later
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                continue
            self._news.clear()

    async def stop(self) -> None:
        """Look no more."""
        self._stopping = True
        self._news.set()
