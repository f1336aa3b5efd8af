"""A few threads that read, each with a connection of its own; the event loop never waits for the database."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from placet.adapters.store.link import Database, Link
from placet.domain.errors import StoreBusy

T = TypeVar("T")


class Readers:
    """Reads are repeatable, so one that meets a dead connection is done again on a new one."""

    def __init__(self, database: Database, threads: int) -> None:
        self._database = database
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="placet-store-reader")
        self._mine = threading.local()
        self._links: set[Link] = set()
        self._open = True

    async def read(self, act: Callable[[Link], T], *, one_moment: bool = False) -> T:
        """What ``act`` reads; with ``one_moment`` all its statements see the same state of the database."""
        if not self._open:
            raise StoreBusy("the store is closed")
        try:
            reading = asyncio.get_running_loop().run_in_executor(self._pool, self._read, act, one_moment)
        except RuntimeError as error:  # closed in this very moment, by another thread
            raise StoreBusy("the store is closed") from error
        return await reading

    def close(self) -> None:
        """Blocks until the reads under way are done."""
        self._open = False
        self._pool.shutdown(wait=True)
        for link in self._links:
            link.close()
        self._links.clear()

    def _read(self, act: Callable[[Link], T], one_moment: bool) -> T:
        known: Link | None = getattr(self._mine, "link", None)
        if known is not None:
            try:
                return _once(known, act, one_moment)
            except Exception as error:
                self._drop(known)
                if self._database.is_fault_of_item(error):
                    raise self._database.translate(error, committing=False) from error
        try:
            link = self._database.connect(writes=False)
            self._links.add(link)
            self._mine.link = link
            return _once(link, act, one_moment)
        except Exception as error:
            if self._mine.__dict__.get("link") is not None:
                self._drop(self._mine.link)
            raise self._database.translate(error, committing=False) from error

    def _drop(self, link: Link) -> None:
        self._mine.link = None
        self._links.discard(link)
        try:
            link.close()
        except Exception:  # noqa: BLE001, S110 - it is broken already; that is why we leave it
            pass


def _once(link: Link, act: Callable[[Link], T], one_moment: bool) -> T:
    if not one_moment:
        return act(link)
    link.begin_reading()
    outcome = act(link)
    link.commit()
    return outcome
