"""What a door may be asked in its query: defaults, lists, the last of several, and refusals that repeat nothing."""

from typing import Any

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from placet.contract.tokens import TokenRequest
from placet.domain.states import WorkloadState
from placet.server import problems
from placet.server.asking import asked, unfit
from placet.server.workloads import ListAsked
from tests.support.asgi import http_scope


def ask(query: str) -> ListAsked:
    scope: dict[str, Any] = {**http_scope("GET", "/x"), "query_string": query.encode()}
    return asked(Request(scope), ListAsked)


def test_nothing_asked_is_the_defaults() -> None:
    assert ask("") == ListAsked()


def test_lists_and_single_values() -> None:
    found = ask("state=running&state=failed&label=a%3Db&limit=7&limit=8&name=%C3%A9")
    assert found.state == (WorkloadState.RUNNING, WorkloadState.FAILED)
    assert (found.label, found.limit, found.name) == (("a=b",), 8, "é")


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=secret", "state=secret", "cursor=secret", "limit="])
def test_what_does_not_fit_is_refused_by_name_alone(query: str) -> None:
    with pytest.raises(problems.Refusal) as caught:
        ask(query)
    assert caught.value.code is problems.BAD_REQUEST
    assert caught.value.detail.startswith(f"{query.partition('=')[0]}: ")
    assert "secret" not in caught.value.detail


def refused(query: str) -> problems.Refusal:
    with pytest.raises(problems.Refusal) as caught:
        ask(query)
    return caught.value


@pytest.mark.parametrize(
    ("query", "detail", "fix"),
    [
        ("state=runing", "state: is not one of accepted, ", "did you mean `running`?"),
        ("state=qqqq", "state: is not one of accepted, ", "known are accepted, "),
        ("limit=x", "limit: is not a whole number", "write a whole number"),
        ("limit=0", "limit: is less than 1", "write 1 or more"),
        ("limit=201", "limit: is more than 200", "write 200 or less"),
        ("limit=" + "9" * 5000, "limit: is not a whole number", "write a whole number"),
        ("name=" + "x" * 64, "name: is longer than 63 characters", "give a shorter one"),
        ("label=a%3Db" + "&label=a%3Db" * 64, "label: is given more than 64 times", "give fewer"),
        ("cursor=x", "cursor: is not of the form", "take it unchanged from the reply"),
        ("stat=running", "stat: this route has no such parameter", "did you mean `state`?"),
        ("bogus=1", "bogus: this route has no such parameter", "known are state, label, name, limit, cursor"),
        ("a%1b%5B31mb=1", "a?31mb: this route", "known are "),
        ("x" * 5000 + "=1", "x" * 40 + ": this route", "known are "),
    ],
)
def test_a_refusal_names_what_is_allowed(query: str, detail: str, fix: str) -> None:
    found = refused(query)
    assert found.detail.startswith(detail)
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("{", "body: invalid json"),
        ('{"scopes": ["operator"]}', "name: is missing"),
        ('{"name": "", "scopes": ["operator"]}', "name: is empty"),
        ('{"name": "x", "scopes": []}', "scopes: is empty"),
        ('{"name": "x", "scopes": ["operator"], "life": 1}', "life: there is no such field"),
    ],
)
def test_a_small_body_is_told_in_the_same_words(body: str, detail: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TokenRequest.model_validate_json(body)
    assert unfit(caught.value).detail.startswith(detail)
