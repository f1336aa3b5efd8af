"""The outermost layer: who may ask by which name, what every reply carries, and what a crash does not tell."""

import json

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from placet.server.edge import Edge, Served
from tests.support.asgi import Answer, call, http_scope

TCP = ("127.0.0.1", 7468)


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("fine")(scope, receive, send)


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("SELECT secret FROM /var/lib/placet")


async def ask(
    app: object, headers: list[tuple[str, str]], server: tuple[str, int | None] = TCP
) -> tuple[Answer, list[Served]]:
    seen: list[Served] = []
    edge = Edge(app, allowed_hosts=frozenset({"placet.example"}), boot="b", observe=seen.append)  # type: ignore[arg-type]  # two toy applications
    return await call(edge, http_scope("GET", "/x", headers, server=server)), seen


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7468", "127.0.0.1:1", "[::1]:7468", "placet.example"])
async def test_names_of_ours_are_answered(host: str) -> None:
    answer, _ = await ask(fine, [("host", host)])
    assert answer.status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "[::2]", "localhost@evil"]
)
async def test_a_rebound_name_is_refused(host: str) -> None:
    answer, seen = await ask(fine, [("host", host)])
    assert answer.status == 403
    assert json.loads(answer.body)["code"] == "forbidden"
    assert [served.status for served in seen] == [403]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://", "http://[broken"])
async def test_pages_of_other_sites_are_refused(origin: str) -> None:
    answer, _ = await ask(fine, [("host", "localhost"), ("origin", origin)])
    assert answer.status == 403


async def test_own_pages_and_the_unix_socket_pass() -> None:
    own, _ = await ask(fine, [("host", "localhost:7468"), ("origin", "http://localhost:7468")])
    local, _ = await ask(fine, [("host", "anything")], ("/run/s.sock", None))
    assert (own.status, local.status) == (200, 200)


@pytest.mark.parametrize("app", [fine, broken])
async def test_every_reply_has_the_headers(app: object) -> None:
    answer, _ = await ask(app, [("host", "localhost")])
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-request-id"].startswith("req_b_")


async def test_a_crash_tells_nothing_but_its_request_id() -> None:
    answer, seen = await ask(broken, [("host", "localhost")])
    told = json.loads(answer.body)
    assert (answer.status, told["code"]) == (500, "internal_error")
    assert told["request_id"] == answer.headers["x-request-id"]
    assert "SELECT" not in answer.body.decode()
    assert seen[0].status == 500
