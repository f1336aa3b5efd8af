"""A statement written once against the tables and compiled once per engine to text with named parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sqlalchemy import ColumnElement, Executable, Table, Text, literal_column
from sqlalchemy.engine import Dialect

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
    from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

Params: TypeAlias = Mapping[str, object]
Bound: TypeAlias = Params | tuple[object, ...]


class Flavour(Protocol):
    """How one engine writes what the other writes differently."""

    dialect: Dialect

    def insert(self, table: Table) -> "SqliteInsert | PostgresInsert":
        """An INSERT that knows ON CONFLICT."""

    def one_of(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        """The column is in the list given as the parameter ``name``."""

    def many(self, values: Sequence[str]) -> object:
        """The list as that parameter's value."""


@dataclass(frozen=True)
class Statement:
    """Text for the driver, and the way from parameters by name to what it wants; ``fixed`` are those that never vary.

    The driver of SQLite looks names up anew for each row, which costs more than the write itself: it gets tuples.
    """

    text: str
    bind: Callable[[Params], Bound]
    fixed: Params = field(default_factory=dict)


def _binder(names: Sequence[str] | None) -> Callable[[Params], Bound]:
    if names is None:
        return lambda params: params
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: tuple(params[name] for name in names)


def inline(word: StrEnum | str) -> ColumnElement[str]:
    """One of our own words as text, where a planner must see it to know that a partial index serves."""
    return literal_column(f"'{word}'", Text())


class Compiler:
    """What all statements of one engine are made with."""

    def __init__(self, flavour: Flavour) -> None:
        self._flavour = flavour

    def _compiled(self, statement: Executable, columns: Sequence[str] | None = None) -> Statement:
        compiled = statement.compile(dialect=self._flavour.dialect, column_keys=columns)  # type: ignore[attr-defined]  # every statement can be compiled; the base class does not say so
        fixed = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        return Statement(str(compiled), _binder(compiled.positiontup), fixed)

    def _insert(self, table: Table) -> Statement:
        columns = [column.name for column in table.columns if column.name != "seq"]
        return self._compiled(self._flavour.insert(table).inline(), columns)

    def _insert_new(self, table: Table) -> Statement:
        columns = [column.name for column in table.columns]
        return self._compiled(self._flavour.insert(table).on_conflict_do_nothing(), columns)
