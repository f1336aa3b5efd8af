"""Follows a workload on a terminal: its moves as short notes, its logs as they come, to its end."""

import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from placet.cli.output import note
from placet.cli.text import LogCleaner, one_line

if TYPE_CHECKING:
    from placet.contract.api import EventView
    from placet.contract.logs import LogPieceView
    from placet.sdk.client import Client

# Between the readers and the terminal; a full queue makes the readers wait, not the memory grow.
QUEUED_MAX = 64
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


class Screen(Protocol):
    """Where pieces of logs go."""

    def show(self, piece: "LogPieceView") -> None:
        """One piece of one stream."""


class LogScreen:
    """Writes pieces of logs: as they are into a pipe, without control sequences on a terminal."""

    def __init__(self, *, stdout_is_taken: bool) -> None:
        self._taken = stdout_is_taken
        self._cleaners: dict[tuple[int, str], LogCleaner] = {}

    def show(self, piece: "LogPieceView") -> None:
        """One piece of one stream."""
        target = sys.stdout if piece.stream == "stdout" and not self._taken else sys.stderr
        if piece.dropped:
            note(f"placet: {piece.dropped} bytes of {piece.stream} were dropped here", style="yellow")
        if target.isatty():
            cleaner = self._cleaners.setdefault((piece.epoch, piece.stream), LogCleaner())
            target.write(cleaner.feed(piece.data) + (cleaner.end() if piece.sealed else ""))
        else:
            raw: BinaryIO = target.buffer
            target.flush()
            raw.write(piece.data)
        target.flush()


class Follower:
    """One workload to its end: its events, and the logs of every attempt from ``first_epoch`` on."""

    def __init__(
        self, client: "Client", workload_id: str, *, screen: Screen | None, quiet: bool, first_epoch: int = 1
    ) -> None:
        self._client = client
        self._id = workload_id
        self._screen = screen
        self._quiet = quiet
        self._queue: queue.Queue[Happened | Logged | Ended] = queue.Queue(QUEUED_MAX)
        self._readers: set[str] = set()
        self._next_epoch = first_epoch
        self._begun = False

    def follow(self) -> None:
        """Returns at the end of the workload and of its logs. May be called again after an interrupt: it goes on."""
        if not self._begun:
            self._begun = True
            self._start("events", self._read_events)
        while self._readers:
            match self._queue.get():
                case Ended(reader=reader, error=error):
                    self._readers.discard(reader)
                    if error is not None:
                        raise error
                case Happened(event):
                    self._event(event)
                case Logged(piece):
                    assert self._screen is not None
                    self._screen.show(piece)

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
        if event.kind in TOLD and event.to_state != "stop":
            note(f"placet: {event.to_state or 'waiting'}{attempt}{message}", style="dim")
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
            self._queue.put(Happened(event))

    def _read_logs(self, epoch: int) -> None:
        for piece in self._client.logs(self._id, stream="all", epoch=epoch, follow=True):
            self._queue.put(Logged(piece))
