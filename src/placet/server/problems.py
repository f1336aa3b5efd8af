"""Refusals as problem documents (RFC 9457). What is said here reaches strangers: no paths, no stacks, no SQL."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from placet.contract.codes import CODES, Code
from placet.domain.problems import Problem

MEDIA_TYPE = "application/problem+json"
TYPE_BASE = "urn:placet:problem:"

INVALID_SPEC = CODES["invalid_spec"]
QUOTES = {code: CODES[code] for code in ("bad_quote", "quote_expired", "quote_exceeded", "quote_spec_changed")}
BAD_REQUEST = CODES["bad_request"]
BAD_KEY = CODES["bad_idempotency_key"]
UNAUTHORIZED = CODES["unauthorized"]
FORBIDDEN = CODES["forbidden"]
NOT_FOUND = CODES["not_found"]
METHOD = CODES["method_not_allowed"]
NOTHING_TO_DELIVER = CODES["nothing_to_deliver"]
NOT_DELIVERED = CODES["not_delivered"]
NOT_IN_DOUBT = CODES["not_in_doubt"]
NOT_OURS = CODES["not_ours"]
KEY_CONFLICT = CODES["idempotency_conflict"]
UPLOAD_REFUSED = CODES["upload_refused"]
NOT_FINAL = CODES["not_final"]
TOO_LARGE = CODES["too_large"]
MEDIA = CODES["unsupported_media_type"]
RANGE = CODES["range_not_satisfiable"]
TOO_MANY = CODES["too_many_requests"]
INTERNAL = CODES["internal_error"]
OBSERVING = CODES["observing"]
UNAVAILABLE = CODES["unavailable"]
COMMIT_UNKNOWN = CODES["commit_unknown"]


@dataclass(eq=False)
class Refusal(Exception):
    """Raised by a route, answered as a problem document. ``detail`` must be fit for strangers."""

    code: Code
    detail: str = ""
    fix: str = ""
    problems: Sequence[Problem] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)


def document(refusal: Refusal, request_id: str) -> dict[str, object]:
    """The body of the reply, the same keys for every refusal."""
    code = refusal.code
    told: dict[str, object] = {
        "type": TYPE_BASE + code.code,
        "title": code.title,
        "status": code.status,
        "code": code.code,
        "detail": refusal.detail or code.meaning,
        "fix": refusal.fix or code.remedy,
        "request_id": request_id,
        "errors": [problem_document(problem) for problem in refusal.problems],
        "relaxations": [],
    }
    return told | dict(refusal.extra)


def problem_document(problem: Problem) -> dict[str, object]:
    """One problem as it is sent."""
    return {
        "code": problem.code,
        "field": problem.field,
        "what": problem.what,
        "why": problem.why,
        "fix": problem.fix,
        "line": problem.line,
    }


def response(refusal: Refusal, request_id: str) -> Response:
    """The reply for a refusal."""
    body = json.dumps(document(refusal, request_id), ensure_ascii=False, separators=(",", ":"))
    headers = dict(refusal.headers)
    if refusal.code is UNAUTHORIZED:
        headers["www-authenticate"] = 'Bearer realm="placet"'
    return Response(body.encode("utf-8", errors="replace"), refusal.code.status, headers=headers, media_type=MEDIA_TYPE)
