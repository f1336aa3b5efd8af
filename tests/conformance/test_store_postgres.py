"""The store's contract on PostgreSQL, and what only several servers over one database can show."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from placet.adapters.store import SqlStore, make_store, migrate
from placet.adapters.store.postgres import Postgres
from placet.domain.errors import StoreBusy, StoreError
from placet.domain.records import AcceptOutcome
from placet.domain.states import WorkloadState
from placet.testing.conformance.store import StoreContract
from placet.testing.conformance.store_ownership import Opener
from placet.testing.conformance.store_values import (
    acceptance_of,
    accepted,
    applied,
    claimed,
    loaded,
    new_workload,
    owned,
    transition_to,
)
from tests.support.postgres import PostgresServer, Restartable
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres


@pytest.fixture
def address(
    postgres_server: PostgresServer, postgres_template: Callable[[str, Callable[[str], None]], str]
) -> Iterator[str]:
    name = postgres_server.create_database(postgres_template("store", migrate))
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
async def opener(address: str) -> AsyncIterator[Opener]:
    opened: list[SqlStore] = []

    async def open_one() -> SqlStore:
        store = make_store(address)
        await store.open()
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        await store.close()


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def opener(self, opener: Opener) -> Opener:
        return opener


async def test_other_servers_hear_of_a_write(opener: Opener) -> None:
    mine, other = await opener(), await opener()
    heard: asyncio.Queue[frozenset[str]] = asyncio.Queue()
    stop = other.watch(heard.put_nowait)
    workload = await owned(mine, 1)
    assert await applied(mine, transition_to(workload, WorkloadState.PLACING))
    assert await asyncio.wait_for(heard.get(), 10) == {workload.id}  # what comes together is told together
    await asyncio.gather(*(mine.accept(acceptance_of(new_workload(number))) for number in range(100, 2000)))
    told: set[str] = set()
    while not {new_workload(number).id for number in range(100, 2000)} <= told:
        ids = await asyncio.wait_for(heard.get(), 10)
        if not ids:
            break  # too many to name: something changed
        told |= ids
    stop()


async def test_own_writes_are_told_once(opener: Opener) -> None:
    mine, other = await opener(), await opener()
    heard: list[frozenset[str]] = []
    stop = mine.watch(heard.append)
    await accepted(mine, 1)
    await accepted(other, 2)
    await wait_until_async(lambda: frozenset({new_workload(2).id}) in heard, 10, "the other's write")
    assert heard.count(frozenset({new_workload(1).id})) == 1
    stop()


async def test_who_wants_only_the_writes_of_others_hears_no_own(opener: Opener) -> None:
    mine, other = await opener(), await opener()
    heard: list[frozenset[str]] = []
    stop = mine.watch(heard.append, only_elsewhere=True)
    await accepted(mine, 1)
    await accepted(other, 2)
    await wait_until_async(lambda: heard, 10, "the other's write")
    assert heard == [frozenset({new_workload(2).id})]
    stop()


async def test_processes_that_submit_at_the_same_time_agree(opener: Opener, address: str, project_root: Path) -> None:
    store = await opener()
    command = [sys.executable, "-m", "tests.support.store_child", "submit", address]
    children = [
        await asyncio.create_subprocess_exec(*command, str(1000 * n), "40", cwd=project_root, stdout=subprocess.PIPE)
        for n in range(3)
    ]
    words = [word for child in children for word in (await child.communicate())[0].decode().split()]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert words.count("created") == 40
    assert words.count("existed") == 80
    assert len({word for word in words if word.startswith("wl_")}) == 40
    assert (await store.counts())[WorkloadState.ACCEPTED] == 40


async def test_a_row_locked_by_another_is_not_claimed_and_not_waited_for(opener: Opener, address: str) -> None:
    store = await opener()
    await accepted(store, 1, 2)
    with psycopg.connect(address.replace("+psycopg", "")) as other:
        other.execute("SELECT 1 FROM workloads WHERE id = %s FOR UPDATE", [new_workload(1).id])
        taken = await claimed(store)
        assert [record.workload.id for record in taken] == [new_workload(2).id]


def test_only_what_need_not_survive_is_not_waited_for(address: str) -> None:
    name = make_url(address).database
    with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
    database = Postgres(make_url(address))
    assert flush_level(database, flush=True) == "on"
    assert flush_level(database, flush=False) == "off"


def flush_level(database: Postgres, *, flush: bool) -> str:
    link = database.connect(writes=True)
    link.begin(flush=flush, alone=True)
    link.cursor.execute("SHOW synchronous_commit")
    ((level,),) = link.cursor.fetchall()
    link.rollback()
    link.close()
    return str(level)


@pytest.mark.slow
async def test_a_restart_of_the_server_is_survived(restartable: Restartable) -> None:
    address = restartable.server.url(restartable.server.create_database())
    await asyncio.to_thread(migrate, address)
    store = make_store(address)
    await store.open()
    heard: list[frozenset[str]] = []
    store.watch(heard.append)
    created: list[str] = []
    in_doubt: list[int] = []

    async def submit(first: int) -> None:
        for number in range(first, first + 100_000):
            try:
                outcome = await asyncio.wait_for(store.accept(acceptance_of(new_workload(number), key=str(number))), 30)
            except StoreError as error:
                if not isinstance(error, StoreBusy):
                    in_doubt.append(number)
                return
            created.append(outcome.workload_id)

    workers = [asyncio.ensure_future(submit(10**6 * n)) for n in range(1, 9)]
    await wait_until_async(lambda: len(created) > 100, 20, "some work")
    await asyncio.to_thread(restartable.stop)
    await asyncio.wait_for(asyncio.gather(*workers), 30)
    for call in (store.counts(), accepted(store, 5), store.load(["x"])):
        with pytest.raises(StoreBusy):
            await asyncio.wait_for(call, 30)
    heard.clear()
    await asyncio.to_thread(restartable.start)
    await accepted(store, 6)
    records = await store.load(created)
    assert len(records) == len(created), "all that was acknowledged is there"
    for number in in_doubt:
        outcome = await store.accept(acceptance_of(new_workload(number), key=str(number)))
        assert outcome.outcome in (AcceptOutcome.CREATED, AcceptOutcome.EXISTED)
        assert (await loaded(store, outcome.workload_id)).workload == new_workload(number)
    await wait_until_async(lambda: frozenset() in heard, 20, "the listener to say that it may have missed something")
    await asyncio.to_thread(restartable.stop)
    await asyncio.to_thread(restartable.start)
    assert len(await store.load(created)) == len(created), "a restart that nobody noticed is no fault"
    await accepted(store, 7)
    await store.close()


async def test_a_server_that_is_not_there_is_busy(tmp_path: Path) -> None:
    store = make_store(f"postgresql://postgres@/nothing?host={tmp_path}")
    with pytest.raises(StoreBusy):
        await asyncio.wait_for(store.open(), 20)
    await store.close()
