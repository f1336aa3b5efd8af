"""When a request may be sent again, and what a refusal becomes."""

import json

import pytest

from placet.sdk import errors
from placet.sdk.wire import LONGEST_PAUSE_S, TRIES, Call, Reply, Request, pause_s, refusal, should_repeat

READ = Request(method="GET", path="/v1/workloads")
ANEW = Request(method="POST", path="/v1/tokens", idempotent=False)


def problem(status: int, code: str, **more: object) -> Reply:
    return Reply(
        status=status, body=json.dumps({"code": code, "title": "T", "detail": "D", "fix": "F", **more}).encode()
    )


@pytest.mark.parametrize(
    ("request_", "reply", "sent", "again"),
    [
        (READ, None, True, True),
        (READ, None, False, True),
        (ANEW, None, True, False),
        (ANEW, None, False, True),
        (READ, Reply(status=503), True, True),
        (READ, Reply(status=502), True, True),
        (ANEW, Reply(status=503), True, False),
        (ANEW, Reply(status=429), True, True),
        (READ, Reply(status=500), True, False),
        (READ, Reply(status=404), True, False),
        (READ, Reply(status=200), True, False),
    ],
)
def test_only_what_is_safe_is_repeated(request_: Request, reply: Reply | None, sent: bool, again: bool) -> None:
    assert should_repeat(request_, 1, reply, sent=sent) is again


def test_there_is_a_last_try() -> None:
    assert not should_repeat(READ, TRIES, None, sent=False)


def test_pauses_grow_and_obey_the_server() -> None:
    assert 0.05 <= pause_s(1, None) <= 0.1
    assert all(pause_s(tries, None) <= LONGEST_PAUSE_S for tries in range(1, 20))
    assert pause_s(1, Reply(status=429, headers={"retry-after": "7"})) == 7.0
    assert pause_s(1, Reply(status=429, headers={"retry-after": "soon"})) <= 0.1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (422, errors.InvalidSpec),
        (400, errors.ApiError),
        (500, errors.ServerFault),
    ],
)
def test_a_refusal_becomes_its_exception(status: int, kind: type[errors.ApiError]) -> None:
    told = {"code": "bad_unit", "field": "resources.cpu_cores", "what": "w", "why": "y", "fix": "f", "line": 3}
    error = refusal(problem(status, "some_code", request_id="req_1", errors=[told]))
    assert type(error) is kind
    assert (error.code, str(error), error.fix, error.request_id) == ("some_code", "D", "F", "req_1")
    assert error.problems[0].line == 3
    assert error.problems[0].field == "resources.cpu_cores"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"code": 1}', b"\xff"])
def test_what_is_no_problem_document_is_not_trusted(body: bytes) -> None:
    assert isinstance(refusal(Reply(status=502, body=body)), errors.UnexpectedReply)


def test_a_reply_that_cannot_be_read_is_named() -> None:
    call = Call(request=READ, read=lambda reply: json.loads(reply.body)["items"])
    assert call.result(Reply(status=200, body=b'{"items": 1}')) == 1
    for body in (b"{}", b"nonsense"):
        with pytest.raises(errors.UnexpectedReply, match="/v1/workloads"):
            call.result(Reply(status=200, body=body))
