"""The store's contract on SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.adapters.store import SqlStore, make_store
from placet.testing.conformance.store import StoreContract
from placet.testing.conformance.store_ownership import Opener


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/placet.db"


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


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def opener(self, opener: Opener) -> Opener:
        return opener
