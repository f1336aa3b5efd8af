"""The one thread that writes: all that is queued becomes one transaction, then all callers are told at once."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeAlias

from placet.adapters.store.batch import Item, groups
from placet.adapters.store.link import Database, Link
from placet.domain.errors import StoreBusy, StoreError
from placet.failpoints import Point, around

TRIES = 4
BATCH_ITEMS_MAX = 1_000

Request: TypeAlias = tuple[Sequence[Item], "asyncio.Future[None]"]
Fault: TypeAlias = Callable[[], StoreError]  # makes one for each caller: a raised exception is not to be shared


class Writer:
    """Group commit: many callers, one transaction, one flush."""

    def __init__(self, database: Database, changed: Callable[[frozenset[str]], None]) -> None:
        self._database = database
        self._changed = changed
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._open = False
        self._link: Link | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="placet-store-writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connect and begin to serve the callers on this loop; blocks."""
        self._loop = loop
        self._link = self._database.connect(writes=True)
        self._open = True
        self._thread.start()

    def stop(self) -> None:
        """Finish what was handed in, then end; blocks."""
        with self._gate:
            if not self._open:
                return
            self._open = False
            self._queue.put(None)
        self._thread.join()

    async def write(self, items: Sequence[Item]) -> None:
        """Returns when the items are decided and committed; each knows its own outcome. Raises when none could be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._gate:
            if not self._open:
                raise StoreBusy("the store is closed")
            self._queue.put((items, future))
        await future

    def _serve(self) -> None:
        while (batch := self._next_batch()) is not None:
            fault, touched = self._transact([item for items, _ in batch for item in items])
            self._answer(batch, fault, touched)
        self._disconnect()

    def _answer(self, batch: list[Request], fault: Fault | None, touched: frozenset[str]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._resolve, batch, fault, touched)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear of it

    def _resolve(self, batch: list[Request], fault: Fault | None, touched: frozenset[str]) -> None:
        for _, future in batch:
            if future.done():
                continue  # the caller has gone away
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault())
        if touched:
            self._changed(touched)

    def _next_batch(self) -> list[Request] | None:
        """Everything that is waiting, as soon as anything is."""
        request = self._queue.get()
        batch: list[Request] = []
        count = 0
        while request is not None:
            batch.append(request)
            count += len(request[0])
            if count >= BATCH_ITEMS_MAX:
                return batch
            try:
                request = self._queue.get_nowait()
            except Empty:
                return batch
        if batch:
            self._queue.put(None)  # the end comes after what was handed in before it
            return batch
        return None

    def _transact(self, items: Sequence[Item]) -> tuple[Fault | None, frozenset[str]]:
        """One transaction for all; on a fault nothing of it was written, or nobody knows."""
        work = groups(items)
        for left in reversed(range(TRIES)):
            committing, known = False, self._link
            try:
                link = self._connected()
                link.begin(flush=any(item.flush for item in items), alone=len(work) == 1)
                for group in work:
                    group.write(link)
                touched = frozenset().union(*(item.touched for item in items))
                if touched:
                    link.announce(touched)
                committing = True
                with around(Point.COMMIT):
                    link.commit()
                return None, touched
            except Exception as error:  # noqa: BLE001 - whatever happened, the callers must hear of it and the thread live on
                self._recover()
                # A connection that died while nobody used it, say by a restart of the server, is no reason to refuse.
                died = known is not None and self._link is None
                again = died or self._database.is_worth_repeating(error)
                if committing or not left or not again:
                    return partial(self._database.translate, error, committing=committing), frozenset()
        raise AssertionError("the last try returns")

    def _connected(self) -> Link:
        if self._link is None:
            self._link = self._database.connect(writes=True)
        return self._link

    def _recover(self) -> None:
        """Leave the transaction, and the connection too when it does not let us."""
        if self._link is None:
            return
        try:
            self._link.rollback()
        except Exception:  # noqa: BLE001 - a connection that cannot even roll back is useless
            self._disconnect()

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            try:
                link.close()
            except Exception:  # noqa: BLE001, S110 - it is broken already; that is why we leave it
                pass
