"""Who may do what: every declared route against every kind of caller; limits on real bytes; strangers learn nothing."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from placet.adapters.ambient import RandomIds, SystemClock
from placet.adapters.store import make_store
from placet.domain.records import Token
from placet.server.operating import HEALTH, OPENAPI, READY, SCHEMA
from placet.server.problems import BAD_REQUEST
from placet.server.rest import declared
from placet.server.table import SPEC_BODY_MAX, Door, Repeat
from placet.server.tokens import Scope, Wish, issue
from tests.support.served import BASE, Served, served

PUBLIC = {door.name for door in (*HEALTH, *READY, OPENAPI, SCHEMA)}
ASKED_BY_POST = {"POST /v1/estimate", "POST /v1/size"}  # the question is a spec, which no address holds
DOORS = declared()
GUARDED = [door for door in DOORS if door.scope is not None]
SOMEBODY_ELSES = "wl_" + "0" * 29


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("policy") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def mine(server: Served) -> str:
    workload_id = server.submit("true", name="mine", outputs=[])
    server.wait(workload_id)
    return workload_id


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_parameter_that_no_door_declares_is_refused_everywhere(server: Served, door: Door) -> None:
    with server.client(server.token) as client:
        reply = client.request(door.method, path_of(door, SOMEBODY_ELSES), params={"bogus": "1"})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert reply.json()["detail"].startswith("bogus: ")


@pytest.mark.parametrize(
    ("door", "name"),
    [(door, name) for door in DOORS for name in door.asked.model_fields],
    ids=lambda value: value.name if isinstance(value, Door) else value,
)
def test_a_value_that_fits_nothing_is_refused_with_what_to_do(server: Served, door: Door, name: str) -> None:
    with server.client(server.token) as client:
        reply = client.request(door.method, path_of(door, SOMEBODY_ELSES), params={name: "☃" * 1000})
    told = reply.json()
    assert (reply.status_code, told["code"]) == (400, "bad_request")
    assert told["detail"].startswith(f"{name}: ")
    assert told["fix"] != BAD_REQUEST.remedy
    assert "☃" not in reply.text
    assert "nput should" not in reply.text


def path_of(door: Door, workload_id: str) -> str:
    named = {
        "workload_id": workload_id,
        "token_id": "0" * 16,
        "orphan_id": "or_0",
        "webhook_id": "wh_0",
        "message_id": "msg_0",
        "kind": "tenant",
        "holder": "nobody",
        "name": "none",
    }
    return door.path.replace("{path:path}", "x").format(**named)


def ask(server: Served, door: Door, token: str | None, workload_id: str = SOMEBODY_ELSES) -> httpx.Response:
    body = b'{"runtime": {"type": "process", "command": ["true"]}}' if door.body_max else None
    with server.client(token) as client:
        return client.request(door.method, path_of(door, workload_id), content=body)


def stored(server: Served, tenant: str, scopes: tuple[Scope, ...], expires_ms: int | None = None) -> tuple[Token, str]:
    """A token of any tenant, put beside the server into its database."""
    issued = issue(
        Wish(name="t", tenant=tenant, scopes=scopes, expires_ms=expires_ms), RandomIds(), SystemClock().now_ms()
    )

    async def put() -> None:
        store = make_store(f"sqlite:///{server.data / 'placet.db'}")
        await store.open()
        await store.add_token(issued.token)
        await store.close()

    asyncio.run(put())
    return issued.token, issued.text


def test_every_route_is_declared_and_only_these_are_public() -> None:
    assert {door.name for door in DOORS if door.scope is None and not door.attempt} == PUBLIC
    assert not any(door.scope for door in DOORS if door.attempt)
    assert len({door.name for door in DOORS}) == len(DOORS)
    for door in DOORS:
        assert (door.repeat is Repeat.READS) == (
            door.method == "GET" or door.path in ("/v1/estimate", "/v1/offers/match", "/v1/size")
        )
        assert door.body_max == 0 or door.method in ("POST", "PUT")
        assert door.summary


@pytest.mark.parametrize("door", GUARDED, ids=lambda door: door.name)
def test_nobody_gets_in_and_all_refusals_look_the_same(server: Served, door: Door) -> None:
    expired = stored(server, "local", tuple(Scope), expires_ms=1)[1]
    bodies = set()
    for token in (None, "plct_x", f"plct_{'0' * 16}_{'0' * 64}", server.token[:-1] + "_", expired):
        reply = ask(server, door, token)
        told = reply.json()
        assert (reply.status_code, told.pop("request_id")) == (401, reply.headers["x-request-id"])
        assert reply.headers["www-authenticate"] == 'Bearer realm="placet"'
        bodies.add(json.dumps(told))
    assert len(bodies) == 1


@pytest.mark.parametrize("door", GUARDED, ids=lambda door: door.name)
def test_a_token_without_the_scope_is_refused(server: Served, door: Door, mine: str) -> None:
    _, text = stored(server, "local", tuple(scope for scope in Scope if scope is not door.scope))
    reply = ask(server, door, text, mine)
    assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")
    assert door.scope is not None
    assert door.scope.value in reply.headers["www-authenticate"]


@pytest.mark.parametrize("door", [door for door in GUARDED if "{workload_id}" in door.path], ids=lambda door: door.name)
def test_what_belongs_to_others_does_not_exist(server: Served, door: Door, mine: str) -> None:
    _, stranger = stored(server, "someone-else", tuple(Scope))
    foreign, absent = (ask(server, door, stranger, workload_id) for workload_id in (mine, SOMEBODY_ELSES))
    assert foreign.status_code == absent.status_code == 404
    assert {**foreign.json(), "request_id": ""} == {**absent.json(), "request_id": ""}


def test_lists_and_tokens_of_others_are_empty(server: Served, mine: str) -> None:
    token, stranger = stored(server, "someone-else", tuple(Scope))
    with server.client(stranger) as client:
        assert client.get(BASE).json()["items"] == []
        assert client.get(f"{BASE}?name=mine").json()["items"] == []
        assert {one["tenant"] for one in client.get("/v1/tokens").json()["items"]} == {"someone-else"}
    assert server.http.delete(f"/v1/tokens/{token.id}").status_code == 404


def test_a_token_never_makes_a_wider_one(server: Served) -> None:
    _, narrow = stored(server, "local", (Scope.TOKENS, Scope.READ))
    with server.client(narrow) as client:
        wider = client.post("/v1/tokens", json={"name": "w", "scopes": ["workload:read", "operator"]})
        same = client.post("/v1/tokens", json={"name": "s", "scopes": ["workload:read"], "expires_in_s": 60})
    assert (wider.status_code, same.status_code) == (403, 201)
    with server.client(same.json()["token"]) as client:
        assert client.get(BASE).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"name":"x","scopes":["root"]}', b'{"name":"","scopes":["operator"]}']
)
def test_a_wrong_wish_for_a_token_is_refused(server: Served, body: bytes) -> None:
    assert server.http.post("/v1/tokens", content=body).status_code == 400


def test_a_revoked_token_ends_at_once_and_its_streams_within_seconds(server: Served) -> None:
    created = server.http.post("/v1/tokens", json={"name": "short", "scopes": ["workload:read"]}).json()
    workload_id = server.submit("sleep", "60")
    opened, ended = threading.Event(), threading.Event()
    seen: list[str] = []

    def follow() -> None:
        accept = {"accept": "text/event-stream"}
        with (
            server.client(created["token"]) as client,
            client.stream("GET", f"{BASE}/{workload_id}/events", headers=accept) as stream,
        ):
            for line in stream.iter_lines():
                seen.append(line)
                opened.set()
        ended.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert opened.wait(20)
    assert server.http.delete(f"/v1/tokens/{created['id']}").json()["revoked_at"]
    with server.client(created["token"]) as client:
        assert client.get(BASE).status_code == 401
    assert ended.wait(10)
    follower.join()
    assert "event: refused" in seen
    server.http.post(f"{BASE}/{workload_id}/cancel")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/workloads/", "/v1/nope", "/docs", "/openapi.json", "/v1/workloads/x/y/z"]
)
def test_unknown_routes_are_problems_too(server: Served, path: str) -> None:
    reply = server.http.get(path)
    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")


def test_a_wrong_method_is_a_problem_too(server: Served) -> None:
    reply = server.http.put(BASE)
    assert (reply.status_code, reply.json()["code"]) == (405, "method_not_allowed")
    assert reply.headers["allow"]


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_forms_are_no_specs(server: Served, kind: str) -> None:
    reply = server.http.post(BASE, content=b"{}", headers={"content-type": kind})
    assert (reply.status_code, reply.json()["code"]) == (415, "unsupported_media_type")


def test_compressed_bodies_are_refused(server: Served) -> None:
    reply = server.http.post(BASE, content=b"x", headers={"content-encoding": "gzip"})
    assert reply.status_code == 415


def test_a_large_body_is_refused_by_its_header(server: Served) -> None:
    reply = server.http.post(BASE, content=b" " * (SPEC_BODY_MAX + 1))
    assert (reply.status_code, reply.json()["code"]) == (413, "too_large")


def test_a_body_without_a_length_is_counted_while_it_comes(server: Served) -> None:
    """An endless chunked body: the server answers and hangs up long before its end."""
    head = f"POST {BASE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    sent = 0
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(20)
        raw.connect(str(server.socket))
        raw.sendall(head.encode() + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 200:
                raw.sendall(piece)
                sent += 1
        except OSError:
            pass
        answer = raw.recv(65_536)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert sent < 200


@pytest.mark.parametrize(
    ("opening", "more"),
    [
        (b"GET /v1/health HTTP/1.1\r\nx: ", b"x" * 65_536),
        (b"GET /v1/health HTTP/1.1\r\n", b"x: y\r\n" * 10_000),
        (b"GET /", b"x" * 65_536),
        (b"POST /v1/workloads HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", b"x" * 65_536),
    ],
    ids=["value", "lines", "path", "trailer"],
)
def test_a_head_without_an_end_is_cut_off(server: Served, opening: bytes, more: bytes) -> None:
    sent = 0
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(20)
        raw.connect(str(server.socket))
        raw.sendall(opening)
        try:
            while sent < 200:
                raw.sendall(more)
                sent += 1
        except OSError:
            pass
    assert sent < 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"runtime": NaN}',
        b'{"name": "\\ud800"}',
        b'{"name": "a\\u0000b"}',
        b'{"retry": {"attempts": 1' + b"0" * 5_000 + b"}}",
        b'{"name": "a", "name": "b"}',
        b"\xff\xfe",
        b"",
        b"null",
    ],
    ids=["brackets", "deep", "nan", "surrogate", "nul", "digits", "twice", "bytes", "empty", "null"],
)
def test_no_body_is_a_fault(server: Served, body: bytes) -> None:
    reply = server.http.post(BASE, content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (413, 422)
    assert reply.json()["errors"][0]["fix"]


def test_what_could_be_read_is_private(server: Served) -> None:
    private = [
        *server.data.glob("placet.db*"),
        *(server.data / name for name in ("token", "server.lock", "server.sock")),
    ]
    assert len(private) >= 4
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in private if path.stat().st_mode & 0o077} == {}
    assert server.data.stat().st_mode & 0o077 == 0


def test_the_database_holds_no_usable_token(server: Served) -> None:
    secret = server.token.rpartition("_")[2].encode()
    files = [path for path in Path(server.data).glob("placet.db*") if path.is_file()]
    assert files
    assert all(secret not in path.read_bytes() for path in files)
