"""What a store that fails looks like from outside: refused or perhaps done, and always worth repeating with its key."""

import json
from typing import cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from placet.domain.errors import StoreBusy, StoreError, StoreFull, StoreUnknown
from placet.sdk.wire import Reply, should_repeat
from placet.sdk.wire import Request as Asked
from placet.server.rest import Rest
from placet.server.table import Door, Repeat, Route
from placet.server.tokens import TokenGate
from tests.support.asgi import call, http_scope

pytestmark = pytest.mark.anyio


async def test_a_full_disk_is_told_with_what_to_do() -> None:
    async def endpoint(_request: Request) -> Response:
        raise StoreFull("x")

    door = Door(method="POST", path="/x", summary="", scope=None, repeat=Repeat.KEYED)
    answer = await call(Rest([Route(door=door, endpoint=endpoint)], cast("TokenGate", None)), http_scope("POST", "/x"))
    told = json.loads(answer.body)
    assert (answer.status, told["code"]) == (503, "unavailable")
    assert "No space is left" in told["detail"]


@pytest.mark.parametrize(("fault", "code"), [(StoreBusy("x"), "unavailable"), (StoreUnknown("x"), "commit_unknown")])
async def test_a_store_that_fails_is_asked_again(fault: StoreError, code: str) -> None:
    async def endpoint(_request: Request) -> Response:
        raise fault

    door = Door(method="POST", path="/x", summary="", scope=None, repeat=Repeat.KEYED)
    rest = Rest([Route(door=door, endpoint=endpoint)], cast("TokenGate", None))
    answer = await call(rest, http_scope("POST", "/x"))
    assert (answer.status, json.loads(answer.body)["code"]) == (503, code)
    assert answer.headers["retry-after"] == "1"
    assert should_repeat(Asked(method="POST", path="/x"), 1, Reply(status=answer.status), sent=True)
