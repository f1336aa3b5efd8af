"""The database of simulated worlds, where it must be as those are that it stands for."""

import asyncio

from placet.adapters.store.memory import MemoryDatabase, MemoryStore
from placet.testing.conformance.store_values import accepted, new_workload
from placet.testing.world.loop import VirtualLoop, run_virtual


def test_a_server_hears_of_what_others_write_and_not_of_its_own() -> None:
    """As with PostgreSQL: who read again what it has just written would hide what is wrong with what it holds."""
    heard: list[frozenset[str]] = []

    async def main(loop: VirtualLoop) -> None:
        database = MemoryDatabase("0" * 32, lambda: int(loop.time() * 1000))
        mine, other = MemoryStore(database), MemoryStore(database)
        await mine.open()
        await other.open()
        mine.watch(heard.append, only_elsewhere=True)
        await accepted(mine, 1)
        await accepted(other, 2)
        later: asyncio.Future[None] = loop.create_future()
        loop.call_later(1, later.set_result, None)
        await later
        database.close()

    run_virtual(main)
    assert heard == [frozenset({new_workload(2).id})]
