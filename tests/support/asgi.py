"""Calls an ASGI application in process, with the body in pieces and every message seen."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)


def http_scope(
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]] = (),
    *,
    server: tuple[str, int | None] = ("/s.sock", None),
) -> dict[str, object]:
    """A request's scope; over a unix socket unless said otherwise."""
    target, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "server": server,
        "client": None,
    }


async def call(app: ASGIApp, scope: dict[str, object], body: Iterable[bytes] = (), *, leave: bool = False) -> Answer:
    """One exchange; with ``leave`` the client goes away after its body."""
    answer = Answer()
    pieces = iter(body)
    ahead = next(pieces, b"")
    done = False
    stay: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def receive() -> Message:
        nonlocal ahead, done
        if done:
            return {"type": "http.disconnect"} if leave else await stay
        now, following = ahead, next(pieces, None)
        ahead, done = following or b"", following is None
        return {"type": "http.request", "body": now, "more_body": not done}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.pieces.append(message.get("body", b""))
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    stay.cancel()
    return answer
