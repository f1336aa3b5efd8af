"""The store's contract on PostgreSQL, and what only several servers over one database can show."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from placet.adapters.store import SqlStore, make_store, migrate
from placet.testing.conformance.store import StoreContract
from placet.testing.conformance.store_ownership import Opener
from tests.support.postgres import PostgresServer

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
