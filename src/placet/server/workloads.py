"""Routes about workloads: submit, look, cancel, retry. Parse, ask the engine, map; nothing is decided here."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import api
from placet.domain.records import Record, WorkloadFilter
from placet.domain.states import WorkloadState
from placet.engine.intake import Conflict, NotFinal, Refused, Submission, Submitted
from placet.server import mapping, problems
from placet.server.documents import read_spec
from placet.server.doors import Doors, actor_of, no_workload, reply
from placet.server.table import SPEC_BODY_MAX, Door, Repeat, Route, idempotency_key, principal_of
from placet.server.tokens import Scope

LIST_MAX = 200
BASE = "/v1/workloads"
ONE = BASE + "/{workload_id}"


class Workloads:
    """Handlers over intake and queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        found = (problems.NOT_FOUND,)
        return (
            Route(
                Door(
                    method="POST",
                    path=BASE,
                    summary="Submit a workload, or with `dry_run` ask whether it would be accepted.",
                    scope=Scope.SUBMIT,
                    repeat=Repeat.KEYED,
                    body_max=SPEC_BODY_MAX,
                    status=201,
                    reply=api.WorkloadView,
                    refusals=(problems.INVALID_SPEC, problems.KEY_CONFLICT, problems.BAD_KEY),
                    parameters=("dry_run",),
                ),
                self.submit,
                raw=True,
            ),
            Route(
                Door(method="GET", path=BASE, summary="Workloads, newest first.", scope=Scope.READ, reply=api.WorkloadPage),
                self.list,
            ),
            Route(
                Door(
                    method="GET",
                    path=ONE,
                    summary="One workload with its attempts.",
                    scope=Scope.READ,
                    reply=api.WorkloadView,
                    refusals=found,
                ),
                self.get,
            ),
            Route(
                Door(
                    method="GET",
                    path=ONE + "/attempts",
                    summary="The attempts of a workload.",
                    scope=Scope.READ,
                    reply=api.AttemptList,
                    refusals=found,
                ),
                self.attempts,
            ),
            Route(
                Door(
                    method="GET",
                    path=ONE + "/account",
                    summary="The nine answers, with their evidence.",
                    scope=Scope.READ,
                    reply=api.AccountView,
                    refusals=found,
                ),
                self.account,
            ),
            Route(
                Door(
                    method="GET",
                    path=ONE + "/result",
                    summary="The final document, once there is one.",
                    scope=Scope.READ,
                    refusals=(*found, problems.NOT_FINAL),
                ),
                self.result,
            ),
            Route(
                Door(
                    method="POST",
                    path=ONE + "/cancel",
                    summary="Ask for an end. Repeating it changes nothing.",
                    scope=Scope.CANCEL,
                    repeat=Repeat.SAME,
                    reply=api.CancelView,
                    refusals=found,
                ),
                self.cancel,
            ),
            Route(
                Door(
                    method="POST",
                    path=ONE + "/retry",
                    summary="Submit an ended workload again, as a new one.",
                    scope=Scope.SUBMIT,
                    repeat=Repeat.KEYED,
                    status=201,
                    reply=api.WorkloadView,
                    refusals=(*found, problems.NOT_FINAL, problems.INVALID_SPEC, problems.KEY_CONFLICT, problems.BAD_KEY),
                ),
                self.retry,
            ),
        )
