"""Routes about workloads: submit, look, cancel, retry. Parse, ask the engine, map; nothing is decided here."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import api
from placet.contract.canonical import client_request_id
from placet.contract.parse import Parsed
from placet.domain.records import Record, WorkloadFilter
from placet.domain.states import WorkloadState
from placet.engine.intake import Conflict, NotFinal, Refused, Submission, Submitted
from placet.engine.redelivering import NotDelivered, NothingToDeliver, Redelivered
from placet.server import forecasts, mapping, problems
from placet.server.asking import Asked, asked
from placet.server.documents import SPEC_BODY, read_spec
from placet.server.doors import Doors, actor_of, no_workload, reply, workload_id_of
from placet.server.table import SPEC_BODY_MAX, Door, Repeat, Route, idempotency_key, principal_of
from placet.server.tokens import Principal, Scope

LIST_MAX = 200
QUOTE_MAX = 200
BASE = "/v1/workloads"
ONE = BASE + "/{workload_id}"
ABSENT = (problems.NOT_FOUND,)
KEYED = (problems.INVALID_SPEC, problems.KEY_CONFLICT, problems.BAD_KEY)


class ListAsked(Asked):
    """Which workloads."""

    state: tuple[WorkloadState, ...] = Field((), description="Only in one of these states.")
    label: tuple[str, ...] = Field((), description="`key=value`; all must match.", max_length=64)
    name: str | None = Field(None, description="Only of this name.", max_length=63)
    limit: int = Field(50, ge=1, le=LIST_MAX)
    cursor: str | None = Field(None, description="`next` of the page before.", pattern=r"^wl_[0-9a-z]{29}$")


def _flag(given: object) -> object:
    """A truth value; anything but plain words is refused rather than guessed."""
    match given:
        case "false" | "0":
            return False
        case "true" | "1" | "":
            return True
        case bool():
            return given
        case _:
            raise ValueError("is not true or false; write true or false")


class SubmitAsked(Asked):
    """How to submit."""

    dry_run: Annotated[bool, BeforeValidator(_flag)] = Field(
        False, description="Only say whether it would be accepted."
    )
    quote: str | None = Field(
        None, description="A quote of an estimate; refused if the world has moved beyond it.", max_length=QUOTE_MAX
    )


class Workloads:
    """Handlers over intake and queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=SUBMIT, endpoint=self.submit),
            Route(door=ESTIMATE, endpoint=self.estimate),
            Route(door=SIZE, endpoint=self.size),
            Route(door=LIST, endpoint=self.list),
            Route(door=GET, endpoint=self.get),
            Route(door=ATTEMPTS, endpoint=self.attempts),
            Route(door=ACCOUNT, endpoint=self.account),
            Route(door=RESULT, endpoint=self.result),
            Route(door=CANCEL, endpoint=self.cancel),
            Route(door=REDELIVER, endpoint=self.redeliver),
            Route(door=RETRY, endpoint=self.retry),
        )

    async def submit(self, request: Request) -> Response:
        """Accept durably, once for a key; or, as a dry run, say what would happen."""
        principal, how = principal_of(request), asked(request, SubmitAsked)
        key = idempotency_key(request)
        parsed = await read_spec(request, self._doors.clock.now_ms())
        if how.dry_run:
            return await self._dry_run(principal, parsed, how.quote)
        submission = Submission(
            tenant=principal.tenant,
            spec=parsed.spec,
            key=key or client_request_id(parsed.spec),
            actor=actor_of(request),
            body_digest=parsed.body_digest,
            quote=how.quote,
            token_id=principal.token_id,
        )
        return _submitted(await self._doors.intake.submit(submission), parsed)

    async def _dry_run(self, principal: Principal, parsed: Parsed, quote: str | None) -> Response:
        estimate = await self._doors.intake.estimate(
            principal.tenant,
            parsed.spec,
            body_digest=parsed.body_digest,
            quote=quote,
            token_id=principal.token_id,
        )
        return reply(
            api.DryRunView(
                accepted=not estimate.problems,
                spec=mapping.render(parsed.spec),
                spec_digest=mapping.spec_digest(parsed.spec),
                problems=[mapping.problem(one) for one in estimate.problems],
                relaxations=[forecasts.relaxation(one) for one in estimate.relaxations],
                warnings=[mapping.problem(one) for one in (*parsed.warnings, *estimate.doubts)],
            )
        )

    async def estimate(self, request: Request) -> Response:
        """What would become of a spec now, and what it may cost; nothing is done."""
        parsed = await read_spec(request, self._doors.clock.now_ms())
        principal = principal_of(request)
        estimate = await self._doors.intake.estimate(
            principal.tenant, parsed.spec, body_digest=parsed.body_digest, token_id=principal.token_id
        )
        digest = mapping.spec_digest(parsed.spec)
        return reply(mapping.estimate(estimate, parsed.warnings, digest, self._doors.queries.stale))

    async def size(self, request: Request) -> Response:
        """How much GPU memory the model of a spec needs; no offer is looked at."""
        parsed = await read_spec(request, self._doors.clock.now_ms())
        sized = await self._doors.intake.measure(principal_of(request).tenant, parsed.spec)
        if isinstance(sized, Refused):
            raise _refusal(sized)
        return reply(mapping.size(sized))

    async def list(self, request: Request) -> Response:
        """Workloads of the token's tenant, newest first."""
        page = asked(request, ListAsked)
        wanted = WorkloadFilter(
            tenant=principal_of(request).tenant,
            states=page.state,
            labels=tuple(_label(pair) for pair in page.label),
            name=page.name,
            before=page.cursor,
            limit=page.limit,
        )
        found = await self._doors.queries.list(wanted)
        following = found[-1].id if len(found) == page.limit else None
        simulated = await self._doors.queries.simulated(found)
        items = [mapping.summary(one, simulated=one.id in simulated) for one in found]
        return reply(api.WorkloadPage(items=items, next=following))

    async def get(self, request: Request) -> Response:
        """One workload with its spec and its attempts."""
        return reply(mapping.workload(await self._record(request), now_ms=self._doors.clock.now_ms()))

    async def attempts(self, request: Request) -> Response:
        """All attempts, first to last."""
        record = await self._record(request)
        now_ms = self._doors.clock.now_ms()
        return reply(api.AttemptList(items=[mapping.attempt(one, now_ms=now_ms) for one in record.attempts]))

    async def account(self, request: Request) -> Response:
        """Nine questions, each answered yes, no or unknown, with evidence, age and source."""
        found = await self._doors.queries.account(principal_of(request).tenant, workload_id_of(request))
        if found is None:
            raise no_workload()
        return reply(mapping.account(found))

    async def result(self, request: Request) -> Response:
        """The final document: write-once, the same keys for every ending, exactly as it is kept."""
        text = await self._doors.queries.result(principal_of(request).tenant, workload_id_of(request))
        if text is not None:
            return Response(text.encode(), media_type="application/json")
        record = await self._record(request)
        raise problems.Refusal(problems.NOT_FINAL, detail=f"the workload is {record.workload.state.value}")

    async def cancel(self, request: Request) -> Response:
        """Ask for an end. What has ended stays as it is; repeating it changes nothing."""
        outcome = await self._doors.intake.cancel(
            principal_of(request).tenant, workload_id_of(request), actor_of(request)
        )
        if outcome is None:
            raise no_workload()
        return reply(mapping.cancelled(outcome))

    async def redeliver(self, request: Request) -> Response:
        """Deliver what was computed and not delivered. Nothing is run again; repeating it changes nothing."""
        tenant, workload_id = principal_of(request).tenant, workload_id_of(request)
        outcome = await self._doors.redelivering.redeliver(tenant, workload_id, actor_of(request))
        match outcome:
            case None:
                raise no_workload()
            case NothingToDeliver():
                raise problems.Refusal(problems.NOTHING_TO_DELIVER, detail=outcome.reason)
            case NotDelivered():
                raise problems.Refusal(problems.NOT_DELIVERED, detail=outcome.problem)
            case Redelivered():
                return reply(mapping.workload(await self._record(request), now_ms=self._doors.clock.now_ms()))

    async def retry(self, request: Request) -> Response:
        """Submit the spec of an ended workload again: a new workload that names the old one."""
        principal = principal_of(request)
        outcome = await self._doors.intake.retry(
            principal.tenant,
            workload_id_of(request),
            actor_of(request),
            idempotency_key(request),
            principal.token_id,
        )
        if outcome is None:
            raise no_workload()
        if isinstance(outcome, NotFinal):
            raise problems.Refusal(problems.NOT_FINAL, detail=f"the workload is {outcome.workload.state.value}")
        return _submitted(outcome, None)

    async def _record(self, request: Request) -> Record:
        record = await self._doors.queries.get(principal_of(request).tenant, workload_id_of(request))
        if record is None:
            raise no_workload()
        return record


def _submitted(outcome: Submitted | Refused | Conflict, parsed: Parsed | None) -> Response:
    match outcome:
        case Submitted():
            view = mapping.workload(
                Record(workload=outcome.workload),
                warnings=(*(() if parsed is None else parsed.warnings), *outcome.doubts),
                existed=outcome.existed,
            )
            return reply(view, 200 if outcome.existed else 201, {"location": f"{BASE}/{outcome.workload.id}"})
        case Refused():
            raise _refusal(outcome)
        case Conflict():
            raise problems.Refusal(problems.KEY_CONFLICT, extra={"workload_id": outcome.workload_id})


def _refusal(refused: Refused) -> problems.Refusal:
    first = refused.problems[0] if refused.problems else None
    code = problems.QUOTES.get(first.code, problems.INVALID_SPEC) if first is not None else problems.INVALID_SPEC
    ways = [forecasts.relaxation(one).model_dump() for one in refused.relaxations]
    return problems.Refusal(
        code,
        detail="" if first is None else first.what,
        problems=refused.problems,
        extra={"relaxations": ways} if ways else {},
    )


def _label(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise problems.Refusal(
            problems.BAD_REQUEST,
            detail="label: is not of the form key=value",
            fix="write for example label=team=research",
        )
    return key, value


_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "1 to 255 printable ASCII characters; the same key with the same spec is the same workload.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
SUBMIT = Door(
    method="POST",
    path=BASE,
    summary="Submit a workload.",
    scope=Scope.SUBMIT,
    repeat=Repeat.KEYED,
    starts=True,
    asked=SubmitAsked,
    body_max=SPEC_BODY_MAX,
    status=201,
    reply=api.WorkloadView,
    refusals=(*KEYED, *problems.QUOTES.values(), problems.MEDIA, problems.TOO_LARGE),
    extra={"requestBody": SPEC_BODY, "parameters": [_KEY_PARAMETER]},
)
ESTIMATE = Door(
    method="POST",
    path="/v1/estimate",
    summary="What would happen, and what it may cost.",
    scope=Scope.READ,
    body_max=SPEC_BODY_MAX,
    reply=api.EstimateView,
    refusals=(problems.INVALID_SPEC, problems.MEDIA, problems.TOO_LARGE),
    extra={"requestBody": SPEC_BODY},
)
SIZE = Door(
    method="POST",
    path="/v1/size",
    summary="How much GPU memory a model needs, and why.",
    scope=Scope.READ,
    body_max=SPEC_BODY_MAX,
    reply=api.SizeView,
    refusals=(problems.INVALID_SPEC, problems.MEDIA, problems.TOO_LARGE),
    extra={"requestBody": SPEC_BODY},
)
LIST = Door(
    method="GET",
    path=BASE,
    summary="List workloads, newest first.",
    scope=Scope.READ,
    asked=ListAsked,
    reply=api.WorkloadPage,
    refusals=(problems.BAD_REQUEST,),
)
GET = Door(
    method="GET",
    path=ONE,
    summary="One workload with its spec and attempts.",
    scope=Scope.READ,
    reply=api.WorkloadView,
    refusals=ABSENT,
)
ATTEMPTS = Door(
    method="GET",
    path=ONE + "/attempts",
    summary="The attempts of a workload.",
    scope=Scope.READ,
    reply=api.AttemptList,
    refusals=ABSENT,
)
ACCOUNT = Door(
    method="GET",
    path=ONE + "/account",
    summary="The nine answers, with their evidence.",
    scope=Scope.READ,
    reply=api.AccountView,
    refusals=ABSENT,
)
RESULT = Door(
    method="GET",
    path=ONE + "/result",
    summary="The final result, once there is one.",
    scope=Scope.READ,
    reply=api.ResultView,
    refusals=(*ABSENT, problems.NOT_FINAL),
)
CANCEL = Door(
    method="POST",
    path=ONE + "/cancel",
    summary="Ask for an end.",
    scope=Scope.CANCEL,
    repeat=Repeat.SAME,
    reply=api.CancelView,
    refusals=ABSENT,
)
REDELIVER = Door(
    method="POST",
    path=ONE + "/redeliver",
    summary="Deliver what was computed and not delivered.",
    scope=Scope.SUBMIT,
    repeat=Repeat.SAME,
    starts=True,
    reply=api.WorkloadView,
    refusals=(*ABSENT, problems.NOTHING_TO_DELIVER, problems.NOT_DELIVERED),
)
RETRY = Door(
    method="POST",
    path=ONE + "/retry",
    summary="Submit an ended workload again, as a new one.",
    scope=Scope.SUBMIT,
    repeat=Repeat.KEYED,
    starts=True,
    status=201,
    reply=api.WorkloadView,
    refusals=(*ABSENT, problems.NOT_FINAL, *KEYED),
    extra={"parameters": [_KEY_PARAMETER]},
)
DOORS = (SUBMIT, ESTIMATE, SIZE, LIST, GET, ATTEMPTS, ACCOUNT, RESULT, CANCEL, REDELIVER, RETRY)
