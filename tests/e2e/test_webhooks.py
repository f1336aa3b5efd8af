"""Webhooks end to end: real servers, a real receiver, kills, private addresses."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from placet.sdk.webhooks import Verifier
from tests.support.served import Served, served
from tests.support.waiting import wait_until


@dataclass
class Receiver:
    """What came in, in order; ``answers`` are given one by one, then 204."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in list(self.came)]


@contextmanager
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.paths.append(self.path)
            status = told.answers.pop(0) if told.answers else 204
            told.came.append((dict(self.headers.items()), body))
            self.send_response(status)
            if status == 302:
                self.send_header("location", f"{told.url}elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Not into the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def allowing(told: Receiver) -> dict[str, object]:
    return {"webhooks": {"allowed_private_hosts": [told.url.removeprefix("http://").strip("/")]}}


def made(server: Served, url: str, *states: str) -> dict[str, str]:
    reply = server.http.post("/v1/webhooks", json={"url": url, "states": list(states)})
    assert reply.status_code == 201, reply.text
    hook: dict[str, str] = reply.json()
    return hook


def messages(server: Served, hook: dict[str, str]) -> list[dict[str, object]]:
    reply = server.http.get(f"/v1/webhooks/{hook['id']}/messages")
    assert reply.status_code == 200, reply.text
    items: list[dict[str, object]] = reply.json()["items"]
    return items


def test_a_life_is_told_signed_and_in_full(tmp_path: Path) -> None:
    with receiver() as told, served(tmp_path / "data", **allowing(told)) as server:
        hook, ends = made(server, f"{told.url}all"), made(server, f"{told.url}ends", "succeeded", "failed")
        workload_id = server.submit("/bin/true", name="told")
        server.wait(workload_id)
        wait_until(lambda: told.types.count("workload.succeeded") == 2, 20, "both hear of the end")
        wait_until(lambda: all(one["state"] == "taken" for one in messages(server, hook)), 20, "all is taken")
        verifiers = {"/all": Verifier(hook["secret"]), "/ends": Verifier(ends["secret"])}
        for path, (headers, body) in zip(told.paths, told.came, strict=True):
            verifiers[path].verify(headers, body)
            assert json.loads(body)["data"]["workload_id"] == workload_id
        kinds = {one["type"] for one in messages(server, hook)}
        assert {"workload.accepted", "workload.running", "workload.succeeded"} <= kinds
        assert [one["type"] for one in messages(server, ends)] == ["workload.succeeded"]
        assert "secret" not in server.http.get("/v1/webhooks").json()["items"][0]


def test_a_refused_message_is_tried_again_under_its_id(tmp_path: Path) -> None:
    with receiver() as told, served(tmp_path / "data", **allowing(told)) as server:
        hook = made(server, told.url, "succeeded")
        told.answers += [302]
        server.wait(server.submit("/bin/true"))
        wait_until(lambda: messages(server, hook) and messages(server, hook)[0]["tries"] == 1, 20, "the first try")
        (message,) = messages(server, hook)
        assert (message["state"], message["status"]) == ("pending", 302)
        path = f"/v1/webhooks/{hook['id']}/messages/{message['id']}/resend"
        assert server.http.post(path).status_code == 202
        wait_until(lambda: messages(server, hook)[0]["state"] == "taken", 20, "the second try is taken")
        assert told.paths == ["/", "/"]  # the redirect was not followed
        ids = {dict((k.lower(), v) for k, v in headers.items())["webhook-id"] for headers, _ in told.came}
        assert ids == {message["id"]}
        assert server.http.post(f"/v1/webhooks/{hook['id']}/replay").json() == {"messages": 1}
        wait_until(lambda: len(told.came) == 3, 20, "it is replayed")


def test_gone_for_good_pauses_and_what_happens_meanwhile_is_told_afterwards(tmp_path: Path) -> None:
    with receiver() as told, served(tmp_path / "data", **allowing(told)) as server:
        hook = made(server, told.url, "succeeded")
        told.answers += [410]
        server.wait(server.submit("/bin/true"))

        def paused() -> bool:
            (one,) = server.http.get("/v1/webhooks").json()["items"]
            return "410" in one["paused_why"]

        wait_until(paused, 20, "it is paused")
        missed = server.submit("/bin/true")
        server.wait(missed)
        assert len(told.came) == 1
        assert server.http.post(f"/v1/webhooks/{hook['id']}/resume").json()["paused_at"] is None
        wait_until(lambda: len(told.came) == 2, 20, "what was missed is told")
        assert json.loads(told.came[1][1])["data"]["workload_id"] == missed


def test_what_happened_while_no_server_ran_is_told_by_the_next(tmp_path: Path) -> None:
    with receiver() as told:
        with served(tmp_path / "data", **allowing(told)) as server:
            hook = made(server, told.url, "succeeded")
            assert server.http.post(f"/v1/webhooks/{hook['id']}/pause").status_code == 200
            workload_id = server.submit("/bin/true")
            server.wait(workload_id)
            assert server.http.post(f"/v1/webhooks/{hook['id']}/resume").status_code == 200
        with served(tmp_path / "data", **allowing(told)) as server:
            wait_until(
                lambda: workload_id in [json.loads(body)["data"]["workload_id"] for _, body in told.came], 20, "it"
            )


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "https://example.org:8443/", "ftp://example.org/", "https://user@example.org/",
        "nothing", "https://example.org/#there", "https://exa mple.org/",
        "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused_at_the_door(served_once: Served, url: str) -> None:
    reply = served_once.http.post("/v1/webhooks", json={"url": url})
    assert reply.status_code == 400, reply.text
    assert reply.json()["detail"].startswith("url: ")


def test_an_address_that_leads_inside_is_refused_when_it_is_sent_to(served_once: Served) -> None:
    hook = made(served_once, "https://localhost/", "accepted")
    served_once.submit("/bin/true")
    wait_until(lambda: messages(served_once, hook) and messages(served_once, hook)[0]["tries"], 20, "the first try")
    (message, *_) = messages(served_once, hook)
    assert message["status"] is None
    assert "not public" in str(message["problem"])


def test_another_tenants_hook_is_no_hook(served_once: Served) -> None:
    hook = made(served_once, "https://example.org/")
    for method, path in (("DELETE", ""), ("POST", "/rotate"), ("POST", "/test"), ("GET", "/messages")):
        assert served_once.http.request(method, f"/v1/webhooks/{hook['id'][:-1]}x{path}").status_code == 404
    reply = served_once.http.post("/v1/webhooks", json={"url": "https://example.org/", "states": ["done"]})
    assert reply.status_code == 400
    assert served_once.http.delete(f"/v1/webhooks/{hook['id']}").status_code == 200
    assert served_once.http.delete(f"/v1/webhooks/{hook['id']}").status_code == 404


@pytest.fixture
def served_once(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "data") as server:
        yield server
