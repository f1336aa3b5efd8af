"""Requests and replies as values, and the rules for repeating a request. No I/O, so that two drivers can share it."""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from placet import __version__
from placet.sdk.errors import ClientError, ProblemView, Refused, UnexpectedReply, error_for

if TYPE_CHECKING:
    from placet.contract.forecasts import RelaxationView

T = TypeVar("T")

TRIES = 6
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 3.0
# Replies that say "not now"; the request was not carried out, or is safe to repeat because it is idempotent.
PASSING = frozenset({429, 502, 503, 504})
REQUEST_ID_HEADER = "x-request-id"
USER_AGENT = f"placet-python/{__version__}"
# The last events of a stream: all was said, or the server would not go on.
STREAM_END = "end"
STREAM_REFUSED = "refused"
# Line ends and other controls would end a header, or the request.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request; ``idempotent`` says that doing it twice is doing it once."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    idempotent: bool = True


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One HTTP reply with its whole body; header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A request and how to read its reply."""

    request: Request
    read: Callable[[Reply], T]

    def result(self, reply: Reply) -> T:
        """What the reply says.

        Raises:
            ApiError: the server refused.
            UnexpectedReply: the reply is not one of Placet's.
        """
        if reply.status >= 400:
            raise refusal(reply)
        try:
            return self.read(reply)
        except (ValueError, KeyError, TypeError) as error:
            raise UnexpectedReply(f"{self.request.path}: cannot read the server's reply: {error}") from error


def should_repeat(request: Request, tries: int, reply: Reply | None, *, sent: bool) -> bool:
    """May the request be sent again? Without a reply the connection failed; ``sent`` if bytes may have left before."""
    if tries >= TRIES:
        return False
    if reply is None:
        return request.idempotent or not sent
    return reply.status in PASSING and (request.idempotent or reply.status == 429)


def pause_s(tries: int, reply: Reply | None) -> float:
    """How long to wait before the next try: what the server asks for, else longer each time, never in step."""
    asked = retry_after_s(reply)
    if asked is not None:
        return min(asked, 30.0)
    return min(FIRST_PAUSE_S * 2.0 ** (tries - 1), LONGEST_PAUSE_S) * (0.5 + random.random() / 2)  # noqa: S311 - spreads retries, guards nothing


def retry_after_s(reply: Reply | None) -> float | None:
    value = reply.headers.get("retry-after", "") if reply else ""
    return float(value) if value.isascii() and value.isdigit() else None


def refusal(reply: Reply) -> ClientError:
    """The exception for a reply with an error status; anything but a problem document is told as it is."""
    try:
        told = json.loads(reply.body)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        return UnexpectedReply(f"the server answered with status {reply.status} and no problem document")
    return error_for(
        Refused(
            status=reply.status,
            code=told["code"],
            title=str(told.get("title") or ""),
            detail=str(told.get("detail") or ""),
            fix=str(told.get("fix") or ""),
            request_id=str(told.get("request_id") or reply.headers.get(REQUEST_ID_HEADER, "")),
            problems=tuple(problem_view(problem) for problem in told.get("errors") or () if isinstance(problem, dict)),
            relaxations=tuple(relaxations(told.get("relaxations"))),
            workload_id=told.get("workload_id") if isinstance(told.get("workload_id"), str) else None,
            retry_after_s=retry_after_s(reply),
        )
    )


def relaxations(told: object) -> Iterator["RelaxationView"]:
    """The ways out of a refusal; what cannot be read is left out, for the problems tell of it in words."""
    if not isinstance(told, list) or not told:
        return
    from placet.contract.forecasts import RelaxationView  # few refusals have any

    for one in told:
        with suppress(ValueError):
            yield RelaxationView.model_validate(one)


def problem_view(told: Mapping[str, object]) -> ProblemView:
    """One problem of a problem document."""
    line = told.get("line")
    return ProblemView(
        code=str(told.get("code") or ""),
        field=str(told.get("field") or ""),
        what=str(told.get("what") or ""),
        why=str(told.get("why") or ""),
        fix=str(told.get("fix") or ""),
        line=line if isinstance(line, int) else None,
    )


def headers_for(request: Request, token: str | None) -> dict[bytes, bytes]:
    """The headers of a request as they go out; the token is nowhere else.

    As bytes, so that a key or token that is none reaches the server, which refuses it by name.
    """
    headers = {"accept": "application/json", "user-agent": USER_AGENT, **dict(request.headers)}
    if token:
        headers["authorization"] = f"Bearer {token}"
    return {name.encode(): _CONTROLS.sub("\x80", value).encode() for name, value in headers.items()}


def resumed(request: Request, last: str | None) -> Request:
    """The request that goes on after the last event that was seen."""
    extra = (("last-event-id", last),) if last is not None else ()
    return replace(request, headers=(*request.headers, ("accept", "text/event-stream"), *extra))


def stream_refusal(data: str) -> ClientError:
    """The exception for a stream that the server ended before its end."""
    try:
        code = str(json.loads(data)["code"])
    except (ValueError, KeyError, TypeError):
        code = "unauthorized"
    return error_for(Refused(status=401, code=code, title="the server ended the stream: the token is no longer valid"))
