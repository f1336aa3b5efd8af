"""What can go wrong for a client.

ClientError
├── Unreachable            no server answered; nothing is known about what was asked
├── UnexpectedReply        something answered that is not Placet, or of another version
├── WaitTimeout            the time the caller allowed is over; the workload goes on
├── SpecError              the document cannot be read; nothing was sent
└── ApiError               the server refused; carries its code
    ├── InvalidSpec        the workload was not accepted; carries all its problems
    ├── Unauthorized       no token, or none that works
    ├── Forbidden          the token lacks a scope
    ├── NotFound           no such workload, artifact or route
    ├── Conflict           the key belongs to another request, or the state does not allow it
    └── ServerFault        the server failed; the request id names the entry in its log
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.contract.forecasts import RelaxationView


@dataclass(frozen=True, kw_only=True)
class ProblemView:
    """One mistake: a stable code, where, what, why, and the smallest change that helps."""

    code: str
    field: str
    what: str
    why: str
    fix: str
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The server's refusal as it was sent."""

    status: int
    code: str
    title: str
    detail: str = ""
    fix: str = ""
    request_id: str = ""
    problems: tuple[ProblemView, ...] = ()
    relaxations: "tuple[RelaxationView, ...]" = ()
    workload_id: str | None = None
    retry_after_s: float | None = None


class ClientError(Exception):
    """Placet could not do what was asked; ``code`` is stable, ``fix`` says what to do."""

    code = "client_error"
    fix = ""

    def __init__(self, message: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix or self.fix


class Unreachable(ClientError):
    """No server answered."""

    code = "server_unreachable"
    fix = "start one with `placet server`, or check PLACET_URL; `placet doctor` tells what is here"


class UnexpectedReply(ClientError):
    """The reply is not one of Placet's."""

    code = "unexpected_reply"
    fix = "check that PLACET_URL is a Placet server and that client and server have the same version"


class WaitTimeout(ClientError):
    """The workload has not finished within the time that was allowed; it goes on."""

    code = "wait_timeout"
    fix = "wait again; waiting changes nothing"


class SpecError(ClientError):
    """The document does not describe a workload; nothing was sent."""

    code = "invalid_spec"

    def __init__(self, message: str, problems: tuple[ProblemView, ...] = (), fix: str = "") -> None:
        super().__init__(message, fix)
        self.problems = problems


class ApiError(ClientError):
    """The server refused."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.detail or refused.title, refused.fix)
        self.refused = refused
        self.code = refused.code

    @property
    def problems(self) -> tuple[ProblemView, ...]:
        return self.refused.problems

    @property
    def relaxations(self) -> "tuple[RelaxationView, ...]":
        """What would make the spec feasible, with price and start."""
        return self.refused.relaxations

    @property
    def request_id(self) -> str:
        return self.refused.request_id


class InvalidSpec(ApiError):
    """The workload was not accepted."""


class Unauthorized(ApiError):
    """No token, or none that works."""


class Forbidden(ApiError):
    """The token lacks a scope."""


class NotFound(ApiError):
    """There is no such thing, or it is not yours."""


class Conflict(ApiError):
    """The key belongs to another request, or the state does not allow it."""


class ServerFault(ApiError):
    """The server failed."""


def error_for(refused: Refused) -> ApiError:
    """The exception that fits the status."""
    match refused.status:
        case 401:
            return Unauthorized(refused)
        case 403:
            return Forbidden(refused)
        case 404:
            return NotFound(refused)
        case 409:
            return Conflict(refused)
        case 422:
            return InvalidSpec(refused)
        case status if status >= 500:
            return ServerFault(refused)
        case _:
            return ApiError(refused)
