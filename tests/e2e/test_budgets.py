"""An operator's budget, from the command line to a workload that is not begun."""

from decimal import Decimal
from pathlib import Path

from tests.support.served import served
from tests.support.waiting import wait_until

PRICE = {"price_per_hour": "3600.00"}  # a dollar a second


def test_a_budget_stops_what_would_begin_and_warns_before(tmp_path: Path) -> None:
    with served(tmp_path / "data", local=PRICE) as server:
        http = server.http
        body = {"runtime": {"type": "process", "command": ["true"]}, "constraints": {"maximum_runtime_seconds": 60}}
        bounds = {"total_usd": "100.00", "month_usd": "1000"}
        made = http.put("/v1/budgets/tenant/local", json=bounds).json()
        assert [bound["used_percent"] for bound in made["bounds"]] == [0, 0]
        first = http.post("/v1/workloads", json=body)
        assert first.status_code == 201
        assert [one["code"] for one in first.json()["warnings"]] == ["budget_low"]
        path = f"/v1/workloads/{first.json()['id']}"
        wait_until(lambda: http.get(path).json()["final"], 30, "it ends")
        told = [
            one["message"] for one in http.get(path + "/events").json()["items"] if one["kind"] == "workload.budget"
        ]
        assert len(told) == 1
        assert told[0].startswith("50% or more of the budget of tenant local")
        [held] = http.get("/v1/budgets").json()["items"]
        total = held["bounds"][0]
        assert Decimal(total["reserved_usd"]) == 0
        ledger = http.get("/v1/ledger").json()
        assert Decimal(total["spent_usd"]) == Decimal(ledger["spent_usd"]) > 0

        assert http.put("/v1/budgets/tenant/local", json={"total_usd": "10"}).status_code == 200
        refused = http.post("/v1/workloads", json=body)
        assert refused.status_code == 422
        [problem] = refused.json()["errors"]
        assert (problem["code"], problem["field"]) == ("budget_exceeded", "constraints.maximum_estimated_cost")
        dry = http.post("/v1/workloads?dry_run=true", json=body).json()
        assert (dry["accepted"], dry["problems"][0]["code"]) == (False, "budget_exceeded")
        assert http.delete("/v1/budgets/tenant/local").json()["changed"]
        assert http.post("/v1/workloads", json=body).status_code == 201


def test_the_budget_of_a_token_is_its_own(tmp_path: Path) -> None:
    with served(tmp_path / "data", local=PRICE) as server:
        http = server.http
        scopes = ["workload:read", "workload:submit", "token:admin"]
        wish = {"name": "small", "scopes": scopes, "budget_usd": "5"}
        made = http.post("/v1/tokens", json=wish).json()
        theirs = {"authorization": f"Bearer {made['token']}"}
        body = {"runtime": {"type": "process", "command": ["true"]}, "constraints": {"maximum_runtime_seconds": 60}}
        assert http.post("/v1/workloads", json=body, headers=theirs).status_code == 422
        assert http.post("/v1/workloads", json=body).status_code == 201
        [own] = http.get("/v1/budgets", headers=theirs).json()["items"]
        assert (own["kind"], own["holder"]) == ("token", made["id"])
        assert http.post("/v1/tokens", json=wish, headers=theirs).status_code == 403
        assert http.put(f"/v1/budgets/token/{made['id']}", json={"total_usd": "50"}, headers=theirs).status_code == 403
        assert http.put("/v1/budgets/token/none", json={"total_usd": "50"}).status_code == 404
        assert http.put("/v1/budgets/group/x", json={"total_usd": "50"}).status_code == 404
        assert http.put(f"/v1/budgets/token/{made['id']}", json={}).status_code == 400
