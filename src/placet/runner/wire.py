"""Lines of JSON over a unix socket: framing, bounds and batching. It does not know what the lines mean."""

from __future__ import annotations

import json
import os
import socket

from placet.runner import failpoints
from placet.runner.records import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.loop import Loop

    Json = Dict[str, Any]

LINE_BYTES_MAX = 32 * 1024 * 1024
READ_BYTES = 1024 * 1024
UNSENT_BYTES_MAX = 64 * 1024 * 1024


class Connection:
    """One controller. Replies of a turn are written in one go; a controller that does not read is cut off."""

    def __init__(
        self,
        loop: Loop,
        channel: socket.socket,
        handle: Callable[[Connection, Json], None],
        closed: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._channel = channel
        self._handle = handle
        self._closed = closed
        self._incoming = bytearray()
        self._outgoing: list[bytes] = []
        self._unsent = b""
        self._blocked = False
        self.open = True
        self.deployment = ""
        channel.setblocking(False)
        loop.watch(channel.fileno(), self._readable)

    def send(self, document: object) -> None:
        """Queue one line; it leaves at the end of the turn."""
        self._outgoing.append(encode(document))

    def send_encoded(self, line: bytes) -> None:
        """Queue one line that is encoded already, without its end."""
        self._outgoing.append(line)

    def flush(self) -> None:
        """Write what is queued; the rest follows when the controller reads."""
        if not self.open or not (self._outgoing or self._unsent):
            return
        if self._outgoing:
            self._outgoing.append(b"")
            self._unsent += b"\n".join(self._outgoing)
            self._outgoing = []
        if self._blocked:
            if len(self._unsent) > UNSENT_BYTES_MAX:
                self.close()
            return
        self._write()

    def close(self) -> None:
        """Hang up; idempotent."""
        if self.open:
            self.open = False
            self._loop.unwatch(self._channel.fileno())
            self._channel.close()
            self._closed(self)

    def _write(self) -> None:
        try:
            failpoints.before("runner.answer")
            sent = self._channel.send(self._unsent)
            failpoints.after("runner.answer")
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        self._unsent = self._unsent[sent:]
        blocked = bool(self._unsent)
        if blocked != self._blocked:
            self._blocked = blocked
            self._loop.rewatch(self._channel.fileno(), self._readable, self._write if blocked else None)

    def _readable(self) -> None:
        try:
            data = self._channel.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._incoming += data
        if b"\n" not in data:
            if len(self._incoming) > LINE_BYTES_MAX:
                self.close()
            return
        lines = bytes(self._incoming).split(b"\n")
        self._incoming = bytearray(lines.pop())
        for line in lines:
            if line and self.open:
                self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            self.close()
            return
        failpoints.before("runner.request")
        self._handle(self, document)
        failpoints.after("runner.request")


def listen(folder: str, name: str) -> socket.socket:
    """A listening unix socket ``folder/name`` with mode 0600, however long the path is."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    here = os.open(".", os.O_RDONLY)
    mask = os.umask(0o177)
    try:
        # The address of a unix socket holds about a hundred bytes: bind by a relative name.
        os.chdir(folder)
        if os.path.lexists(name):
            os.unlink(name)
        channel.bind(name)
        channel.listen(64)
    finally:
        os.umask(mask)
        os.fchdir(here)
        os.close(here)
    channel.setblocking(False)
    return channel
