"""The life of one server process: what runs in it can be stopped dead, or stand still, between any two calls."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

from placet.testing.world.faults import Faults
from placet.testing.world.loop import VirtualLoop
from placet.testing.world.trace import Trace

T = TypeVar("T")

EPOCH_MS = 1_800_000_000_000
OF: ContextVar["Process"] = ContextVar("process")


class Gone(Exception):
    """The process that was asked has died; its answer will never come."""


class Process:
    """Everything that is started in its context belongs to it and dies with it."""

    def __init__(self, name: str, loop: VirtualLoop, faults: Faults, trace: Trace) -> None:
        self.name = name
        self.alive = True
        self.loop = loop
        self.died: Callable[[], None] = lambda: None
        self._faults = faults
        self._trace = trace
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._running = asyncio.Event()
        self._running.set()
        self._context = copy_context()
        self._context.run(OF.set, self)

    def own(self, task: "asyncio.Task[Any]") -> None:
        """A task was made in its context."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run it in the process."""
        return self.loop.create_task(work, context=self._context)

    def soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call something in the process that came in from outside; while it stands still, that waits in the wire."""
        if not self.alive:
            return
        if self._running.is_set():
            self.loop.call_soon(self._called, callback, arguments, context=self._context)
        else:
            self.start(self._called_later(callback, arguments))

    def _called(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
        if self.alive:
            callback(*arguments)

    async def _called_later(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
        await self._running.wait()
        self._called(callback, arguments)

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Somebody outside waits for an answer. Raises ``Gone`` when none can come."""
        if not self.alive:
            work.close()
            raise Gone(self.name)
        task = self.start(work)
        await asyncio.wait([task])
        if task.cancelled():
            raise Gone(self.name)
        return task.result()

    async def turn(self, where: str) -> None:
        """Before and after each call to the outside: here the process may die or stand still."""
        if self.alive and self._faults.hit("crash"):
            self._trace.tell(f"{self.name} dies at {where}")
            self.kill()
        if not self.alive:
            raise asyncio.CancelledError(self.name)
        if self._running.is_set() and self._faults.hit("pause"):
            self.pause(self._faults.between("pause", 1.0, 90.0))
        while not self._running.is_set():
            await self._running.wait()

    def pause(self, duration_s: float) -> None:
        """Stand still, and go on as if nothing had been."""
        self._trace.tell(f"{self.name} stands still for {duration_s:.1f} s")
        self._running.clear()
        self.loop.call_later(duration_s, self._running.set)

    @property
    def still(self) -> bool:
        """Does it stand still at this moment?"""
        return not self._running.is_set()

    def kill(self) -> None:
        """Nothing in its memory survives; what it had sent is on its way."""
        if not self.alive:
            return
        self.alive = False
        for task in list(self._tasks):
            task.cancel()
        self.died()


def tasks_of_processes(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    *,
    context: Context | None = None,
) -> "asyncio.Task[Any]":
    """A task factory that gives each task to the process in whose context it is made."""
    assert isinstance(work, Coroutine)
    task = asyncio.Task(work, loop=loop, context=context)
    process = OF.get(None) if context is None else context.get(OF)
    if process is not None:
        process.own(task)
    return task


class ProcessClock:
    """The clocks as one process sees them."""

    def __init__(self, process: Process, offset_ms: int) -> None:
        self._process = process
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self._offset_ms + int(self._process.loop.time() * 1000)

    def monotonic_s(self) -> float:
        return self._process.loop.time()

    async def pause(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)
        await self._process.turn("pause")


class DrawnIds:
    """Identity from a stream of chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def workload_id(self, now_ms: int) -> str:
        """In the order of time, as real ones are."""
        return f"wl_{now_ms:014d}{self._chance.getrandbits(48):015d}"

    def nonce(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"
