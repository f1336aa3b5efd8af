"""What one transaction does for many callers. An item that is refused or errs leaves no trace, and the others stand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

from placet.adapters.store.codec import Params, text
from placet.adapters.store.link import Link, Refused
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
    artifacts: Sequence[Params]
    results: Sequence[Params]
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


def execute(link: Link, items: Sequence[Item]) -> None:
    """Deal with all items inside the open transaction; raises only what concerns the transaction as a whole."""
    for item in items:
        item.forget()
    _together(link, [item for item in items if isinstance(item, Admission)], _admit)
    for wave in _waves([item for item in items if isinstance(item, Move)]):
        _together(link, wave, _move)
    for item in items:
        if isinstance(item, Deed):
            _one(link, item, _act)


def _together(link: Link, items: Sequence[Some], write: Callable[[Link, Sequence[Some]], None]) -> None:
    """All at once, which nearly always works; if anything is amiss, one by one."""
    if len(items) > 1:
        try:
            with link.savepoint():
                write(link, items)
            return
        except Exception as error:
            if not _concerns_items(link, error):
                raise
    for item in items:
        item.forget()
        _one(link, item, write)


def _one(link: Link, item: Some, write: Callable[[Link, Sequence[Some]], None]) -> None:
    try:
        with link.savepoint():
            write(link, [item])
    except Refused:
        item.forget()
    except Exception as error:
        if not _concerns_items(link, error):
            raise
        item.forget()
        item.fault = link.database.translate(error, committing=False)


def _concerns_items(link: Link, error: Exception) -> bool:
    return isinstance(error, Refused) or link.database.is_fault_of_item(error)


def _admit(link: Link, items: Sequence[Admission]) -> None:
    taken = _taken_keys(link, items)
    fresh: list[Admission] = []
    for item in items:
        holder, digest = taken.get(_key_of(item), (item.workload_id, ""))
        if holder == item.workload_id:
            item.outcome = Accepted(outcome=AcceptOutcome.CREATED, workload_id=holder)
            fresh.append(item)
        else:
            assert item.key is not None
            same = digest == item.key["body_digest"]
            told = AcceptOutcome.EXISTED if same else AcceptOutcome.CONFLICT
            item.outcome = Accepted(outcome=told, workload_id=holder)
    # In one order everywhere, so that two servers that write the same specs wait for one another and do not deadlock.
    specs = {text(item.spec["id"]): item.spec for item in fresh}
    link.run_all(link.sql.spec_put, [specs[spec_id] for spec_id in sorted(specs)])
    link.run_all(link.sql.workload_put, [item.workload for item in fresh])
    link.run_all(link.sql.label_put, [label for item in fresh for label in item.labels])
    link.run_all(link.sql.event_put, [item.event for item in fresh])
    for item in fresh:
        item.touched = frozenset((item.workload_id,))


def _taken_keys(link: Link, items: Sequence[Admission]) -> dict[tuple[str, str], tuple[str, str]]:
    """Takes the keys that are free; the holders of all of them if any was not."""
    keyed = sorted((item for item in items if item.key is not None), key=_key_of)
    keys = [item.key for item in keyed if item.key is not None]
    if link.run_all(link.sql.key_take, keys) == len(keys):
        return {}
    found = link.rows(link.sql.keys, keys=link.many([text(key["key"]) for key in keys]))
    return {(text(tenant), text(key)): (text(workload_id), text(digest)) for tenant, key, workload_id, digest in found}


def _key_of(item: Admission) -> tuple[str, str]:
    return ("", "") if item.key is None else (text(item.key["tenant"]), text(item.key["key"]))


def _move(link: Link, items: Sequence[Move]) -> None:
    """The guarded write first: what it refuses has not touched anything else."""
    sql = link.sql
    going = [item.workload for item in items if item.workload["finished_ms"] is None]
    ending = [item.workload for item in items if item.workload["finished_ms"] is not None]
    _all_of(link.run_all(sql.move, going), len(going))
    _all_of(link.run_all(sql.end, ending), len(ending))
    for statement, rows in (
        (sql.attempt_put, [item.attempts for item in items]),
        (sql.intent_put, [item.intents for item in items]),
        (sql.artifact_put, [item.artifacts for item in items]),
        (sql.result_put, [item.results for item in items]),
        (sql.event_put, [item.events for item in items]),
    ):
        flat = list(chain.from_iterable(rows))
        _all_of(link.run_all(statement, flat), len(flat))
    for item in items:
        item.outcome = True
        item.touched = frozenset((item.workload_id,))


def _all_of(changed: int, wanted: int) -> None:
    if changed != wanted:
        raise Refused


def _act(link: Link, items: Sequence[Deed[T]]) -> None:
    for item in items:
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
