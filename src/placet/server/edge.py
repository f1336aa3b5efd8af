"""The outermost layer of the server: request ids, host and origin checks, headers, measuring, and the last net.

Plain ASGI: it costs microseconds and sees every reply, those of unknown routes and of crashes included.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.failpoints import Point, passing
from placet.server import problems

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
REQUEST_ID = "placet.request_id"
ROUTE = "placet.route"

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)

log: structlog.stdlib.BoundLogger = structlog.get_logger("placet.server")


@dataclass(frozen=True, kw_only=True)
class Served:
    """One answered request, for metrics; ``route`` is the template, never the path."""

    method: str
    route: str
    status: int
    seconds: float


@dataclass(kw_only=True)
class _Passage:
    """What is known of one request while it passes."""

    request_id: str
    status: int = 0
    started: bool = field(default=False)


class Edge:
    """Wraps the application; ``observe`` hears of every reply, ``boot`` makes request ids unique to this process."""

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: frozenset[str], boot: str, observe: Callable[[Served], None]
    ) -> None:
        self._app = app
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in allowed_hosts}
        self._boot = boot
        self._observe = observe
        self._numbers = itertools.count(1)
        self._in_flight = 0
        self._heard = False

    def quiet(self) -> bool:
        """Is nobody being answered, and was nobody since the last call?"""
        quiet = self._in_flight == 0 and not self._heard
        self._heard = False
        return quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        passage = _Passage(request_id=f"req_{self._boot}_{next(self._numbers):x}")
        scope[REQUEST_ID] = passage.request_id
        began_s = time.perf_counter()
        self._in_flight += 1
        self._heard = True
        outgoing = _with_headers(send, passage)
        try:
            refusal = self._misdirected(scope)
            if refusal is not None:
                await problems.response(refusal, passage.request_id)(scope, receive, outgoing)
            else:
                await self._app(scope, receive, outgoing)
        except Exception:  # the last net: whatever a route raised is logged here and nowhere else
            log.exception("request_failed", request_id=passage.request_id, route=_route(scope), method=scope["method"])
            if not passage.started:
                failed = problems.Refusal(problems.INTERNAL)
                await problems.response(failed, passage.request_id)(scope, receive, outgoing)
        finally:
            self._in_flight -= 1
            self._observe(
                Served(
                    method=scope["method"],
                    route=_route(scope),
                    status=passage.status,
                    seconds=time.perf_counter() - began_s,
                )
            )

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003, "reason": ""})

    def _misdirected(self, scope: Scope) -> problems.Refusal | None:
        """A web page that rebinds its name to loopback has a foreign Host; one that calls across sites, an Origin."""
        server = scope.get("server")
        if server is None or server[1] is None:
            return None  # a unix socket: no browser reaches it, file modes guard it
        host = origin = ""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
        if _name_of(host) not in self._hosts:
            return problems.Refusal(
                problems.FORBIDDEN,
                detail="the server does not answer under this host name",
                fix="address it by a loopback name, or add the name to server.allowed_hosts",
            )
        if origin and _origin_host(origin) not in self._hosts:
            return problems.Refusal(
                problems.FORBIDDEN,
                detail="pages of other sites may not call this server",
                fix="call it without a browser",
            )
        return None


def _with_headers(send: Send, passage: _Passage) -> Send:
    request_id = passage.request_id.encode()

    async def outgoing(message: Message) -> None:
        if message["type"] == "http.response.start":
            passage.started, passage.status = True, message["status"]
            headers = message.setdefault("headers", [])
            present = {name for name, _ in headers}
            headers.extend(pair for pair in _HEADERS if pair[0] not in present)
            headers.append((b"x-request-id", request_id))
        ends = message["type"] == "http.response.body" and not message.get("more_body")
        await (passing(Point.REPLY, send(message)) if ends else send(message))

    return outgoing


def _route(scope: Scope) -> str:
    return str(scope.get(ROUTE, "none"))


def _name_of(host: str) -> str:
    """The name without the port, brackets taken off."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _origin_host(origin: str) -> str:
    try:
        return (urlsplit(origin).hostname or "").lower()
    except ValueError:
        return ""
