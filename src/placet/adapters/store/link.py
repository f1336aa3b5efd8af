"""One connection to a database and what is done on it; not who does it, nor in which thread."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from placet.adapters.store.codec import Row
from placet.adapters.store.sql import Bound, Flavour, Params, Statement, Statements
from placet.domain.errors import StoreError


class Refused(Exception):
    """Within a transaction: the item's expectation does not hold, undo what it has written."""


@dataclass(frozen=True)
class Step:
    """One statement for each of several rows; with ``exact`` each must change one, or all is refused."""

    statement: Statement
    params: Sequence[Params]
    exact: bool = True

    def check(self, changed: int) -> None:
        if self.exact and changed != len(self.params):
            raise Refused


class Cursor(Protocol):
    """The part of a driver's cursor that we use."""

    @property
    def rowcount(self) -> int:
        """Rows changed by the last statement; with many parameters, by all of them together."""

    def execute(self, text: str, params: Bound = ..., /) -> object:
        """Run one statement."""

    def executemany(self, text: str, params: Iterable[Bound], /) -> object:
        """Run one statement for each."""

    def fetchall(self) -> list[Row]:
        """The rows of the last statement."""


class Database(Flavour, Protocol):
    """One engine at one address, and what its driver's exceptions mean."""

    def prepare(self) -> None:
        """Make sure that the database is there and of our version. Raises ``SchemaMismatch``."""

    def migrate(self) -> None:
        """Bring the tables to our version; of concurrent callers one does it and the others find it done."""

    def connect(self, *, writes: bool) -> "Link":
        """A connection of one's own."""

    def now_ms(self, link: "Link") -> int:
        """The time by the clock that all who use this database share."""

    def listen(self, changed: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call ``changed`` from some thread when another process writes; returns the way to stop that."""

    def is_fault_of_item(self, error: Exception) -> bool:
        """The statement was refused for what it says; the transaction is as good as before."""

    def is_worth_repeating(self, error: Exception) -> bool:
        """The transaction as a whole lost against another; again it may win."""

    def translate(self, error: Exception, *, committing: bool) -> StoreError:
        """The fault in the words of the port; ``StoreBusy`` only when surely nothing was written."""


class Link:
    """A connection with explicit transactions; used by one thread at a time."""

    def __init__(self, database: Database, cursor: Cursor, statements: Statements) -> None:
        self.database = database
        self.cursor = cursor
        self.sql = statements
        self._flush = self._alone = False

    def run(self, statement: Statement, **params: object) -> int:
        """Execute once; returns the number of rows changed."""
        self.cursor.execute(statement.text, statement.bind({**statement.fixed, **params}))
        return self.cursor.rowcount

    def rows(self, statement: Statement, **params: object) -> list[Row]:
        self.cursor.execute(statement.text, statement.bind({**statement.fixed, **params}))
        return self.cursor.fetchall()

    def run_all(self, statement: Statement, params: Sequence[Params]) -> int:
        """Execute for each; returns the number of rows changed by all together."""
        if not params:
            return 0
        if len(params) == 1:
            self.cursor.execute(statement.text, statement.bind(params[0]))
        else:
            self.cursor.executemany(statement.text, map(statement.bind, params))
        return self.cursor.rowcount

    def run_in_turn(self, steps: Sequence[Step]) -> None:
        """Raises ``Refused`` at the first step that does not change what it should."""
        for step in steps:
            step.check(self.run_all(step.statement, step.params))

    def run_together(self, steps: Sequence[Step]) -> None:
        """The same, perhaps sent all at once; a fault may then stand for a refusal that would have come before it."""
        self.run_in_turn(steps)

    def many(self, values: Sequence[str]) -> object:
        return self.database.many(values)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """All of it or nothing of it, within the transaction."""
        self._mark("SAVEPOINT item")
        try:
            yield
        except Exception as error:
            if not isinstance(error, Refused) and not self.database.is_fault_of_item(error):
                raise  # the transaction as a whole is lost
            self._undo()
            raise
        self._mark("RELEASE SAVEPOINT item")

    def _mark(self, words: str) -> None:
        """What is alone in its transaction needs no mark of its own."""
        if not self._alone:
            self.cursor.execute(words)

    def _undo(self) -> None:
        if self._alone:
            self.rollback()
            self.begin(flush=self._flush, alone=False)
        else:
            self.cursor.execute("ROLLBACK TO SAVEPOINT item")
            self.cursor.execute("RELEASE SAVEPOINT item")

    def begin(self, *, flush: bool, alone: bool) -> None:
        """Open a writing transaction, ``alone`` for one savepoint; with ``flush`` its commit survives a power cut."""
        self._flush, self._alone = flush, alone
        self._begin(flush=flush)

    def _begin(self, *, flush: bool) -> None:
        raise NotImplementedError

    def begin_reading(self) -> None:
        """Open a transaction that sees one moment."""
        raise NotImplementedError

    def announce(self, workload_ids: frozenset[str]) -> None:
        """Tell other processes, when this transaction commits."""

    def commit(self) -> None:
        self.cursor.execute("COMMIT")

    def rollback(self) -> None:
        self.cursor.execute("ROLLBACK")

    def close(self) -> None:
        raise NotImplementedError
