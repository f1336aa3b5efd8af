"""What one transaction does for many callers. An item that is refused or errs leaves no trace, and the others stand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from placet.adapters.store.codec import Params, text
from placet.adapters.store.link import Link, Refused, Step
from placet.domain.errors import StoreError
from placet.domain.records import Accepted, AcceptOutcome

T = TypeVar("T")
Some = TypeVar("Some", bound="Item")


@dataclass(kw_only=True)
class Item:
    """One thing that happens whole or not at all; ``fault`` says why it could not be decided."""

    flush: bool
    touched: frozenset[str] = frozenset()
    fault: StoreError | None = None

    def forget(self) -> None:
        """Back to undecided: the transaction is done once more."""
        self.fault = None
        self.touched = frozenset()


@dataclass(kw_only=True)
class Admission(Item):
    """An acceptance as rows."""

    workload_id: str
    key: Params | None
    spec: Params
    workload: Params
    labels: Sequence[Params]
    event: Params
    outcome: Accepted | None = None


@dataclass(kw_only=True)
class Move(Item):
    """A transition as rows; ``workload`` carries the guard too."""

    workload_id: str
    workload: Params
    attempts: Sequence[Params]
    intents: Sequence[Params]
    events: Sequence[Params]
    decisions: Sequence[Params]
    artifacts: Sequence[Params]
    results: Sequence[Params]
    charges: Sequence[Params]
    outcome: bool = False

    def forget(self) -> None:
        super().forget()
        self.outcome = False


@dataclass(kw_only=True)
class Deed(Item, Generic[T]):
    """Anything else; ``act`` returns its outcome and the ids whose rows it changed."""

    act: Callable[[Link], tuple[T, Iterable[str]]]
    outcome: list[T] = field(default_factory=list)  # of one; empty until done

    def forget(self) -> None:
        super().forget()
        self.outcome.clear()


@dataclass(frozen=True)
class Group(Generic[Some]):
    """Items that are written with the same few statements: ``quick`` for all, or ``careful`` for one of them."""

    items: Sequence[Some]
    quick: Callable[[Link, Sequence[Some]], None] | None
    careful: Callable[[Link, Some], None]

    def write(self, link: Link) -> None:
        self._forget()
        if self.quick is None or not self._write_together(link, self.quick):
            self._forget()
            for item in self.items:
                self._write_one(link, item)

    def _forget(self) -> None:
        for item in self.items:
            item.forget()

    def _write_together(self, link: Link, quick: Callable[[Link, Sequence[Some]], None]) -> bool:
        """All at once, which nearly always works; ``False`` if anything was amiss, and nothing is written."""
        try:
            with link.savepoint():
                quick(link, self.items)
        except Exception as error:
            if not _concerns_items(link, error):
                raise
            return False
        return True

    def _write_one(self, link: Link, item: Some) -> None:
        try:
            with link.savepoint():
                self.careful(link, item)
        except Refused:
            item.forget()
        except Exception as error:
            if not _concerns_items(link, error):
                raise
            item.forget()
            item.fault = link.database.translate(error, committing=False)


def groups(items: Sequence[Item]) -> "list[Group[Admission] | Group[Move] | Group[Deed[object]]]":
    """What is done in one go, and in which order."""
    admissions = [item for item in items if isinstance(item, Admission)]
    waves = _waves([item for item in items if isinstance(item, Move)])
    deeds = [item for item in items if isinstance(item, Deed)]
    return [
        *([Group(admissions, _admit_all, _admit)] if admissions else []),
        *(Group(wave, _move_all, _move) for wave in waves),
        *(Group([deed], None, _act) for deed in deeds),
    ]


def _concerns_items(link: Link, error: Exception) -> bool:
    return isinstance(error, Refused) or link.database.is_fault_of_item(error)


def _admit_all(link: Link, items: Sequence[Admission]) -> None:
    """As if all of them were new."""
    keys = [item.key for item in sorted(items, key=_key_of) if item.key is not None]
    link.run_together([Step(link.sql.key_take, keys), *_birth(link, items)])
    for item in items:
        _created(item)


def _admit(link: Link, item: Admission) -> None:
    if item.key is not None and link.run_all(link.sql.key_take, [item.key]) == 0:
        ((holder, digest),) = link.rows(link.sql.key_holder, tenant=item.key["tenant"], key=item.key["key"])
        told = AcceptOutcome.EXISTED if digest == item.key["body_digest"] else AcceptOutcome.CONFLICT
        item.outcome = Accepted(outcome=told, workload_id=text(holder))
    else:
        link.run_in_turn(_birth(link, [item]))
        _created(item)


def _birth(link: Link, items: Sequence[Admission]) -> list[Step]:
    # In one order everywhere, so that two servers that write the same specs wait for one another and do not deadlock.
    specs = {text(item.spec["id"]): item.spec for item in items}
    return [
        Step(link.sql.spec_put, [specs[spec_id] for spec_id in sorted(specs)], exact=False),
        Step(link.sql.workload_put, [item.workload for item in items]),
        Step(link.sql.label_put, [label for item in items for label in item.labels]),
        Step(link.sql.event_put, [item.event for item in items]),
    ]


def _created(item: Admission) -> None:
    item.outcome = Accepted(outcome=AcceptOutcome.CREATED, workload_id=item.workload_id)
    item.touched = frozenset((item.workload_id,))


def _key_of(item: Admission) -> tuple[str, str]:
    return ("", "") if item.key is None else (text(item.key["tenant"]), text(item.key["key"]))


def _move_all(link: Link, items: Sequence[Move]) -> None:
    link.run_together(_steps(link, items))
    for item in items:
        _moved(item)


def _move(link: Link, item: Move) -> None:
    link.run_in_turn(_steps(link, [item]))
    _moved(item)


def _steps(link: Link, items: Sequence[Move]) -> list[Step]:
    """The guarded write first: what it refuses has not touched anything else."""
    sql = link.sql
    charges = sorted((row for item in items for row in item.charges), key=_charged)
    return [
        Step(sql.move, [item.workload for item in items if item.workload["finished_ms"] is None]),
        Step(sql.end, [item.workload for item in items if item.workload["finished_ms"] is not None]),
        Step(sql.attempt_put, [row for item in items for row in item.attempts]),
        Step(sql.intent_put, [row for item in items for row in item.intents]),
        Step(sql.decision_put, [row for item in items for row in item.decisions]),
        Step(sql.artifact_put, [row for item in items for row in item.artifacts]),
        Step(sql.result_put, [row for item in items for row in item.results]),
        Step(sql.event_put, [row for item in items for row in item.events]),
        # The last, and in one order everywhere: many servers add to the same few rows, which are held until the commit.
        Step(sql.spending_begin, charges, exact=False),
        Step(sql.spending_add, charges),
    ]


def _charged(row: Params) -> tuple[str, str, str]:
    return text(row["of_kind"]), text(row["of_holder"]), text(row["of_period"])


def _moved(item: Move) -> None:
    item.outcome = True
    item.touched = frozenset((item.workload_id,))


def _act(link: Link, item: Deed[T]) -> None:
    outcome, touched = item.act(link)
    item.outcome.append(outcome)
    item.touched = frozenset(touched)


def _waves(moves: Sequence[Move]) -> list[list[Move]]:
    """In each wave a workload occurs once, earlier moves in earlier waves, and the ids in one order everywhere."""
    waves: list[list[Move]] = []
    depth: dict[str, int] = {}
    for move in moves:
        level = depth.get(move.workload_id, 0)
        depth[move.workload_id] = level + 1
        if level == len(waves):
            waves.append([])
        waves[level].append(move)
    for wave in waves:
        wave.sort(key=lambda move: move.workload_id)
    return waves
