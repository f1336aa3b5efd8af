"""The throw-away PostgreSQL that the store suites rely on."""

from collections.abc import Callable

import psycopg
import pytest

from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.postgres


def connect(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def make_table(url: str) -> None:
    with connect(url) as connection:
        connection.execute("CREATE TABLE seen (n int)")


def test_each_database_is_empty_and_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    make_table(postgres_url)
    other = postgres_server.create_database()
    with connect(postgres_server.url(other)) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    postgres_server.drop_database(other)
    assert tables == (0,)


def test_a_template_is_prepared_once_and_copied(
    postgres_server: PostgresServer, postgres_template: Callable[[str, Callable[[str], None]], str]
) -> None:
    template = postgres_template("seen", make_table)
    assert postgres_template("seen", make_table) == template
    copy = postgres_server.create_database(template)
    with connect(postgres_server.url(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (0,)
    postgres_server.drop_database(copy)
