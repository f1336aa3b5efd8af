"""The route table: what each door asks of who comes through it. What is not declared cannot be served."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.codes import Code
from placet.server import problems
from placet.server.tokens import Principal, Scope, TokenGate

PRINCIPAL = "placet.principal"
KEY_HEADER = "idempotency-key"
KEY_MAX = 255
SPEC_BODY_MAX = 1024 * 1024
SMALL_BODY_MAX = 64 * 1024
BODY_WITHIN_S = 30.0


class Asked(BaseModel):
    """What may stand in the query of a door; a parameter nobody knows is passed over, as everywhere on the web."""

    model_config = ConfigDict(frozen=True, defer_build=True)


Q = TypeVar("Q", bound=Asked)


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
    alias: bool = False  # a second name for another door
    extra: Mapping[str, Any] = field(default_factory=dict)  # OpenAPI's words for what no model says

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class Route:
    """A door and what is behind it. Parts of the path are in the request, what it asks is read by ``asked``."""

    door: Door
    endpoint: Callable[[Request], Awaitable[Response]]


def asked(request: Request, model: type[Q]) -> Q:
    """The query of a request, checked; of a parameter that is said twice and has one value, the last counts."""
    if not request.scope["query_string"]:
        return model()
    query = request.query_params
    given = {
        name: query.getlist(name) if _takes_several(field.default) else query[name]
        for name, field in model.model_fields.items()
        if name in query
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        # The value itself is not repeated.
        raise problems.Refusal(problems.BAD_REQUEST, detail=f"{first['loc'][0]}: {first['msg']}") from error


def _takes_several(default: object) -> bool:
    return isinstance(default, tuple)


async def admit(request: Request, gate: TokenGate, scope: Scope) -> Principal:
    """Who asks, if they may."""
    principal = await gate.admit(request.headers.get("authorization"))
    if principal is None:
        raise problems.Refusal(problems.UNAUTHORIZED)
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
        raise problems.Refusal(problems.MEDIA, detail="compressed bodies are not accepted")
    too_large = problems.Refusal(
        problems.TOO_LARGE, detail=f"the limit here is {limit} bytes", headers={"connection": "close"}
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
            problems.BAD_REQUEST, detail="the body did not arrive in time", headers={"connection": "close"}
        ) from error
    return b"".join(pieces)
