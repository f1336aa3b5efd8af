"""The REST interface against a model of it: any order of requests, of two tenants, with right and wrong tokens.

The model knows who submitted what under which key, and nothing of how it is done. ``API_EXAMPLES`` asks for more.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from placet.contract.words import WorkloadState
from placet.domain.states import WORKLOAD_MOVES
from tests.support.api import Api
from tests.support.asgi import Answer
from tests.support.waiting import wait_until

EXAMPLES = int(os.environ.get("API_EXAMPLES", "12"))
STEPS = 25
BASE = "/v1/workloads"
TENANTS = ("ours", "theirs")
KEYS = st.sampled_from(("a", "b", "~" * 255))
SPECS: dict[str, dict[str, Any]] = {
    "done": {"runtime": {"type": "process", "command": ["true"]}, "name": "done"},
    "fail": {"runtime": {"type": "process", "command": ["false"]}, "name": "fail"},
    "hold": {"runtime": {"type": "process", "command": ["sleep"]}, "name": "hold"},
}


@dataclass(kw_only=True)
class Known:
    """What the model knows of a workload."""

    id: str
    owner: str
    spec: str
    state: str = "accepted"
    stop_asked: bool = False
    result: bytes | None = None
    events: int = 0

    @property
    def final(self) -> bool:
        return not WORKLOAD_MOVES[WorkloadState(self.state)]  # type: ignore[index]  # the same words


class Model(RuleBasedStateMachine):
    """Each rule makes one request or a few, and compares."""

    api: Api
    workloads = Bundle("workloads")

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Known] = {}
        self.keys: dict[tuple[str, str, str], str] = {}
        self.round = os.urandom(6).hex()  # rounds share a database: each has keys of its own

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        answer = self.api.ask(method, path, **more)
        assert answer.status < 500, (method, path, answer)
        if answer.status >= 400:
            problem = json.loads(answer.body)
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["status"] == answer.status
            assert problem["code"]
            assert problem["request_id"]
        return answer

    def of(self, workload_id: str, who: str) -> Known | None:
        """Only its own tenant knows of it."""
        found = self.known[workload_id]
        return found if found.owner == who else None

    @rule(target=workloads, spec=st.sampled_from(sorted(SPECS)), who=st.sampled_from(TENANTS))
    def submit(self, spec: str, who: str) -> str:
        answer = self.ask("POST", BASE, token=who, body=SPECS[spec])
        assert answer.status == 201
        return self._new(json.loads(answer.body), spec, who)

    @rule(target=workloads, spec=st.sampled_from(sorted(SPECS)), who=st.sampled_from(TENANTS), key=KEYS)
    def submit_with_a_key(self, spec: str, who: str, key: str) -> str:
        key = f"{self.round}{key}"[:255]
        answer = self.ask("POST", BASE, token=who, body=SPECS[spec], headers={"idempotency-key": key})
        told, earlier = json.loads(answer.body), self.keys.get((who, "submit", key))
        if earlier is None:
            assert answer.status == 201
            self.keys[who, "submit", key] = told["id"]
            return self._new(told, spec, who)
        if self.known[earlier].spec == spec:
            assert (answer.status, told["id"], told["existed"]) == (200, earlier, True)
        else:
            assert (answer.status, told["code"]) == (409, "idempotency_conflict")
            assert told["workload_id"] == earlier
        return earlier

    def _new(self, told: dict[str, Any], spec: str, who: str) -> str:
        assert told["id"] not in self.known
        self.known[told["id"]] = Known(id=told["id"], owner=who, spec=spec)
        return str(told["id"])

    @rule(body=st.sampled_from((b"", b"{", b"[]", b'{"runtime": 1}', b'{"a": 1, "a": 2}', b"\xff", b"nan")))
    def submit_what_is_no_spec(self, body: bytes) -> None:
        assert self.ask("POST", BASE, body=body).status in (400, 415, 422)

    @rule(key=st.sampled_from(("", "x" * 256, "\u00e4", "a\tb")))
    def submit_with_a_key_that_is_none(self, key: str) -> None:
        assert self.ask("POST", BASE, body=SPECS["done"], headers={"idempotency-key": key}).status == 400

    @rule(workload=workloads, who=st.sampled_from(TENANTS))
    def show(self, workload: str, who: str) -> None:
        answer = self.ask("GET", f"{BASE}/{workload}", token=who)
        known = self.of(workload, who)
        if known is None:
            assert answer.status == 404
            return
        told = json.loads(answer.body)
        assert (answer.status, told["id"], told["name"]) == (200, workload, known.spec)
        if known.final:
            assert told["state"] == known.state, "a final state has changed"
        known.state = told["state"]
        if known.stop_asked and not known.final:
            assert told["desired"] == "stop"

    @rule(workload=workloads, who=st.sampled_from(TENANTS))
    def cancel(self, workload: str, who: str) -> None:
        answer = self.ask("POST", f"{BASE}/{workload}/cancel", token=who)
        known = self.of(workload, who)
        if known is None:
            assert answer.status == 404
            return
        assert answer.status in (200, 202)
        known.stop_asked = True

    @rule(workload=workloads)
    def it_comes_to_its_end(self, workload: str) -> None:
        known = self.known[workload]
        if known.spec == "hold" and not known.stop_asked:
            return
        path = f"{BASE}/{workload}"
        wait_until(lambda: json.loads(self.ask("GET", path, token=known.owner).body)["final"], 15, "the end")
        self.show(workload, known.owner)
        ends = {"done": {"succeeded"}, "fail": {"failed"}, "hold": set()}[known.spec]
        assert known.state in ends | ({"cancelled"} if known.stop_asked else set())

    @rule(workload=workloads, who=st.sampled_from(TENANTS))
    def result(self, workload: str, who: str) -> None:
        answer = self.ask("GET", f"{BASE}/{workload}/result", token=who)
        known = self.of(workload, who)
        if known is None:
            assert answer.status == 404
        elif answer.status == 200:
            assert known.result in (None, answer.body), "a result has changed"
            known.result = answer.body
            known.state = json.loads(answer.body)["state"]
        else:
            assert not known.final
            assert answer.status in (404, 409)

    @rule(workload=workloads, who=st.sampled_from(TENANTS))
    def events_only_grow(self, workload: str, who: str) -> None:
        answer = self.ask("GET", f"{BASE}/{workload}/events", token=who)
        known = self.of(workload, who)
        assert answer.status == (404 if known is None else 200)
        if known is not None:
            seqs = [one["seq"] for one in json.loads(answer.body)["items"]]
            assert seqs == sorted(set(seqs))
            assert len(seqs) >= known.events
            known.events = len(seqs)

    @rule(
        workload=workloads,
        who=st.sampled_from(TENANTS),
        part=st.sampled_from(("attempts", "account", "logs", "artifacts", "doubt", "ledger", "explanation")),
    )
    def look(self, workload: str, who: str, part: str) -> None:
        answer = self.ask("GET", f"{BASE}/{workload}/{part}", token=who)
        if self.of(workload, who) is None:
            assert answer.status == 404
        elif part == "logs":
            assert answer.status in (200, 404)  # before its first attempt there is none
        else:
            assert answer.status == 200
            if part == "account":
                told = json.loads(answer.body)
                assert len(told["answers"]) == 9
                answers = {one["question"]: one["answer"] for one in told["answers"]}
                assert not (answers["safe_to_retry"] == "yes" and not self._ended(workload))

    def _ended(self, workload: str) -> bool:
        self.show(workload, self.known[workload].owner)
        return self.known[workload].final

    @rule(workload=workloads, who=st.sampled_from(TENANTS), verb=st.sampled_from(("redeliver", "go-on")))
    def nothing_to_redeliver_and_nothing_in_doubt(self, workload: str, who: str, verb: str) -> None:
        answer = self.ask("POST", f"{BASE}/{workload}/{verb}", token=who)
        assert answer.status == (404 if self.of(workload, who) is None else 409)

    @rule(target=workloads, workload=workloads, who=st.sampled_from(TENANTS), key=KEYS)
    def retry(self, workload: str, who: str, key: str) -> str:
        key = f"r{self.round}{key}"[:255]
        known = self.of(workload, who)
        answer = self.ask("POST", f"{BASE}/{workload}/retry", token=who, headers={"idempotency-key": key})
        told, earlier = json.loads(answer.body), self.keys.get((who, "retry", key))
        if known is None:
            assert answer.status == 404
        elif answer.status == 201:
            assert earlier is None
            assert told["retry_of"] == workload
            self.keys[who, "retry", key] = told["id"]
            return self._new(told, known.spec, who)
        elif answer.status == 200:
            assert told["id"] == earlier
        else:
            assert answer.status in (409, 422)
        return workload

    @rule(who=st.sampled_from(TENANTS), limit=st.integers(1, 7))
    def pages_have_everything_once_and_nothing_of_others(self, who: str, limit: int) -> None:
        seen: list[str] = []
        cursor = ""
        own = {one.id for one in self.known.values() if one.owner == who}
        while own - set(seen):
            answer = self.ask("GET", f"{BASE}?limit={limit}{cursor}", token=who)
            assert answer.status == 200
            page = json.loads(answer.body)
            assert len(page["items"]) <= limit
            seen += [one["id"] for one in page["items"]]
            if not page.get("next"):
                break
            cursor = f"&cursor={page['next']}"
        assert seen == sorted(set(seen), reverse=True), "newest first, each once"
        assert own <= set(seen)
        assert not {one.id for one in self.known.values() if one.owner != who} & set(seen)

    @rule(
        workload=workloads,
        token=st.sampled_from((None, "", "plct_x_y", "plct_" + "a" * 16 + "_" + "0" * 64)),
        path=st.sampled_from(("", "/result", "/cancel", "/account")),
    )
    def without_a_token_there_is_nothing(self, workload: str, token: str | None, path: str) -> None:
        method = "POST" if path == "/cancel" else "GET"
        assert self.ask(method, f"{BASE}/{workload}{path}", token=token).status in (401, 429)

    @rule(workload=workloads)
    def a_reader_changes_nothing(self, workload: str) -> None:
        assert self.ask("POST", f"{BASE}/{workload}/cancel", token="reader").status == 403
        assert self.ask("POST", BASE, token="reader", body=SPECS["done"]).status == 403

    @rule(cursor=st.text(max_size=20).map(lambda text: "".join(c for c in text if c.isalnum() and c.isascii())))
    def a_cursor_that_is_none(self, cursor: str) -> None:
        assert self.ask("GET", f"{BASE}?cursor={cursor}").status in (200, 400)

    @rule(name=st.sampled_from(("wl_" + "0" * 29, "x", "wl_%00", "..", "wl_" + "z" * 300)))
    def an_id_that_is_none(self, name: str) -> None:
        assert self.ask("GET", f"{BASE}/{name}").status in (400, 404)

    @invariant()
    def the_engine_lives(self) -> None:
        assert not self.api.plane.loop.done()

    def teardown(self) -> None:
        for known in self.known.values():
            if known.spec == "hold":
                self.api.ask("POST", f"{BASE}/{known.id}/cancel", token=known.owner)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


def test_the_interface_is_as_the_model_says(api: Api) -> None:
    machine = type("Bound", (Model,), {"api": api})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            # A history is told as it was found: to make it shorter takes hundreds of runs over a real database.
            phases=(Phase.generate, *((Phase.shrink,) if "API_EXAMPLES" in os.environ else ())),
        ),
    )
