"""The REST door over a real server: one workload's life, and every way to ask about it."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from placet.contract import api
from placet.contract.explanations import ExplanationView, ReplayView
from placet.contract.logs import LogPieceView
from tests.support.postgres import PostgresServer
from tests.support.served import BASE, Served, served

DESIGN_SAMPLE = {
    "runtime": {
        "type": "container",
        "image": "registry.example.com/batch-inference:v4",
        "command": ["python", "run_inference.py"],
    },
    "resources": {"accelerator": "gpu", "minimum_gpu_memory_gb": 24, "cpu_cores": 8, "system_memory_gb": 32},
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same questions to both databases."""
    overrides: dict[str, object] = {}
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        overrides["database_url"] = postgres.url(postgres.create_database())
    with served(tmp_path_factory.mktemp("rest") / "data", **overrides) as running:
        yield running


@pytest.fixture(scope="module")
def done(server: Served) -> str:
    """A workload that has succeeded."""
    script = "echo out; echo err >&2; printf '\\377\\000' >> \"$PLACET_OUTPUTS/raw\"; echo hello > greeting.txt"
    workload_id = server.submit(
        "sh",
        "-c",
        script,
        name="rest-life",
        labels={"team": "a"},
        outputs=[{"name": "raw", "path": "/outputs/raw"}, {"name": "greeting", "path": "greeting.txt"}],
    )
    assert server.wait(workload_id)["state"] == "succeeded"
    return workload_id


def get(server: Served, path: str, **headers: str) -> httpx.Response:
    return server.http.get(path, headers=headers)


def test_a_workload_is_shown_as_it_was_asked(server: Served, done: str) -> None:
    view = api.WorkloadView.model_validate_json(get(server, f"{BASE}/{done}").content)
    assert (view.id, view.state, view.final, view.name, view.labels) == (
        done,
        "succeeded",
        True,
        "rest-life",
        {"team": "a"},
    )
    assert view.spec["runtime"]["type"] == "process"
    assert [attempt.exit_code for attempt in view.attempt_list] == [0]
    assert (
        view.attempt_list == api.AttemptList.model_validate_json(get(server, f"{BASE}/{done}/attempts").content).items
    )


def test_the_result_is_the_same_bytes_every_time(server: Served, done: str) -> None:
    first, second = (get(server, f"{BASE}/{done}/result") for _ in range(2))
    assert first.content == second.content
    result = api.ResultView.model_validate_json(first.content)
    assert (result.state, result.delivery, result.compute_done) == ("succeeded", "complete", True)
    assert {output.path for output in result.outputs} == {"raw", "greeting.txt"}


def test_before_the_end_there_is_no_result(server: Served) -> None:
    workload_id = server.submit("sleep", "60")
    reply = get(server, f"{BASE}/{workload_id}/result")
    assert (reply.status_code, reply.json()["code"]) == (409, "not_final")
    server.http.post(f"{BASE}/{workload_id}/cancel")
    assert server.wait(workload_id)["state"] == "cancelled"


def test_the_choice_behind_an_attempt(server: Served, done: str) -> None:
    address = f"{BASE}/{done}/explanation"
    told = ExplanationView.model_validate_json(get(server, address + "?replay=true").content)
    (made,) = told.decisions
    assert (made.epoch, made.whole, made.replay) == (1, True, ReplayView(equal=True))
    assert made.ranked[0].offer.provider == "local"
    assert made.considered == len(made.ranked) + sum(made.dropped.values())
    assert {one.change for one in made.what_if} >= {"with objective speed", "with objective reliability"}
    assert ExplanationView.model_validate_json(get(server, address).content).decisions[0].replay is None
    assert get(server, f"{BASE}/wl_nothing/explanation").status_code == 404


def test_nine_answers(server: Served, done: str) -> None:
    account = api.AccountView.model_validate_json(get(server, f"{BASE}/{done}/account").content)
    assert len(account.answers) == 9
    assert {answer.answer for answer in account.answers} <= {"yes", "no", "unknown"}


def test_events_in_pages_are_the_events_of_the_stream(server: Served, done: str) -> None:
    paged: list[api.EventView] = []
    after = "0"
    while True:
        page = api.EventPage.model_validate_json(get(server, f"{BASE}/{done}/events?limit=3&after={after}").content)
        paged += page.items
        if page.next is None:
            break
        after = page.next
    streamed = [api.EventView.model_validate_json(data) for _, data in events_of(server, f"{BASE}/{done}/events")]
    assert paged == streamed
    assert [event.seq for event in paged] == sorted(event.seq for event in paged)
    assert (paged[0].kind, paged[-1].to_state) == ("workload.accepted", "succeeded")


def events_of(server: Served, path: str, **headers: str) -> list[tuple[str, str]]:
    """Ids and data of a stream that ends by itself."""
    text = get(server, path, accept="text/event-stream", **headers).text
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in text.split("\n\n") if block]
    assert blocks[-1] == {"event": "end", "data": "{}"}
    return [(block["id"], block["data"]) for block in blocks[:-1]]


def test_a_stream_goes_on_after_what_was_seen(server: Served, done: str) -> None:
    whole = events_of(server, f"{BASE}/{done}/events")
    for place in (0, 3, len(whole) - 1):
        assert events_of(server, f"{BASE}/{done}/events", **{"last-event-id": whole[place][0]}) == whole[place + 1 :]


def test_logs_as_json_raw_and_stream(server: Served, done: str) -> None:
    page = LogPieceView.model_validate_json(get(server, f"{BASE}/{done}/logs?stream=stderr").content)
    assert (page.data, page.sealed, page.next_offset) == (b"err\n", True, 4)
    raw = get(server, f"{BASE}/{done}/logs?offset=1&limit=2", accept="application/octet-stream")
    assert (raw.content, raw.headers["placet-log-next-offset"]) == (b"ut", "3")
    pieces = [LogPieceView.model_validate_json(data) for _, data in events_of(server, f"{BASE}/{done}/logs?stream=all")]
    assert b"".join(piece.data for piece in pieces if piece.stream == "stdout") == b"out\n"
    assert b"".join(piece.data for piece in pieces if piece.stream == "stderr") == b"err\n"


def test_a_log_stream_goes_on_where_it_broke(server: Served) -> None:
    workload_id = server.submit("sh", "-c", "printf '0123456789%.0s' 1 2 3 4 5 6 7 8 9 10; printf '\\377' >&2")
    server.wait(workload_id)
    for offset in (0, 1, 37, 100):
        pieces = events_of(
            server,
            f"{BASE}/{workload_id}/logs?stream=all",
            **{"last-event-id": f"1:stdout:{offset},1:stderr:0,1:install:0"},
        )
        views = [LogPieceView.model_validate_json(data) for _, data in pieces]
        stdout = b"".join(view.data for view in views if view.stream == "stdout")
        assert stdout == (b"0123456789" * 10)[offset:]
        assert [view.data for view in views if view.stream == "stderr" and view.data] == [b"\xff"]


@pytest.mark.parametrize(
    "stale", ["x", "1:stdout", "1:stdout:1", "1:stdout:1,2:stderr:1,1:install:0", "9" * 300, "1:stdin:0"]
)
def test_a_foreign_cursor_is_refused(server: Served, done: str, stale: str) -> None:
    reply = get(server, f"{BASE}/{done}/logs?stream=all", accept="text/event-stream", **{"last-event-id": stale})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")


def test_artifacts_come_with_their_digests(server: Served, done: str) -> None:
    page = api.ArtifactPage.model_validate_json(get(server, f"{BASE}/{done}/artifacts").content)
    for artifact in page.items:
        assert artifact.href is not None
        reply = get(server, artifact.href)
        digest = hashlib.sha256(reply.content)
        assert digest.hexdigest() == artifact.sha256
        assert reply.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
        assert reply.headers["content-disposition"].startswith("attachment")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert int(reply.headers["content-length"]) == artifact.size_bytes == len(reply.content)


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        ("bytes=0-0", 206, b"h"),
        ("bytes=2-", 206, b"llo\n"),
        ("bytes=-2", 206, b"o\n"),
        ("bytes=1-999", 206, b"ello\n"),
        ("bytes=6-", 416, None),
        ("bytes=3-1", 200, b"hello\n"),
        ("lines=1-2", 200, b"hello\n"),
    ],
)
def test_parts_of_an_artifact(server: Served, done: str, asked: str, status: int, body: bytes | None) -> None:
    reply = get(server, f"{BASE}/{done}/artifacts/greeting.txt", range=asked)
    assert reply.status_code == status
    assert body is None or reply.content == body


@pytest.mark.parametrize("path", ["nope", "../token", "%2e%2e/%2e%2e/token", "..%2ftoken", "/etc/passwd", "raw%00"])
def test_only_declared_outputs_are_artifacts(server: Served, done: str, path: str) -> None:
    assert get(server, f"{BASE}/{done}/artifacts/{path}").status_code == 404


def test_lists_have_filters_and_cursors(server: Served, done: str) -> None:
    ids = {server.submit("true", labels={"batch": "z"}, name=f"n{number}") for number in range(5)}
    found: list[str] = []
    cursor = ""
    while True:
        page = api.WorkloadPage.model_validate_json(get(server, f"{BASE}?label=batch=z&limit=2{cursor}").content)
        found += [one.id for one in page.items]
        if page.next is None:
            break
        cursor = f"&cursor={page.next}"
    assert set(found) == ids
    assert found == sorted(found, reverse=True)
    named = api.WorkloadPage.model_validate_json(get(server, f"{BASE}?name=rest-life&state=succeeded").content)
    assert done in [one.id for one in named.items]
    assert {one.name for one in named.items} == {"rest-life"}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "state=happy", "label=novalue", "cursor=x", "cursor=wl_" + "A" * 29, "bogus=1"],
)
def test_a_wrong_parameter_is_named(server: Served, query: str) -> None:
    reply = get(server, f"{BASE}?{query}")
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert query.partition("=")[0] in reply.json()["detail"]


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        (f"{BASE}?stats=running", "did you mean `state`?"),
        (f"{BASE}?state=runing", "did you mean `running`?"),
        (f"{BASE}/{{}}/logs?stream=stdot", "did you mean `stdout`?"),
        (f"{BASE}/{{}}/logs?stream=all", "name one stream"),
        (f"{BASE}/{{}}/logs?epoch=0", "write 1 or more"),
        (f"{BASE}/{{}}/logs?ofset=1", "did you mean `offset`?"),
        (f"{BASE}/{{}}/events?after=-1", "write 0 or more"),
        (f"{BASE}/{{}}/artifacts/greeting.txt?epoch=x", "write a whole number"),
        ("/v1/tokens?gpu=1", "this route takes no parameters"),
        ("/v1/offers?conected=true", "did you mean `connected`?"),
    ],
)
def test_what_may_be_asked_instead_is_told(server: Served, done: str, path: str, fix: str) -> None:
    reply = get(server, path.format(done))
    assert reply.status_code == 400
    assert reply.json()["fix"].startswith(fix)


@pytest.mark.parametrize(
    ("method", "path", "content", "fix"),
    [
        ("GET", "/v1/nowhere", b"", "`/v1/openapi.json` the routes"),
        ("PUT", "/v1/workloads", b"", "`/v1/openapi.json` lists the routes and their methods"),
        ("GET", f"{BASE}/wl_{'0' * 29}", b"", "`placet ls` lists workloads"),
        ("GET", f"{BASE}/wl_{'0' * 29}/artifacts/x", b"", "`placet artifacts ls ID` lists them"),
        ("DELETE", "/v1/tokens/nope", b"", "`placet token ls` lists them"),
        ("POST", "/v1/tokens", b"x" * 100_000, "send at most 65536 bytes"),
        ("POST", BASE, b"x" * 2_000_000, "Pass large data as an input"),
    ],
)
def test_what_to_do_fits_what_was_asked(server: Served, method: str, path: str, content: bytes, fix: str) -> None:
    reply = server.http.request(method, path, content=content)
    assert reply.status_code >= 400
    assert fix in reply.json()["fix"]


@pytest.mark.parametrize(("query", "status"), [("dry_run=maybe", 400), ("dry-run=1", 400), ("dry_run", 200)])
def test_a_dry_run_is_never_guessed(server: Served, query: str, status: int) -> None:
    reply = server.http.post(f"{BASE}?{query}", json={"runtime": {"type": "process", "command": ["true"]}})
    assert reply.status_code == status


def test_one_key_is_one_workload(server: Served) -> None:
    spec = {"runtime": {"type": "process", "command": ["true"]}}
    other = {"runtime": {"type": "process", "command": ["false"]}}
    key = {"idempotency-key": "the key"}
    first, again, conflict = (server.http.post(BASE, json=body, headers=key) for body in (spec, spec, other))
    assert (first.status_code, again.status_code, conflict.status_code) == (201, 200, 409)
    assert first.json()["id"] == again.json()["id"] == conflict.json()["workload_id"]
    assert first.headers["location"] == f"{BASE}/{first.json()['id']}"
    by_metadata = server.http.post(BASE, json={**spec, "metadata": {"client_request_id": "the key"}})
    assert (by_metadata.status_code, by_metadata.json()["id"]) == (200, first.json()["id"])


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tin"])
def test_a_key_is_short_and_printable(server: Served, key: str) -> None:
    reply = server.http.post(BASE, json={}, headers={"idempotency-key": key})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_idempotency_key")


def test_a_dry_run_does_nothing(server: Served) -> None:
    before = get(server, f"{BASE}?limit=1").json()["items"]
    fine = server.http.post(f"{BASE}?dry_run=true", json={"runtime": {"type": "process", "command": ["true"]}}).json()
    refused = server.http.post(f"{BASE}?dry_run=true", json=DESIGN_SAMPLE).json()
    assert (fine["accepted"], refused["accepted"]) == (True, False)
    assert refused["problems"][0]["fix"]
    after = get(server, f"{BASE}?limit=1").json()["items"]
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert server.http.post(f"{BASE}?dry_run=perhaps", json={}).status_code in (400, 422)


def test_an_estimate_names_every_offer(server: Served) -> None:
    reply = server.http.post("/v1/estimate", json=DESIGN_SAMPLE)
    estimate = api.EstimateView.model_validate_json(reply.content)
    assert not estimate.accepted
    assert [drop.offer_id for drop in estimate.plan.drops] == [
        one["id"] for one in get(server, "/v1/offers").json()["items"]
    ]


def test_all_mistakes_at_once_with_lines(server: Served) -> None:
    text = "runtime:\n  type: process\n  command: [x]\nresources:\n  cpu_coers: 1\n  disk_gb: 24 parsecs\n"
    reply = server.http.post(BASE, content=text, headers={"content-type": "application/yaml"})
    told = api.ProblemDetails.model_validate_json(reply.content)
    assert (reply.status_code, told.code) == (422, "invalid_spec")
    assert [(problem.line, problem.code) for problem in told.errors] == [(5, "unknown_field"), (6, "bad_unit")]
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_retry_is_a_new_workload_that_knows_the_old_one(server: Served, done: str) -> None:
    reply = server.http.post(f"{BASE}/{done}/retry", headers={"idempotency-key": "retry once"})
    again = server.http.post(f"{BASE}/{done}/retry", headers={"idempotency-key": "retry once"})
    assert (reply.status_code, again.status_code) == (201, 200)
    assert reply.json()["retry_of"] == done
    assert reply.json()["id"] == again.json()["id"] != done
    assert server.wait(reply.json()["id"])["state"] == "succeeded"


def test_a_cancel_may_be_repeated_and_comes_too_late_in_peace(server: Served, done: str) -> None:
    late = server.http.post(f"{BASE}/{done}/cancel").json()
    assert (late["changed"], late["already_final"]) == (False, True)
    workload_id = server.submit("sleep", "60")
    first, second = (server.http.post(f"{BASE}/{workload_id}/cancel").json() for _ in range(2))
    assert (first["changed"], second["changed"]) == (True, False)
    assert server.wait(workload_id)["state"] == "cancelled"


def test_the_description_is_complete(server: Served) -> None:
    described: dict[str, Any] = get(server, "/v1/openapi.json").json()
    assert described["openapi"].startswith("3.")
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] and operation["responses"] for operation in operations)
    assert json.loads(get(server, "/v1/spec-schema").content)["$schema"].startswith("https://json-schema.org/")


def test_figures_are_counted(server: Served, done: str) -> None:
    get(server, f"{BASE}/{done}")
    page = get(server, "/metrics").text
    assert 'placet_workloads{state="succeeded"}' in page
    assert 'route="/v1/workloads/{workload_id}"' in page
    assert done not in page
