"""An event loop whose time is a number: it jumps to the next timer when nothing is ready, and threads do not exist."""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


# How long one turn of the loop takes.
TURN_S = 1e-6


class Stuck(Exception):
    """Nothing is ready and no timer runs: nothing would ever happen again."""


class _Jumps(selectors.BaseSelector):
    """Watches nothing; to wait is to move time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("no timer and nothing ready")
        # To compute takes time too: who waits for a moment by looking again and again finds it reached.
        self.now_s += max(timeout, TURN_S)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


class VirtualLoop(asyncio.SelectorEventLoop):
    """One thread, no sockets, virtual seconds from 0. What others would do in a thread is done at once."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Done before it returns: the order of events must not depend on the machine's threads."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed on, as an executor does
            future.set_exception(error)
        return future

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)


def run_virtual(main: Callable[[VirtualLoop], Any]) -> Any:
    """Run the coroutine that ``main`` makes to its end in virtual time, then drop all that still runs."""
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main(loop))
    finally:
        _drop_all(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _drop_all(loop: VirtualLoop) -> None:
    """Whatever is left is cancelled; it may not keep the loop alive by refusing."""
    for _ in range(10):
        left = asyncio.all_tasks(loop)
        if not left:
            return
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
