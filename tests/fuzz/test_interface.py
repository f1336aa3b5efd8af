"""The REST interface asked for all that its own OpenAPI document allows, and for what it does not.

In process, with two tenants, over a real store. Whatever is asked, the answer is one that the document promises.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from placet.server.rest import declared
from placet.server.table import Door
from tests.support.api import Api
from tests.support.asgi import Answer, call, http_scope
from tests.support.fuzzing import EXAMPLES

OF_EACH_DOOR = max(EXAMPLES // 25, 4)
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
WHO = st.sampled_from(["ours", "ours", "ours", "ours", "theirs", "reader", None])
DOORS = [door for door in declared() if not door.alias]
# What asks for nothing at all, no token either, cannot be asked wrongly.
ASKED = [
    *(pytest.param(door, True, id=door.name) for door in DOORS),
    *(pytest.param(door, False, id=f"{door.name} wrongly") for door in DOORS if door.scope or door.attempt),
]


@dataclass(kw_only=True)
class Described:
    """The application and what it says of itself, with a workload that has ended and one that has not."""

    api: Api
    schemathesis: ModuleType
    schema: Any
    checks: list[Any]
    workloads: list[str]

    def send(self, request: Any, who: str | None, door: Door) -> Answer:
        """One request as it would stand on the wire. Whoever follows a stream goes away again."""
        target = urlsplit(request.url)
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        headers = {name.lower(): value for name, value in request.headers.items()}
        if who is not None:
            headers["authorization"] = f"Bearer {self.api.tokens[who]}"
        scope = http_scope(door.method, target.path)
        scope |= {
            "path": unquote(target.path),
            "query_string": target.query.encode(),
            "headers": [(name.encode("latin-1"), _bytes(value)) for name, value in headers.items()],
        }
        answer: Answer = self.api._do(call(self.api.app, scope, [body] if body else [], leave=door.streams))
        return answer


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


@pytest.fixture(scope="module")
def described() -> Iterator[Described]:
    import schemathesis  # it loads for seconds: not where no test of these is asked for
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as of_openapi

    api = Api()
    document = json.loads(api.ask("GET", "/v1/openapi.json").body)
    workloads = []
    for name in ("done", "hold"):
        spec = {"runtime": {"type": "process", "command": ["true"]}, "name": name}
        workloads.append(json.loads(api.ask("POST", "/v1/workloads", body=spec).body)["id"])
    yield Described(
        api=api,
        schemathesis=schemathesis,
        schema=schemathesis.openapi.from_dict(document),
        checks=[getattr(checks, name, None) or getattr(of_openapi, name) for name in CHECKS],
        workloads=workloads,
    )
    api.close()


@pytest.mark.parametrize(("door", "right"), ASKED)
def test_every_answer_is_one_that_is_promised(described: Described, door: Door, right: bool) -> None:
    operation = described.schema[door.path.replace(":path}", "}")][door.method.lower()]
    mode = described.schemathesis.GenerationMode
    wanted = operation.as_strategy(generation_mode=mode.POSITIVE if right else mode.NEGATIVE)
    known = st.sampled_from([None, *described.workloads])

    @settings(
        max_examples=OF_EACH_DOOR,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=wanted, who=WHO, workload=known)
    def ask(case: Any, who: str | None, workload: str | None) -> None:
        if workload is not None and "workload_id" in (case.path_parameters or {}):
            case.path_parameters["workload_id"] = workload
        answered(described, door, case, who)

    ask()


def answered(described: Described, door: Door, case: Any, who: str | None) -> None:
    """One exchange, and what holds for any answer."""
    import requests

    request = requests.Request(**case.as_transport_kwargs(base_url="http://placet.test")).prepare()
    answer = described.send(request, who, door)
    if door.streams and answer.status == 0:
        return  # it had not begun when the client was gone
    headers = {name: [value] for name, value in answer.headers.items()}
    response = described.schemathesis.Response(answer.status, headers, answer.body, request, 0.1, True)
    if not (door.streams and answer.status == door.status):
        case.validate_response(response, checks=described.checks)
    if answer.status >= 400:
        problem = json.loads(answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["status"] == answer.status
        assert problem["code"]
        assert problem["request_id"]
