"""Refusals have one shape, and it is the contract's."""

import json
from pathlib import Path

from placet.contract import api
from placet.domain.problems import Problem
from placet.server import problems

PROBLEM = Problem(code="bad_unit", field="resources.disk_gb", what="w", why="y", fix="f", line=4)


def test_every_refusal_reads_as_problem_details() -> None:
    refusal = problems.Refusal(problems.INVALID_SPEC, problems=(PROBLEM,), extra={"workload_id": "wl_x"})
    reply = problems.response(refusal, "req_1")
    told = api.ProblemDetails.model_validate_json(reply.body)
    assert (reply.status_code, reply.media_type) == (422, "application/problem+json")
    assert (told.status, told.code, told.type) == (422, "invalid_spec", "urn:placet:problem:invalid_spec")
    assert (told.request_id, told.workload_id) == ("req_1", "wl_x")
    assert told.errors == [
        api.ProblemView(code="bad_unit", field="resources.disk_gb", what="w", why="y", fix="f", line=4)
    ]
    assert told.fix
    assert set(json.loads(reply.body)) == set(api.ProblemDetails.model_fields)


def test_foreign_text_that_is_no_unicode_is_no_fault() -> None:
    reply = problems.response(problems.Refusal(problems.BAD_REQUEST, detail="half \ud800 of a pair"), "req_2")
    assert json.loads(reply.body)["detail"].startswith("half ")


def test_codes_come_from_the_registry_only(project_root: Path) -> None:
    text = (project_root / "src/placet/server/problems.py").read_text()
    assert text.count('CODES["') == sum(1 for value in vars(problems).values() if isinstance(value, problems.Code))
