"""Two servers over one PostgreSQL and one machine: one dies again and again, one freezes, and a cancel goes astray."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placet.sdk.client import Client
from tests.support.mixture import Mixture, nothing_left, seed, settle
from tests.support.servers import Marks, Nursery, ServerProcess, make_marks, pass_time, servers
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # httpx leaves them where nobody answers
]

KILLS = 20
COUNT = 100
FREEZES = 10
FROZEN_S = (0.8, 2.0)
AWAKE_MOST_S = 0.5
CANCEL_WITHIN_S = 2.0


@pytest.fixture
def shared(tmp_path: Path, postgres_url: str) -> dict[str, str]:
    """What servers of one machine share."""
    return {
        "PLACET_DATABASE_URL": postgres_url,
        "PLACET_LOCAL__FOLDER": str(tmp_path / "local"),
        "PLACET_ARTIFACTS_DIR": str(tmp_path / "artifacts"),
    }


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return make_marks(tmp_path)


@pytest.fixture
def pair(tmp_path: Path, nursery: Nursery, shared: dict[str, str]) -> Iterator[list[ServerProcess]]:
    with servers(nursery, tmp_path, shared, shared) as both:
        yield both


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_one_of_two_servers_dies_twenty_times(tmp_path: Path, pair: list[ServerProcess], marks: Marks) -> None:
    chance = random.Random(seed())
    mixture = Mixture(servers=pair, marks=marks, count=COUNT, chance=chance)
    for _ in range(KILLS):
        pair[0].kill_sometime(chance)
    settle(mixture)
    nothing_left(tmp_path, tmp_path / "local")
    for server in pair:
        server.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_servers_that_freeze_in_turn_do_nothing_twice(tmp_path: Path, pair: list[ServerProcess], marks: Marks) -> None:
    chance = random.Random(seed())
    mixture = Mixture(servers=pair, marks=marks, count=COUNT, chance=chance)
    for _ in range(FREEZES):
        server = chance.choice(pair)
        pass_time(chance.uniform(0, AWAKE_MOST_S))
        server.freeze()
        # Longer than the lease, or just about as long: the worst moment to wake up.
        pass_time(chance.uniform(*FROZEN_S))
        server.thaw()
    settle(mixture)
    nothing_left(tmp_path, tmp_path / "local")
    for server in pair:
        assert "Traceback" not in server.log
        server.close()


def test_a_cancel_reaches_the_owner_from_the_other_server(pair: list[ServerProcess], marks: Marks) -> None:
    # Either may have claimed it, so it is asked both ways.
    assert cancel_from(pair[1], pair[0], marks) < CANCEL_WITHIN_S
    assert cancel_from(pair[0], pair[1], marks) < CANCEL_WITHIN_S


def cancel_from(other: ServerProcess, owner: ServerProcess, marks: Marks) -> float:
    """Submit to one and cancel at the other; the seconds until the end."""
    with owner.client() as near, other.client() as far:
        workload_id = running(near, marks)
        began_s = time.monotonic()
        far.cancel(workload_id)
        wait_until(lambda: near.get(workload_id).finished_at, 20, "the cancel")
        took_s = time.monotonic() - began_s
        assert near.result(workload_id).state == "cancelled"
    return took_s


def test_a_server_that_slept_through_its_lease_changes_nothing(
    tmp_path: Path, pair: list[ServerProcess], marks: Marks
) -> None:
    sleeper, other = pair
    with sleeper.client() as first, other.client() as second:
        other.freeze()
        ids = [running(first, marks, "sleep 4", number) for number in range(6)]
        quick = [submit(first, marks, ":", 10 + number) for number in range(10)]
        sleeper.freeze()
        other.thaw()
        # What is new meanwhile must not be run by both either.
        late = [submit(second, marks, "sleep 1", 30 + number) for number in range(6)]
        cancelled = running_or_waiting(second, marks, 40)
        second.cancel(cancelled)
        for workload_id in (*ids[:3], *late[:3]):
            assert second.wait(workload_id, timeout_s=30).state == "succeeded"
        results = {workload_id: second.result_text(workload_id) for workload_id in (*ids[:3], *late[:3])}
        sleeper.thaw()
        for workload_id in (*ids, *quick, *late):
            assert first.wait(workload_id, timeout_s=30).state == "succeeded"
        assert first.wait(cancelled, timeout_s=30).state == "cancelled"
        marks.check()
        starts = marks.count("start")
        assert all(
            sum(times for (known, _), times in starts.items() if known == one) == 1 for one in (*ids, *quick, *late)
        )
        for workload_id, text in results.items():
            assert first.result_text(workload_id) == text
        nothing_left(tmp_path, tmp_path / "local")
        # The one that slept is as good as before.
        other.close()
        assert first.wait(submit(first, marks, ":", 50), timeout_s=20).state == "succeeded"


def submit(client: Client, marks: Marks, body: str, number: int) -> str:
    runtime = {"type": "process", "command": marks.script(body)}
    return client.submit({"runtime": runtime, "metadata": {"number": str(number)}}).id


def running(client: Client, marks: Marks, body: str = "sleep 600", number: int = 0) -> str:
    """A workload whose program has started."""
    workload_id = submit(client, marks, body, number)
    wait_until(started(marks, workload_id), 20, "the program's start")
    return workload_id


def running_or_waiting(client: Client, marks: Marks, number: int) -> str:
    return submit(client, marks, "sleep 600", number)


def started(marks: Marks, workload_id: str) -> Callable[[], bool]:
    return lambda: marks.count("start")[workload_id, 1] > 0
