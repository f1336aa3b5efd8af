"""Reads of more than one row at a time, inside one transaction."""

from collections import defaultdict
from collections.abc import Sequence

from placet.adapters.store import codec
from placet.adapters.store.codec import Row, SpecCache, text
from placet.adapters.store.link import Link
from placet.domain.records import Attempt, Intent, Record, Workload, WorkloadFilter
from placet.domain.spec import Spec

SPEC_ID = 2  # where a workload's row has it


def workloads(link: Link, cache: SpecCache, rows: Sequence[Row]) -> list[Workload]:
    """Rows of the workloads table as values, in the same order."""
    specs = _specs(link, cache, {text(row[SPEC_ID]) for row in rows})
    return [codec.workload_from(row, specs[text(row[SPEC_ID])]) for row in rows]


def records(link: Link, cache: SpecCache, rows: Sequence[Row]) -> list[Record]:
    """The same with all attempts and with the unsettled intents."""
    if not rows:
        return []
    found = workloads(link, cache, rows)
    ids = link.many([workload.id for workload in found])
    attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
    for row in link.rows(link.sql.attempts_of, ids=ids):
        attempts[text(row[0])].append(codec.attempt_from(row))
    intents: defaultdict[str, list[Intent]] = defaultdict(list)
    for row in link.rows(link.sql.unsettled_of, ids=ids):
        intents[text(row[0])].append(codec.intent_from(row))
    return [
        Record(workload=workload, attempts=tuple(attempts[workload.id]), intents=tuple(intents[workload.id]))
        for workload in found
    ]


def page(link: Link, wanted: WorkloadFilter) -> list[Row]:
    statement = link.sql.list_page(
        states=wanted.states,
        label_count=len(wanted.labels),
        named=wanted.name is not None,
        before=wanted.before is not None,
    )
    params: dict[str, object] = {"tenant": wanted.tenant, "limit": wanted.limit}
    if wanted.states:
        params["states"] = link.many([state.value for state in wanted.states])
    if wanted.name is not None:
        params["name"] = wanted.name
    if wanted.before is not None:
        params["before"] = wanted.before
    for index, (key, value) in enumerate(wanted.labels):
        params |= {f"key_{index}": key, f"value_{index}": value}
    return link.rows(statement, **params)


def _specs(link: Link, cache: SpecCache, ids: set[str]) -> dict[str, Spec]:
    known = {spec_id: spec for spec_id in ids if (spec := cache.get(spec_id)) is not None}
    unknown = ids - known.keys()
    if unknown:
        for spec_id, body in link.rows(link.sql.specs_by_id, ids=link.many(sorted(unknown))):
            known[text(spec_id)] = cache.decode(text(spec_id), text(body))
    return known
