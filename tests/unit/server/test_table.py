"""What a door may be asked in its query: defaults, lists, the last of several, and refusals that repeat nothing."""

from typing import Any

import pytest
from starlette.requests import Request

from placet.domain.states import WorkloadState
from placet.server import problems
from placet.server.table import asked
from placet.server.workloads import ListAsked
from tests.support.asgi import http_scope


def ask(query: str) -> ListAsked:
    scope: dict[str, Any] = {**http_scope("GET", "/x"), "query_string": query.encode()}
    return asked(Request(scope), ListAsked)


def test_nothing_asked_is_the_defaults() -> None:
    assert ask("") == ListAsked()


def test_lists_and_single_values() -> None:
    found = ask("state=running&state=failed&label=a%3Db&limit=7&limit=8&name=%C3%A9&unknown=1")
    assert found.state == (WorkloadState.RUNNING, WorkloadState.FAILED)
    assert (found.label, found.limit, found.name) == (("a=b",), 8, "é")


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=secret", "state=secret", "cursor=secret", "limit="])
def test_what_does_not_fit_is_refused_by_name_alone(query: str) -> None:
    with pytest.raises(problems.Refusal) as caught:
        ask(query)
    assert caught.value.code is problems.BAD_REQUEST
    assert caught.value.detail.startswith(f"{query.partition('=')[0]}: ")
    assert "secret" not in caught.value.detail
