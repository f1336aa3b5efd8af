"""The supervisor is killed under a live server: what ran is lost, all of it is dead, and policy decides the rest."""

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from placet.sdk.client import Client
from tests.support.mixture import nothing_left
from tests.support.servers import Marks, Nursery, ServerProcess, make_marks, servers, supervisors_of
from tests.support.waiting import wait_until

# The children hold the lock of their workload too: whoever survives is seen by the next attempt.
OUTLIVING = "(sleep 600 & sleep 600 &) ; setsid sleep 600 & sleep 600"


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return make_marks(tmp_path)


@pytest.fixture
def server(tmp_path: Path, nursery: Nursery) -> Iterator[ServerProcess]:
    with servers(nursery, tmp_path, {"PLACET_LOCAL__PRICE_PER_HOUR": "3600"}) as [one]:
        yield one


def test_what_was_lost_is_tried_again_after_the_last_of_it_is_dead(
    tmp_path: Path, server: ServerProcess, marks: Marks
) -> None:
    again = f'[ "$PLACET_ATTEMPT" = 1 ] || exit 0\n{OUTLIVING}'
    with server.client() as client:
        done = submit(client, marks, "echo 42 > answer", outputs=[{"name": "answer", "path": "answer"}])
        assert client.wait(done, timeout_s=20).state == "succeeded"
        # One try of the program's own: a supervisor's death must not spend it.
        ids = [submit(client, marks, again, retry={"attempts": 1, "backoff_seconds": 0}) for _ in range(6)]
        once = submit(client, marks, again, repeat="at_most_once")
        wait_until(lambda: all(marks.count("start")[one, 1] for one in (*ids, once)), 20, "all to start")
        kill_supervisor(server)
        for workload_id in ids:
            result = client.wait(workload_id, timeout_s=30)
            assert result.state == "succeeded"
            attempts = client.attempts(workload_id)
            assert [attempt.state for attempt in attempts] == ["lost", "collected"]
            assert attempts[0].failure is not None
            assert attempts[0].failure.cause.code == "attempt_lost"
            assert lost_cost(client, workload_id) < Decimal(client.result(workload_id).cost.total_usd)
        result = client.wait(once, timeout_s=20)
        assert (result.state, result.cause and result.cause.code) == ("failed", "attempt_lost")
        assert lost_cost(client, once) == Decimal(client.result(once).cost.total_usd)
        marks.check()
        assert [marks.count("start")[one, epoch] for one in ids for epoch in (1, 2, 3)] == [1, 1, 0] * len(ids)
        assert [marks.count("start")[once, epoch] for epoch in (1, 2)] == [1, 0]
        assert client.result(done).outputs[0].size_bytes == 3
    nothing_left(tmp_path, server.data_dir / "local")


def test_server_and_supervisor_die_together(tmp_path: Path, server: ServerProcess, marks: Marks) -> None:
    again = f'[ "$PLACET_ATTEMPT" = 1 ] || exit 0\n{OUTLIVING}'
    with server.client() as client:
        ids = [submit(client, marks, again, retry={"backoff_seconds": 0}) for _ in range(4)]
        once = submit(client, marks, again, repeat="at_most_once")
        wait_until(lambda: all(marks.count("start")[one, 1] for one in (*ids, once)), 20, "all to start")
    server.kill()
    kill_supervisor(server)
    assert marks.held(ids[0]), "its orphans live on until somebody looks"
    server.start()
    with server.client() as client:
        assert [client.wait(one, timeout_s=30).state for one in ids] == ["succeeded"] * len(ids)
        assert client.wait(once, timeout_s=20).state == "failed"
        marks.check()
        assert [marks.count("start")[one, epoch] for one in ids for epoch in (1, 2, 3)] == [1, 1, 0] * len(ids)
        assert [marks.count("start")[once, epoch] for epoch in (1, 2)] == [1, 0]
    nothing_left(tmp_path, server.data_dir / "local")


def test_a_supervisor_that_always_dies_is_not_tried_for_ever(server: ServerProcess, marks: Marks) -> None:
    with server.client() as client:
        workload_id = submit(client, marks, OUTLIVING, retry={"infrastructure_attempts": 3, "backoff_seconds": 0})
        for epoch in (1, 2, 3):
            wait_until(lambda: marks.count("start").total() == epoch, 20, f"attempt {epoch}")  # noqa: B023 - called here
            kill_supervisor(server)
        result = client.wait(workload_id, timeout_s=20)
        assert (result.state, result.cause and result.cause.code) == ("failed", "attempt_lost")
        marks.check()
        # The fault was not the program's, and the account says so.
        assert result.cause is not None
        assert result.cause.fault == "infrastructure"
        assert [attempt.state for attempt in client.attempts(workload_id)] == ["lost"] * 3
        assert client.account(workload_id).answers


def lost_cost(client: Client, workload_id: str) -> Decimal:
    """What the first attempt, which was lost, is said to have cost: all of its time, at a dollar a second, as waste."""
    first = client.attempts(workload_id)[0]
    assert first.started_at is not None
    assert first.finished_at is not None
    ran = datetime.fromisoformat(first.finished_at) - datetime.fromisoformat(first.started_at)
    cost = Decimal(first.cost_usd)
    assert Decimal(str(ran.total_seconds())) <= cost <= Decimal(str(ran.total_seconds())) + 10
    assert (Decimal(first.wasted_usd), first.cost_at_most, first.exited_at) == (cost, True, None)
    told = client.result(workload_id)
    assert (Decimal(told.cost.wasted_usd), told.cost.at_most, told.attempts[0].cost_at_most) == (cost, True, True)
    return cost


def kill_supervisor(server: ServerProcess) -> None:
    folder = server.data_dir / "local"
    (pid,) = supervisors_of(folder)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in supervisors_of(folder), 10, "its death")


def submit(client: Client, marks: Marks, body: str, **fields: object) -> str:
    return client.submit({"runtime": {"type": "process", "command": marks.script(body)}, **fields}).id
