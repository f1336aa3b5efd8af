"""A client that costs as little as possible, so that what is measured is the server: prebuilt requests over kept-alive
sockets, replies read by their Content-Length. Not for anything but measuring."""

import json
import selectors
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

READ_BYTES = 65_536
TIMEOUT_S = 120.0
HEAD_END = b"\r\n\r\n"
OK, REDIRECT = 200, 300

Json = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where the server listens, a path of a unix socket or a host and a port, and what opens it."""

    address: str | tuple[str, int]
    token: str | None

    def connect(self) -> socket.socket:
        if isinstance(self.address, str):
            connection = socket.socket(socket.AF_UNIX)
        else:
            connection = socket.socket(socket.AF_INET)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(TIMEOUT_S)
        connection.connect(self.address)
        return connection

    def request(self, method: str, path: str, body: Json | None = None, **headers: str) -> bytes:
        """The bytes of a request, made once and sent many times; header names with _ for -."""
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: bench", f"content-length: {len(content)}"]
        if body is not None:
            lines.append("content-type: application/json")
        if self.token:
            lines.append(f"authorization: Bearer {self.token}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join(lines).encode() + HEAD_END + content


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer and how long it took."""

    status: int
    body: bytes
    elapsed_ms: float

    def json(self) -> Json:
        return cast("Json", json.loads(self.body))

    def checked(self) -> "Reply":
        if not OK <= self.status < REDIRECT:
            raise RuntimeError(f"HTTP {self.status}: {self.body[:400].decode(errors='replace')}")
        return self


@dataclass(kw_only=True)
class Line:
    """One connection with at most one request under way."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    sent_at: float = 0.0

    def send(self, request: bytes) -> None:
        self.received.clear()
        self.sent_at = perf_counter()
        self.connection.sendall(request)

    def receive(self) -> Reply | None:
        """Reads what is there; a reply once it is whole."""
        part = self.connection.recv(READ_BYTES)
        if not part:
            raise ConnectionError(f"the server hung up after {len(self.received)} bytes")
        self.received += part
        head_end = self.received.find(HEAD_END)
        if head_end < 0:
            return None
        start, length = head_end + len(HEAD_END), _content_length(bytes(self.received[:head_end]))
        if len(self.received) < start + length:
            return None
        status = int(self.received[9:12])
        body = bytes(self.received[start : start + length])
        return Reply(status=status, body=body, elapsed_ms=(perf_counter() - self.sent_at) * 1000)

    def ask(self, request: bytes) -> Reply:
        self.send(request)
        while (reply := self.receive()) is None:
            pass
        return reply


def in_turn(door: Door, requests: Iterable[bytes]) -> Iterator[Reply]:
    """One after the other on one connection."""
    with closing(door.connect()) as connection:
        line = Line(connection=connection)
        for request in requests:
            yield line.ask(request)


def at_once(door: Door, requests: Iterable[bytes], connections: int) -> list[Reply]:
    """So many connections, each with one request under way until there are no more; replies as they came."""
    replies: list[Reply] = []
    remaining = iter(requests)
    with selectors.DefaultSelector() as selector:
        for _, request in zip(range(connections), remaining, strict=False):  # this order takes no request too many
            line = Line(connection=door.connect())
            selector.register(line.connection, selectors.EVENT_READ, line)
            line.send(request)
        while selector.get_map():
            for key, _ in selector.select(TIMEOUT_S):
                line = cast("Line", key.data)
                reply = line.receive()
                if reply is None:
                    continue
                replies.append(reply)
                following = next(remaining, None)
                if following is None:
                    selector.unregister(line.connection)
                    line.connection.close()
                else:
                    line.send(following)
    return replies


def stream_end(door: Door, path: str, mark: bytes) -> int:
    """Reads a reply of unknown length until the mark has come, and keeps none of it; how many bytes came."""
    with closing(door.connect()) as connection:
        connection.sendall(door.request("GET", path, accept="text/event-stream"))
        total, tail = 0, b""
        while mark not in tail:
            part = connection.recv(READ_BYTES)
            if not part:
                raise ConnectionError(f"the stream {path} broke off: {tail[-400:]!r}")
            total += len(part)
            tail = tail[-len(mark) :] + part
        return total


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise ValueError(f"a reply without a length: {head[:200]!r}")
