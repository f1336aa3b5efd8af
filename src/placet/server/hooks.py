"""Routes about webhooks."""

from typing import TypeVar

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet.contract.hooks import (
    DispatchPage,
    DispatchView,
    HookPage,
    HookRequest,
    HookView,
    KeyedHookView,
    ReplayView,
)
from placet.contract.words import MessageState
from placet.domain.hooks import Dispatch, Hook
from placet.engine.hooks import SHOWN_MAX, Keyed, Refused
from placet.server import mapping, problems
from placet.server.asking import Asked, asked, unfit
from placet.server.doors import Doors, actor_of, reply
from placet.server.table import SMALL_BODY_MAX, Door, Repeat, Route, principal_of, read_body
from placet.server.tokens import Scope

T = TypeVar("T")


class MessagesAsked(Asked):
    """Which messages are told of."""

    limit: int = Field(100, ge=1, le=SHOWN_MAX, description="At most so many.")
    state: MessageState | None = Field(None, description="Only those in this state.")


class ReplayAsked(Asked):
    """From when on."""

    since_s: int = Field(3600, ge=1, le=7 * 86_400, description="What was told in the last so many seconds.")


class Webhooks:
    """Handlers over the use cases, each for the caller's tenant."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=HOOKS, endpoint=self.listed),
            Route(door=NEW_HOOK, endpoint=self.add),
            Route(door=END_HOOK, endpoint=self.remove),
            Route(door=ROTATE, endpoint=self.rotate),
            Route(door=PAUSE, endpoint=self.pause),
            Route(door=RESUME, endpoint=self.resume),
            Route(door=TEST, endpoint=self.test),
            Route(door=REPLAY, endpoint=self.replay),
            Route(door=MESSAGES, endpoint=self.messages),
            Route(door=RESEND, endpoint=self.resend),
        )

    async def listed(self, request: Request) -> Response:
        """All of the tenant's, without their keys."""
        found = await self._doors.hooks.listed(principal_of(request).tenant)
        return reply(HookPage(items=[_view(hook) for hook in found]))

    async def add(self, request: Request) -> Response:
        """It hears of all that happens from now on. The key is in this reply and in that of a rotation."""
        try:
            wanted = HookRequest.model_validate_json(await read_body(request, SMALL_BODY_MAX))
        except ValidationError as error:
            raise unfit(error) from error
        states = [state.value for state in wanted.states]
        tenant = principal_of(request).tenant
        made = await self._doors.hooks.add(tenant, wanted.url, states, actor_of(request))
        if isinstance(made, Refused):
            raise problems.Refusal(problems.BAD_REQUEST, detail=f"url: {made.why}", fix=made.fix)
        return reply(_keyed(made), 201)

    async def remove(self, request: Request) -> Response:
        """Forget it and its messages."""
        hook = _there(await self._doors.hooks.one(*_which(request)))
        await self._doors.hooks.remove(*_which(request))
        return reply(_view(hook))

    async def rotate(self, request: Request) -> Response:
        """A new key. For a day messages are signed with the old one too."""
        return reply(_keyed(_there(await self._doors.hooks.rotate(*_which(request)))))

    async def pause(self, request: Request) -> Response:
        """Send nothing more to it; what happens meanwhile waits."""
        return reply(_view(_there(await self._doors.hooks.pause(*_which(request), actor_of(request)))))

    async def resume(self, request: Request) -> Response:
        """Send what waits."""
        return reply(_view(_there(await self._doors.hooks.resume(*_which(request)))))

    async def test(self, request: Request) -> Response:
        """Send a message that tells of nothing."""
        return reply(_message(_there(await self._doors.hooks.test(*_which(request)))), 202)

    async def replay(self, request: Request) -> Response:
        """Send again what was told lately; each message keeps its id."""
        since_ms = self._doors.clock.now_ms() - asked(request, ReplayAsked).since_s * 1000
        return reply(ReplayView(messages=_there(await self._doors.hooks.replay(*_which(request), since_ms))), 202)

    async def messages(self, request: Request) -> Response:
        """Its messages, the newest first."""
        wanted = asked(request, MessagesAsked)
        found = _there(await self._doors.hooks.dispatches(*_which(request), wanted.limit, wanted.state))
        return reply(DispatchPage(items=[_message(one) for one in found]))

    async def resend(self, request: Request) -> Response:
        """Send one message again, under its old id."""
        message_id = str(request.path_params["message_id"])
        found = await self._doors.hooks.resend(*_which(request), message_id)
        if found is None:
            raise problems.Refusal(
                problems.NOT_FOUND, detail="there is no such message", fix="`placet webhook messages ID` lists them"
            )
        return reply(_message(found), 202)


def _which(request: Request) -> tuple[str, str]:
    return principal_of(request).tenant, str(request.path_params["webhook_id"])


def _there(found: T | None) -> T:
    if found is None:
        raise problems.Refusal(
            problems.NOT_FOUND, detail="there is no such webhook", fix="`placet webhook ls` lists them"
        )
    return found


def _view(hook: Hook) -> HookView:
    return HookView(
        id=hook.id,
        url=hook.url,
        states=list(hook.states),
        created_at=mapping.format_instant(hook.created_ms),
        created_by=hook.created_by,
        former_key_until=mapping.instant(hook.former_until_ms),
        paused_at=mapping.instant(hook.paused_ms),
        paused_why=hook.paused_why,
    )


def _keyed(made: Keyed) -> KeyedHookView:
    return KeyedHookView(**_view(made.hook).model_dump(), secret=made.secret)


def _message(one: Dispatch) -> DispatchView:
    return DispatchView(
        id=one.id,
        type=one.kind,
        workload_id=one.workload_id,
        state=one.state.value,
        tries=one.tries,
        created_at=mapping.format_instant(one.created_ms),
        sent_at=mapping.instant(one.sent_ms),
        next_at=mapping.instant(one.due_ms),
        status=one.status,
        problem=one.problem,
    )


BASE = "/v1/webhooks"
ONE = f"{BASE}/{{webhook_id}}"
MISSING = (problems.NOT_FOUND,)
HOOKS = Door(method="GET", path=BASE, summary="List webhooks.", scope=Scope.WEBHOOKS, reply=HookPage)
NEW_HOOK = Door(
    method="POST",
    path=BASE,
    summary="Make a webhook.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    body_max=SMALL_BODY_MAX,
    status=201,
    reply=KeyedHookView,
    refusals=(problems.BAD_REQUEST, problems.TOO_LARGE),
    body=HookRequest,
)
END_HOOK = Door(
    method="DELETE",
    path=ONE,
    summary="Remove a webhook and its messages.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    reply=HookView,
    refusals=MISSING,
)
ROTATE = Door(
    method="POST",
    path=f"{ONE}/rotate",
    summary="Give a webhook a new signing key.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    reply=KeyedHookView,
    refusals=MISSING,
)
PAUSE = Door(
    method="POST",
    path=f"{ONE}/pause",
    summary="Send nothing more to a webhook for now.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.SAME,
    reply=HookView,
    refusals=MISSING,
)
RESUME = Door(
    method="POST",
    path=f"{ONE}/resume",
    summary="Send to a webhook again.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.SAME,
    reply=HookView,
    refusals=MISSING,
)
TEST = Door(
    method="POST",
    path=f"{ONE}/test",
    summary="Send a test message to a webhook.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    status=202,
    reply=DispatchView,
    refusals=MISSING,
)
REPLAY = Door(
    method="POST",
    path=f"{ONE}/replay",
    summary="Send again what a webhook was told lately.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    asked=ReplayAsked,
    status=202,
    reply=ReplayView,
    refusals=(problems.BAD_REQUEST, *MISSING),
)
MESSAGES = Door(
    method="GET",
    path=f"{ONE}/messages",
    summary="The messages to a webhook and how they fared.",
    scope=Scope.WEBHOOKS,
    asked=MessagesAsked,
    reply=DispatchPage,
    refusals=(problems.BAD_REQUEST, *MISSING),
)
RESEND = Door(
    method="POST",
    path=f"{ONE}/messages/{{message_id}}/resend",
    summary="Send one message again.",
    scope=Scope.WEBHOOKS,
    repeat=Repeat.ANEW,
    status=202,
    reply=DispatchView,
    refusals=MISSING,
)
DOORS = (HOOKS, NEW_HOOK, END_HOOK, ROTATE, PAUSE, RESUME, TEST, REPLAY, MESSAGES, RESEND)
