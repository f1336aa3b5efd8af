"""The route table: what each door asks of who comes through it. What is not declared cannot be served."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.codes import Code
from placet.server import problems
from placet.server.asking import Asked, only_known
from placet.server.throttle import peer_of
from placet.server.tokens import Principal, Scope, Throttled, TokenGate

PRINCIPAL = "placet.principal"
KEY_HEADER = "idempotency-key"
KEY_MAX = 255
SPEC_BODY_MAX = 1024 * 1024
SMALL_BODY_MAX = 64 * 1024
BODY_WITHIN_S = 30.0


class Repeat(StrEnum):
    """What sending the same request twice does."""

    READS = "reads"
    SAME = "same"  # the second changes nothing
    KEYED = "keyed"  # the same idempotency key makes it the same request
    ANEW = "anew"  # does it a second time


@dataclass(frozen=True, kw_only=True)
class Door:
    """One declared route. ``scope`` is ``None`` only for what anybody may see."""

    method: str
    path: str
    summary: str
    scope: Scope | None
    repeat: Repeat = Repeat.READS
    asked: type[Asked] = Asked
    body_max: int = 0
    body: type[BaseModel] | None = None
    streams: bool = False
    status: int = 200
    reply: type[BaseModel] | None = None
    refusals: tuple[Code, ...] = ()
    media_type: str = "application/json"
    attempt: bool = False  # for the machine of an attempt, which shows that attempt's pass and no token
    starts: bool = False  # work begins by it: not while the server only observes
    alias: bool = False  # a second name for another door
    extra: Mapping[str, Any] = field(default_factory=dict)  # OpenAPI's words for what no model says

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class Route:
    """A door and what is behind it. Parts of the path are in the request, what it asks is read by ``asked``.

    Behind every door nobody gets with a parameter that the door does not declare.
    """

    door: Door
    endpoint: Callable[[Request], Awaitable[Response]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint", _only_declared(self.endpoint, self.door.asked))


def _only_declared(
    endpoint: Callable[[Request], Awaitable[Response]], model: type[Asked]
) -> Callable[[Request], Awaitable[Response]]:
    @wraps(endpoint)
    async def guarded(request: Request) -> Response:
        only_known(request, model)
        return await endpoint(request)

    return guarded


async def admit(request: Request, gate: TokenGate, scope: Scope) -> Principal:
    """Who asks, if they may."""
    peer = peer_of(request.client.host if request.client else None)
    principal = await gate.admit(request.headers.get("authorization"), peer)
    if principal is None:
        raise problems.Refusal(problems.UNAUTHORIZED)
    if isinstance(principal, Throttled):
        raise problems.Refusal(
            problems.TOO_MANY,
            detail="too many requests with wrong tokens came from this address",
            fix=f"check the token, and wait {principal.wait_s} s",
            headers={"retry-after": str(principal.wait_s)},
        )
    if not principal.may(scope):
        raise problems.Refusal(
            problems.FORBIDDEN,
            detail=f"this needs the scope {scope.value}",
            fix=f"use a token with that scope: placet token create --scope {scope.value}",
            headers={"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope.value}"'},
        )
    return principal


def principal_of(request: Request) -> Principal:
    """Who asks; a handler that was reached around the table has nobody, and refuses."""
    principal = request.scope.get(PRINCIPAL)
    if not isinstance(principal, Principal):
        raise problems.Refusal(problems.UNAUTHORIZED)
    return principal


def idempotency_key(request: Request) -> str | None:
    """The key of the header, checked."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return None
    if not 1 <= len(key) <= KEY_MAX or not all("!" <= letter <= "~" or letter == " " for letter in key):
        raise problems.Refusal(problems.BAD_KEY)
    return key


async def read_body(request: Request, limit: int) -> bytes:
    """The body, never more of it in memory than the limit, whatever its length header says."""
    headers = request.headers
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise problems.Refusal(problems.MEDIA, detail="compressed bodies are not accepted", fix="send it uncompressed")
    too_large = problems.Refusal(
        problems.TOO_LARGE,
        detail=f"the limit here is {limit} bytes",
        fix="" if limit == SPEC_BODY_MAX else f"send at most {limit} bytes",
        headers={"connection": "close"},
    )
    declared = headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit() or int(declared[:20]) > limit:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise too_large
                pieces.append(piece)
    except TimeoutError as error:
        raise problems.Refusal(
            problems.BAD_REQUEST,
            detail=f"the body did not arrive within {BODY_WITHIN_S:g} s; nothing was done",
            fix="send it again, whole",
            headers={"connection": "close"},
        ) from error
    return b"".join(pieces)
