"""Follows a workload on a terminal: its moves as short notes, its logs as they come, to its end."""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

from placet.cli.output import note
from placet.cli.text import LogCleaner, one_line

if TYPE_CHECKING:
    from placet.contract.api import EventView
    from placet.contract.logs import LogPieceView
    from placet.sdk.client import Client

# Between the readers and the terminal; a full queue makes the readers wait, not the memory grow.
QUEUED_MAX = 64
# A signal that comes just before a thread begins to wait does not end the wait; so no wait is long.
NOTICE_S = 0.25
TOLD = {"workload.moved", "workload.waiting_on", "workload.desired"}
TOLD_OF_ATTEMPTS = {"lost", "refused", "unknown"}


@dataclass(frozen=True)
class Happened:
    """An event came."""

    event: "EventView"


@dataclass(frozen=True)
class Logged:
    """A piece of a log came."""

    piece: "LogPieceView"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A reader has nothing more; ``error`` when it broke."""

    reader: str
    error: Exception | None = None


@dataclass(frozen=True)
class Interrupted:
    """The person, or whoever ends processes here, wants to leave."""


class Screen(Protocol):
    """Where pieces of logs go."""

    def show(self, piece: "LogPieceView") -> None:
        """One piece of one stream."""


class LogScreen:
    """Writes pieces of logs: as they are into a pipe, without control sequences on a terminal."""

    def __init__(self, *, stdout_is_taken: bool) -> None:
        self._taken = stdout_is_taken
        # Where both streams go to one terminal or file, the line of one must not go on within that of the other.
        self._one_place = _same_place(sys.stdout, sys.stderr)
        self._within: tuple[int, str] | None = None
        self._cleaners: dict[tuple[int, str], LogCleaner] = {}

    def show(self, piece: "LogPieceView") -> None:
        """One piece of one stream."""
        target = sys.stdout if piece.stream == "stdout" and not self._taken else sys.stderr
        if piece.data:
            self._begin_line((piece.epoch, piece.stream))
            self._within = None if piece.data.endswith(b"\n") else (piece.epoch, piece.stream)
        if piece.dropped:
            self.end_line()
            note(f"placet: {piece.dropped} bytes of {piece.stream} were dropped here", style="yellow")
        if target.isatty():
            cleaner = self._cleaners.setdefault((piece.epoch, piece.stream), LogCleaner())
            target.write(cleaner.feed(piece.data) + (cleaner.end() if piece.sealed else ""))
        else:
            raw: BinaryIO = target.buffer
            target.flush()
            raw.write(piece.data)
        target.flush()

    def end_line(self) -> None:
        """Whatever comes next into the same place stands on a line of its own."""
        if self._within is not None and self._one_place:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._within = None

    def _begin_line(self, of: tuple[int, str]) -> None:
        if self._within != of:
            self.end_line()


def _same_place(one: "TextIO", other: "TextIO") -> bool:
    try:
        return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):  # no file at all, as where a program takes what is written
        return False


class Follower:
    """One workload to its end: its events, and the logs of every attempt from ``first_epoch`` on."""

    def __init__(
        self, client: "Client", workload_id: str, *, screen: Screen | None, quiet: bool, first_epoch: int = 1
    ) -> None:
        self._client = client
        self._id = workload_id
        self._screen = screen
        self._quiet = quiet
        # A SimpleQueue may be put to by a signal handler, whatever the thread it interrupts is doing; a Queue may not.
        self._queue: queue.SimpleQueue[Happened | Logged | Ended | Interrupted] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUED_MAX)
        self._readers: set[str] = set()
        self._next_epoch = first_epoch
        self._begun = False

    def follow(self) -> None:
        """Returns at the end of the workload and of its logs; the main thread calls it.

        Raises ``KeyboardInterrupt`` between two pieces, never within one, and may then be called again: it goes on.
        """
        if not self._begun:
            self._begun = True
            self._start("events", self._read_events)
        with self._interrupts_queued():
            while self._readers:
                try:
                    self._take(self._queue.get(timeout=NOTICE_S))
                except queue.Empty:
                    continue

    def mute(self) -> None:
        """Show no more logs: nobody reads them."""
        self._screen = None

    def _take(self, came: Happened | Logged | Ended | Interrupted) -> None:
        match came:
            case Ended(reader=reader, error=error):
                self._readers.discard(reader)
                if error is not None:
                    raise error
            case Happened(event):
                self._room.release()
                self._event(event)
            case Logged(piece):
                self._room.release()
                if self._screen is not None:
                    self._screen.show(piece)
            case Interrupted():
                raise KeyboardInterrupt

    @contextmanager
    def _interrupts_queued(self) -> Iterator[None]:
        """An exception that a signal throws anywhere may be thrown inside a lock, which then nobody ever frees.

        So the first signal waits its turn in the queue. A second one, or one that finds us stuck in a write, is thrown.
        """
        pending = False

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal pending
            if pending:
                before[signal.Signals(number)](number, frame)
            pending = True
            self._queue.put(Interrupted())

        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in before:
            signal.signal(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _event(self, event: "EventView") -> None:
        if not self._quiet:
            self._tell(event)
        epoch = event.epoch or 0
        if self._screen is not None and epoch >= self._next_epoch:
            self._next_epoch = epoch + 1
            self._start(f"logs {epoch}", lambda: self._read_logs(epoch))

    def _tell(self, event: "EventView") -> None:
        attempt = f" (attempt {event.epoch})" if event.epoch and event.epoch > 1 else ""
        message = f": {one_line(event.message)}" if event.message else ""
        if isinstance(self._screen, LogScreen):
            self._screen.end_line()
        if event.kind in TOLD and event.to_state != "stop":
            note(f"placet: {event.to_state or 'waiting'}{attempt}{message}", style="dim")
        elif event.kind == "delivery.outputs":  # many small files take a while to be kept
            note(f"placet: outputs{attempt}{message}", style="dim")
        elif event.to_state in TOLD_OF_ATTEMPTS or event.kind == "attempt.permit_refused":
            note(f"placet: attempt {event.epoch} {event.to_state or 'refused'}{message}", style="yellow")

    def _start(self, name: str, read: Callable[[], None]) -> None:
        self._readers.add(name)
        threading.Thread(target=self._guarded, args=(name, read), name=f"follow {name}", daemon=True).start()

    def _guarded(self, name: str, read: Callable[[], None]) -> None:
        try:
            read()
        except Exception as error:  # noqa: BLE001 - carried to the thread that waits
            self._queue.put(Ended(reader=name, error=error))
        else:
            self._queue.put(Ended(reader=name))

    def _read_events(self) -> None:
        for event in self._client.events(self._id, follow=True):
            self._room.acquire()
            self._queue.put(Happened(event))

    def _read_logs(self, epoch: int) -> None:
        for piece in self._client.logs(self._id, stream="all", epoch=epoch, follow=True):
            self._room.acquire()
            self._queue.put(Logged(piece))
