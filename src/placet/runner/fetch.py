"""Downloads one file from a URL a stranger may have chosen, into a file, through the guard; standard library only.

It blocks, so it runs in a process of its own. No proxy, no credentials, no decompression: what is stored is what was
sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time

from placet.runner import failpoints
from placet.runner.guard import Refused, addresses, follow, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    import http.client
    from typing import Any, Sequence

    from placet.runner.guard import Resolve, Target

__all__ = ["BYTES_MAX", "Refused", "fetch"]

BYTES_MAX = 64 * 1024 * 1024 * 1024
CONNECT_S = 5.0
SILENCE_S = 30.0
TOTAL_S = 3600.0
REDIRECTS_MAX = 3
PIECE_BYTES = 1024 * 1024
SLOWEST_BYTES_PER_S = 1024
REDIRECTS = (301, 302, 303, 307, 308)


class Bounds:
    """How long and how much one download may be."""

    def __init__(self, bytes_max: int, total_s: float) -> None:
        self.bytes_max = bytes_max
        self.began_s = time.monotonic()
        self.total_s = total_s

    def check(self, received_bytes: int) -> None:
        """Raises ``Refused`` when a bound is passed, or when the sender drips so slowly that it never ends."""
        taken_s = time.monotonic() - self.began_s
        if received_bytes > self.bytes_max:
            raise Refused(f"it is larger than the limit of {self.bytes_max} bytes")
        if taken_s > self.total_s:
            raise Refused(f"it took longer than {self.total_s:g} s")
        if taken_s > 2 * SILENCE_S and received_bytes < taken_s * SLOWEST_BYTES_PER_S:
            raise Refused("the server sends too slowly")


def fetch(
    url: str,
    path: str,
    *,
    allowed_hosts: Sequence[str] = (),
    bytes_max: int = BYTES_MAX,
    total_s: float = TOTAL_S,
    sha256: str | None = None,
    resolve: Resolve | None = None,
) -> dict[str, Any]:
    """Store the body at ``path``; the size, digest and final URL without its query. Raises ``Refused``."""
    bounds = Bounds(bytes_max, total_s)
    target = parse(url, allowed_hosts)
    for _ in range(REDIRECTS_MAX + 1):
        connection = _connect(target, allowed_hosts, resolve)
        try:
            reply = _ask(connection, target)
            if reply.status in REDIRECTS:
                target = follow(target, reply.headers.get("Location") or "", allowed_hosts)
                continue
            if reply.status != 200:
                raise Refused(f"the server answered with status {reply.status}")
            size_bytes, digest = _store(reply, path, bounds)
        finally:
            connection.close()
        if sha256 is not None and digest != sha256.lower():
            os.unlink(path)
            raise Refused(f"its SHA-256 is {digest} and not the declared one")
        return {"size_bytes": size_bytes, "sha256": digest, "url": target.url.split("?")[0]}
    raise Refused(f"more than {REDIRECTS_MAX} redirects")


def _connect(target: Target, allowed_hosts: Sequence[str], resolve: Resolve | None) -> http.client.HTTPConnection:
    """A connection to an address that was checked; the name stays for TLS and Host."""
    import http.client

    channel: socket.socket | None = None
    # The text of the error is the same for a closed, a filtered and an absent port.
    for address in addresses(target, allowed_hosts, resolve)[:4]:
        with contextlib.suppress(OSError):
            channel = socket.create_connection((address, target.port), timeout=CONNECT_S)
            break
    if channel is None:
        raise Refused("the host cannot be reached")
    channel.settimeout(SILENCE_S)
    if target.scheme == "https":
        import ssl

        try:
            channel = ssl.create_default_context().wrap_socket(channel, server_hostname=target.host)
        except (OSError, ValueError) as error:
            channel.close()
            raise Refused(f"no trusted TLS connection: {type(error).__name__}") from None
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = channel
    return connection


def _ask(connection: http.client.HTTPConnection, target: Target) -> http.client.HTTPResponse:
    import http.client

    try:
        connection.putrequest("GET", target.path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", target.authority)
        connection.putheader("User-Agent", "placet")
        connection.putheader("Accept-Encoding", "identity")
        connection.putheader("Connection", "close")
        connection.endheaders()
        return connection.getresponse()
    except (OSError, http.client.HTTPException):
        raise Refused("the server did not answer properly") from None


def _store(reply: http.client.HTTPResponse, path: str, bounds: Bounds) -> tuple[int, str]:
    import http.client

    digest = hashlib.sha256()
    received = 0
    partial = path + ".part"
    announced = reply.length
    if announced is not None:
        bounds.check(announced)
    with open(partial, "wb") as file:
        while True:
            try:
                piece = reply.read1(PIECE_BYTES)
            except (OSError, http.client.HTTPException, ValueError):
                raise Refused("the download broke off") from None
            if not piece:
                break
            received += len(piece)
            bounds.check(received)
            digest.update(piece)
            file.write(piece)
    if announced is not None and received != announced:
        raise Refused("the download broke off")
    os.chmod(partial, 0o400)
    failpoints.before("runner.input")
    os.rename(partial, path)
    failpoints.after("runner.input")
    return received, digest.hexdigest()
