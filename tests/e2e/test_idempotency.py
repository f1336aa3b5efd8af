"""Many submits with few keys, from several threads, over the real door: one workload per key, each run once."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placet.contract.api import WorkloadView
from placet.sdk.client import Client
from placet.sdk.errors import ClientError
from tests.support.servers import Marks, Nursery, make_marks, servers
from tests.support.waiting import wait_until

KEYS, SUBMITS, THREADS = 50, 200, 8


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "sqlite":
        return {}
    return {"PLACET_DATABASE_URL": request.getfixturevalue("postgres_url")}


def test_two_hundred_submits_with_fifty_keys_are_fifty_workloads(
    tmp_path: Path, nursery: Nursery, database: dict[str, str]
) -> None:
    marks = make_marks(tmp_path)
    order = [number % KEYS for number in range(SUBMITS)]
    random.Random(7).shuffle(order)
    with servers(nursery, tmp_path, database) as [server], server.client() as client:
        with ThreadPoolExecutor(THREADS) as threads:
            views = list(threads.map(lambda number: submit(client, marks, number), order))
        ids = {
            number: {view.id for at, view in zip(order, views, strict=True) if at == number} for number in set(order)
        }
        assert all(len(same) == 1 for same in ids.values())
        known = set().union(*ids.values())
        assert len(known) == KEYS
        assert sum(not view.existed for view in views) == KEYS
        for workload_id in known:
            assert client.wait(workload_id, timeout_s=40).state == "succeeded"
        assert {view.id for view in client.page(limit=200).items} == known
        marks.check()
        assert marks.count("start") == {(workload_id, 1): 1 for workload_id in known}
        assert marks.count("end") == marks.count("start")
        # The keys outlive the work: the same request still means the same workload, another one is refused.
        again = submit(client, marks, 0)
        assert again.id in ids[0]
        assert again.state == "succeeded"
        refused = refusal(lambda: submit(client, marks, 0, "another body"))
        assert refused.code == "idempotency_conflict"
        wait_until(lambda: not list((tmp_path / "server-1" / "local" / "attempts").iterdir()), 10, "all to be released")


def submit(client: Client, marks: Marks, number: int, body: str = "true") -> WorkloadView:
    runtime = {"type": "process", "command": marks.script(f": {body} {number}")}
    return client.submit({"runtime": runtime}, key=f"key-{number}").view


def refusal(act: Callable[[], object]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        act()
    return caught.value
