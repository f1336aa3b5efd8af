"""One thread, one loop: readiness of descriptors, timers, and the ends of child processes. It knows nothing of
attempts.
"""

from __future__ import annotations

import heapq
import os
import selectors
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Callable

    Ready = Callable[[], None]
    Ended = Callable[[int, resource.struct_rusage], None]

IDLE_S = 3600.0


class Timer:
    """A call that will be made once; ``cancel`` makes it never happen."""

    __slots__ = ("call", "due", "order")

    def __init__(self, due: float, order: int, call: Ready) -> None:
        self.due = due
        self.order = order
        self.call: Ready | None = call

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return (self.due, self.order) < (other.due, other.order)


class Loop:
    """Calls back; every callback is short and never blocks."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[Timer] = []
        self._order = 0
        self._children: dict[int, Ended] = {}
        self._stopped = False
        self._after_turn: list[Ready] = []
        read_end, self._wake_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(self._wake_end, False)
        self._read_end = read_end
        self._selector.register(read_end, selectors.EVENT_READ, (self._reap, None))
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)

    def watch(self, descriptor: int, readable: Ready, writable: Ready | None = None) -> None:
        """Call ``readable`` (and ``writable`` when given) while the descriptor is ready."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        self._selector.register(descriptor, events, (readable, writable))

    def rewatch(self, descriptor: int, readable: Ready, writable: Ready | None = None) -> None:
        """Change what is called for a watched descriptor."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        self._selector.modify(descriptor, events, (readable, writable))

    def unwatch(self, descriptor: int) -> None:
        """Forget a descriptor; must come before it is closed."""
        self._selector.unregister(descriptor)

    def later(self, delay_s: float, call: Ready) -> Timer:
        """Call once after a delay."""
        self._order += 1
        timer = Timer(time.monotonic() + delay_s, self._order, call)
        heapq.heappush(self._timers, timer)
        return timer

    def child(self, pid: int, ended: Ended) -> None:
        """Call ``ended`` with the wait status and usage of that child."""
        self._children[pid] = ended

    def after_turn(self, call: Ready) -> None:
        """Call at the end of every turn."""
        self._after_turn.append(call)

    def stop(self) -> None:
        """Leave ``run`` at the end of this turn."""
        self._stopped = True

    def run(self) -> None:
        """Turn until stopped."""
        while not self._stopped:
            self.turn()

    def turn(self) -> None:
        """Wait for something and deal with everything that is ready, once."""
        for key, events in self._selector.select(self._wait_s()):
            readable, writable = key.data
            if events & selectors.EVENT_READ:
                readable()
            # The first callback may have dropped this registration.
            if events & selectors.EVENT_WRITE and writable is not None and self._selector.get_map().get(key.fd) is key:
                writable()
        self._fire()
        for call in self._after_turn:
            call()

    def close(self) -> None:
        """Give back the descriptors."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._read_end)
        os.close(self._wake_end)

    def _wait_s(self) -> float:
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return IDLE_S
        return max(0.0, self._timers[0].due - time.monotonic())

    def _fire(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].due <= now:
            call = heapq.heappop(self._timers).call
            if call is not None:
                call()

    def _reap(self) -> None:
        try:
            while len(os.read(self._read_end, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # Anything else was an orphan that came to us as the subreaper: reaping it is all it needs.
            ended = self._children.pop(pid, None)
            if ended is not None:
                ended(status, usage)


def signalled(status: int) -> tuple[int | None, int | None]:
    """The exit code and the signal of a wait status; one of them is ``None``."""
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def _ignore(number: int, frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""
