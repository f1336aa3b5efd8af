"""Estimates, quotes, refusals and calibration through both clients; the deadline is a time from now."""

from collections.abc import Iterator
from typing import Any

import pytest

from placet import AsyncClient, Client
from placet.sdk.errors import InvalidSpec
from tests.support.served import Served, served

SPEC: dict[str, Any] = {
    "runtime": {"type": "process", "command": ["true"]},
    "constraints": {"maximum_runtime_seconds": 60, "deadline": "+2h"},
}
TOO_LARGE = {**SPEC, "resources": {"system_memory_gb": 900_000}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    terms = {"provider": "local", "offers": "local-c*", "price_per_hour": "3.60"}
    with served(tmp_path_factory.mktemp("estimates") / "data", catalog={"private": [terms]}) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(data_dir=server.data, start=False) as client:
        yield client


def test_what_was_quoted_is_accepted_and_what_changed_is_not(client: Client) -> None:
    estimate = client.estimate(SPEC)
    assert estimate.forecast is not None
    assert estimate.quote is not None
    assert estimate.starts_at is not None
    assert estimate.finishes_at is not None
    assert estimate.starts_at.p10 <= estimate.starts_at.p50 <= estimate.finishes_at.p50 <= estimate.finishes_at.p90
    cost_usd = estimate.forecast.cost_usd
    assert 0 <= float(cost_usd.p10) <= float(cost_usd.p50) <= float(cost_usd.p90) < float(estimate.quote.bound_usd)
    workload = client.submit(SPEC, quote=estimate.quote.quote)
    assert workload.wait(timeout_s=30).state == "succeeded"
    with pytest.raises(InvalidSpec) as told:
        client.submit({**SPEC, "name": "other"}, quote=estimate.quote.quote)
    assert told.value.code == "quote_spec_changed"
    assert [problem.code for problem in client.dry_run(SPEC, quote="q1_x").problems] == ["bad_quote"]


def test_a_refusal_carries_what_would_help(client: Client) -> None:
    with pytest.raises(InvalidSpec) as told:
        client.submit(TOO_LARGE)
    [way] = told.value.relaxations
    assert [change.field for change in way.changes] == ["resources.system_memory_gb"]
    assert (way.price_usd_per_hour, way.connected) == ("3.60", True)
    assert client.estimate(TOO_LARGE).relaxations == [way]
    assert client.match(TOO_LARGE).relaxations == [way]
    mended = {**SPEC, "resources": {"system_memory_gb": float(way.changes[0].value)}}
    assert client.dry_run(mended).accepted


def test_what_became_of_it_is_held_against_the_forecast(client: Client) -> None:
    before = client.calibration()
    workload = client.submit(SPEC)
    result = workload.wait(timeout_s=30)
    view = client.calibration(points=True)
    assert view.forecast == before.forecast + 1
    ours = {one.quantity: one for one in view.points if one.workload_id == workload.id}
    assert set(ours) == {"cost_usd", "start_s", "run_s", "finish_s"}
    assert ours["cost_usd"].actual == float(result.cost.total_usd)
    assert ours["run_s"].actual == (result.timing.last_run_ms or 0) / 1000
    noted = client.attempts(workload.id)[0].placement.forecast
    assert noted is not None
    assert float(noted.cost_usd.p50) == ours["cost_usd"].p50
    assert client.calibration(limit=1).considered == 1
    assert client.calibration().points == []


@pytest.mark.anyio
async def test_the_asynchronous_client_does_the_same(server: Served) -> None:
    async with AsyncClient(data_dir=server.data, start=False) as client:
        quote = (await client.estimate(SPEC)).quote
        assert quote is not None
        assert (await client.dry_run(SPEC, quote=quote.quote)).accepted
        workload = await client.submit(SPEC, quote=quote.quote)
        assert (await workload.wait(timeout_s=30)).state == "succeeded"
        with pytest.raises(InvalidSpec) as told:
            await client.submit(TOO_LARGE)
        assert told.value.relaxations
        assert (await client.calibration()).forecast >= 1
