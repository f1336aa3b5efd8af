"""The comparison with the dictionaries, on PostgreSQL."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from placet.adapters.store import migrate
from placet.adapters.store.tables import metadata
from tests.property.test_store_model import StoreMachine
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

EXAMPLES = settings(max_examples=12, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def address(
    postgres_server: PostgresServer, postgres_template: Callable[[str, Callable[[str], None]], str]
) -> Iterator[str]:
    name = postgres_server.create_database(postgres_template("store", migrate))
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def test_postgres_answers_as_the_dictionaries_do(address: str) -> None:
    names = ", ".join(sorted(metadata.tables.keys() - {"meta"}))

    class PostgresMachine(StoreMachine):
        def address(self) -> str:
            return address

        def clean(self) -> None:
            with psycopg.connect(address.replace("+psycopg", "")) as connection:
                connection.execute(f"TRUNCATE {names}")

    run_state_machine_as_test(PostgresMachine, settings=EXAMPLES)
