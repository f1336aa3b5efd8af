"""An event loop whose time is a number: it jumps to the next timer when nothing is ready. It is one thread, without
sockets, processes or signals, and knows nothing but what a world needs; most of a world's time is spent in it.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# How long one turn of the loop takes: who waits for a moment by looking again and again finds it reached.
TURN_S = 1e-6


class Stuck(Exception):
    """Nothing is ready and no timer runs: nothing would ever happen again."""


class TaskFactory(Protocol):
    """Makes the tasks of a loop."""

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        context: Context | None = None,
    ) -> "asyncio.Task[Any]":
        """A task for this work, in this context."""


class Call(asyncio.TimerHandle):
    """Something to be called, now or at a time."""

    __slots__ = ("act", "arguments", "at_s", "dropped", "where")

    def __init__(
        self, at_s: float, act: Callable[..., object], arguments: tuple[Any, ...], context: Context | None
    ) -> None:
        # The fields of handles are not those of any loop's public side, so it has its own.
        self.at_s = at_s
        self.act = act
        self.arguments = arguments
        self.where = copy_context() if context is None else context
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.at_s

    def __repr__(self) -> str:
        return f"<call of {self.act!r} at {self.at_s:.3f} s>"


class VirtualLoop(asyncio.BaseEventLoop):
    """Virtual seconds from 0. What others would do in a thread is done at once."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._due: deque[Call] = deque()
        # Timers of one moment go off in the order in which they were set.
        self._timers: list[tuple[float, int, Call]] = []
        self._set = 0
        self._makes: TaskFactory | None = None
        self._over = False
        self._runs = False
        super().__init__()

    def time(self) -> float:
        return self._now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._runs

    def is_closed(self) -> bool:
        return self._over

    def close(self) -> None:
        self._over = True
        self._due.clear()
        self._timers.clear()

    # What is to be called

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        call = Call(self._now_s, callback, args, context)
        self._due.append(call)
        return call

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        call = Call(when, callback, args, context)
        self._set += 1
        heapq.heappush(self._timers, (when, self._set, call))
        return call

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

    # Tasks and futures

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def set_task_factory(self, factory: Any) -> None:
        self._makes = factory

    def get_task_factory(self) -> Any:
        return self._makes

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        if self._makes is None:
            assert isinstance(coro, Coroutine)
            return asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        return self._makes(self, coro, context=context)

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """A task that nobody awaited is no more than that: the world judges what has happened, not who heard of it."""
        del context

    # Time goes by

    def run_until_complete(self, future: Any) -> Any:
        main = asyncio.ensure_future(future, loop=self)
        asyncio._set_running_loop(self)
        self._runs = True
        try:
            while not main.done():
                self._turn()
        finally:
            self._runs = False
            asyncio._set_running_loop(None)
        return main.result()

    def _turn(self) -> None:
        """Call all that is ready; where nothing is, the next timer's moment has come."""
        timers, ready = self._timers, self._due
        while timers and timers[0][2].dropped:
            heapq.heappop(timers)
        if ready:
            self._now_s += TURN_S
        elif timers:
            self._now_s += max(timers[0][0] - self._now_s, TURN_S)
        else:
            raise Stuck("no timer and nothing ready")
        while timers and timers[0][0] <= self._now_s:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            call = ready.popleft()
            if not call.dropped:
                call.where.run(call.act, *call.arguments)


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
