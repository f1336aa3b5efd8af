"""Every statement about workloads and what belongs to them, tokens and orphans."""

from collections.abc import Sequence
from functools import cached_property

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    update,
)

from placet.adapters.store.hook_sql import HookStatements
from placet.adapters.store.statement import Bound as Bound
from placet.adapters.store.statement import Flavour as Flavour
from placet.adapters.store.statement import Params as Params
from placet.adapters.store.statement import Statement as Statement
from placet.adapters.store.statement import inline
from placet.adapters.store.tables import (
    artifacts,
    attempts,
    budgets,
    decisions,
    events,
    intents,
    labels,
    meta,
    orphans,
    results,
    specs,
    spending,
    submission_keys,
    tokens,
    workers,
    workloads,
)
from placet.adapters.store.vault_sql import VaultStatements
from placet.domain.budgets import Holder
from placet.domain.records import WAITS_FOR_CAPACITY
from placet.domain.states import ATTEMPT_FINAL, WORKLOAD_FINAL, IntentState, OrphanState, WorkloadState

SUBMIT = "submit"

MOVABLE = (
    "state", "desired", "revision", "lease_owner", "lease_epoch", "wake_ms", "state_since_ms", "updated_ms", "epoch",
    "reason", "wait_for", "user_failures", "infrastructure_failures", "excluded_offers", "compute_done", "delivery",
    "failure", "finished_ms",
)  # fmt: skip
# What an attempt is; the rest is what became of it.
ATTEMPT_IDENTITY = ("key", "nonce", "provider")
ATTEMPT_FIXED = frozenset({"workload_id", "epoch", "placement", "created_ms", *ATTEMPT_IDENTITY})
UNSETTLED = (IntentState.SENT, IntentState.AMBIGUOUS)


def held() -> ColumnElement[bool]:
    """The workloads that somebody owns: not over, or over with something left to release."""
    w = workloads.c
    return and_(w.lease_owner.is_not(None), or_(w.finished_ms.is_(None), w.wake_ms.is_not(None)))


class Statements(HookStatements, VaultStatements):
    """All statements for one engine."""

    def __init__(self, flavour: Flavour) -> None:
        super().__init__(flavour)
        self._lists: dict[tuple[bool, int, bool, bool, bool | None], Statement] = {}

    # Acceptance

    @cached_property
    def key_take(self) -> Statement:
        return self._insert_new(submission_keys)

    @cached_property
    def key_holder(self) -> Statement:
        k = submission_keys.c
        found = select(k.workload_id, k.body_digest).where(
            k.tenant == bindparam("tenant"), k.operation == inline(SUBMIT), k.key == bindparam("key")
        )
        return self._compiled(found)

    @cached_property
    def spec_put(self) -> Statement:
        return self._insert_new(specs)

    @cached_property
    def workload_put(self) -> Statement:
        return self._insert(workloads)

    @cached_property
    def label_put(self) -> Statement:
        return self._insert(labels)

    # Transitions

    @cached_property
    def move(self) -> Statement:
        """The guarded write of an unfinished workload: row count 0 means that something else had been written before.

        It leaves ``finished_ms`` alone, and with it three indexes.
        """
        guarded = self._guarded().where(workloads.c.finished_ms.is_(None))
        return self._compiled(guarded, [name for name in MOVABLE if name != "finished_ms"])

    @cached_property
    def end(self) -> Statement:
        """The guarded write that finishes a workload, or keeps a finished one as it ended, whoever asks."""
        w = workloads.c
        same_ending = and_(w.state == bindparam("to_state"), w.finished_ms == bindparam("to_finished_ms"))
        return self._compiled(self._guarded().where(or_(w.finished_ms.is_(None), same_ending)), MOVABLE)

    def _guarded(self) -> Update:
        return update(workloads).where(workloads.c.id == bindparam("workload_id"), *self._expected())

    def _expected(self) -> Sequence[ColumnElement[bool]]:
        """The row as its writer had read it, and the lease that it holds."""
        w = workloads.c
        holds_lease = and_(
            w.lease_epoch == bindparam("was_lease_epoch", type_=w.lease_epoch.type),
            w.lease_owner.is_not_distinct_from(bindparam("was_lease_owner", type_=Text())),
        )
        return (
            w.revision == bindparam("was_revision"),
            w.state == bindparam("was_state"),
            or_(bindparam("any_lease", type_=Boolean()), holds_lease),
        )

    @cached_property
    def attempt_put(self) -> Statement:
        """A new epoch, or news of a known one; what an attempt is never changes, nor a final state."""
        put = self._flavour.insert(attempts)
        new, a = put.excluded, attempts.c
        same = [a[name] == new[name] for name in ATTEMPT_IDENTITY]
        # Not IN: for each row SQLite would build a table of the list.
        unfinal = and_(*(a.state != inline(state) for state in sorted(ATTEMPT_FINAL)))
        upsert = put.on_conflict_do_update(
            index_elements=[a.workload_id, a.epoch],
            set_={column.name: new[column.name] for column in a if column.name not in ATTEMPT_FIXED},
            where=and_(*same, or_(unfinal, a.state == new.state)),
        )
        return self._compiled(upsert.inline(), [column.name for column in a])

    @cached_property
    def intent_put(self) -> Statement:
        put = self._flavour.insert(intents)
        i = intents.c
        keys = {"workload_id", "epoch", "verb"}
        upsert = put.on_conflict_do_update(
            index_elements=[i.workload_id, i.epoch, i.verb],
            set_={column.name: put.excluded[column.name] for column in i if column.name not in keys},
        )
        return self._compiled(upsert.inline(), [column.name for column in i])

    @cached_property
    def decision_put(self) -> Statement:
        return self._insert(decisions)

    @cached_property
    def event_put(self) -> Statement:
        return self._insert(events)

    @cached_property
    def artifact_put(self) -> Statement:
        """Never overwrites; row count 0 means that another content is there. The same content again changes nothing."""
        put = self._flavour.insert(artifacts)
        a = artifacts.c
        same = [a[name] == put.excluded[name] for name in ("sha256", "size_bytes", "location")]
        upsert = put.on_conflict_do_update(
            index_elements=[a.workload_id, a.epoch, a.path], set_={"sha256": put.excluded.sha256}, where=and_(*same)
        )
        return self._compiled(upsert.inline(), [column.name for column in a])

    @cached_property
    def result_put(self) -> Statement:
        return self._insert_new(results)

    # Ownership

    @cached_property
    def beat(self) -> Statement:
        put = self._flavour.insert(workers)
        upsert = put.on_conflict_do_update(index_elements=[workers.c.owner], set_={"beat_ms": put.excluded.beat_ms})
        return self._compiled(upsert.inline(), ["owner", "beat_ms"])

    @cached_property
    def stale_owners(self) -> Statement:
        """Owners of active workloads without a recent beat; walks the index from owner to owner, not row by row."""
        w = workloads.c
        first = select(func.min(w.lease_owner).label("owner")).where(held())
        owners = first.cte("owners", recursive=True)
        after = select(func.min(w.lease_owner)).where(held(), w.lease_owner > owners.c.owner).scalar_subquery()
        owners = owners.union_all(select(after).where(owners.c.owner.is_not(None)))
        alive = select(workers.c.owner).where(workers.c.beat_ms >= bindparam("alive_since_ms"))
        stale = select(owners.c.owner).where(
            owners.c.owner.is_not(None),
            owners.c.owner != bindparam("owner", type_=Text()),
            owners.c.owner.not_in(alive),
        )
        return self._compiled(stale)

    def _take(self, chosen: Select[tuple[str]]) -> Statement:
        picked: CTE = chosen.limit(bindparam("limit")).with_for_update(skip_locked=True).cte("picked")
        w = workloads.c
        taken = (
            update(workloads)
            .where(w.id.in_(select(picked.c.id)))
            .values(
                lease_owner=bindparam("new_owner", type_=Text()),
                lease_epoch=w.lease_epoch + 1,
                revision=w.revision + 1,
            )
            .returning(*w)
        )
        return self._compiled(taken)

    @cached_property
    def claim_abandoned(self) -> Statement:
        """What dead owners held: due, or without any time at which it would become due."""
        w = workloads.c
        return self._take(
            select(w.id)
            .where(
                held(),
                self._flavour.one_of(w.lease_owner, "owners"),
                or_(and_(w.finished_ms.is_(None), w.wake_ms.is_(None)), w.wake_ms <= bindparam("now_ms")),
            )
            .order_by(w.wake_ms.nulls_first(), w.id)
        )

    @cached_property
    def claim_due(self) -> Statement:
        w = workloads.c
        return self._take(
            select(w.id).where(w.lease_owner.is_(None), w.wake_ms <= bindparam("now_ms")).order_by(w.wake_ms, w.id)
        )

    @cached_property
    def claim_waiters(self) -> Statement:
        w = workloads.c
        return self._take(
            select(w.id)
            .where(
                w.finished_ms.is_(None),
                w.wait_for == inline(WAITS_FOR_CAPACITY),
                w.lease_owner.is_(None),
                w.id > bindparam("after"),
            )
            .order_by(w.id)
        )

    @cached_property
    def held(self) -> Statement:
        w = workloads.c
        return self._compiled(select(w.id).where(held(), w.lease_owner == bindparam("owner", type_=Text())))

    @cached_property
    def release_all(self) -> Statement:
        w = workloads.c
        freed = (
            update(workloads)
            .where(held(), w.lease_owner == bindparam("owner", type_=Text()))
            .values(lease_owner=None, wake_ms=literal(0), revision=w.revision + 1)
            .returning(w.id)
        )
        return self._compiled(freed)

    @cached_property
    def worker_drop(self) -> Statement:
        return self._compiled(delete(workers).where(workers.c.owner == bindparam("owner")))

    # Reads

    @cached_property
    def workloads_by_id(self) -> Statement:
        return self._compiled(select(workloads).where(self._flavour.one_of(workloads.c.id, "ids")))

    @cached_property
    def attempts_of(self) -> Statement:
        a = attempts.c
        found = select(attempts).where(self._flavour.one_of(a.workload_id, "ids"))
        return self._compiled(found.order_by(a.workload_id, a.epoch))

    @cached_property
    def unsettled_of(self) -> Statement:
        i = intents.c
        found = select(intents).where(
            self._flavour.one_of(i.workload_id, "ids"), i.state.in_([inline(word) for word in UNSETTLED])
        )
        return self._compiled(found.order_by(i.workload_id, i.epoch, i.sent_ms, i.verb))

    @cached_property
    def specs_by_id(self) -> Statement:
        return self._compiled(select(specs).where(self._flavour.one_of(specs.c.id, "ids")))

    @cached_property
    def workload_of(self) -> Statement:
        w = workloads.c
        return self._compiled(select(workloads).where(w.id == bindparam("id"), w.tenant == bindparam("tenant")))

    @cached_property
    def next_wake(self) -> Statement:
        w = workloads.c
        return self._compiled(select(func.min(w.wake_ms)).where(w.lease_owner.is_(None), w.wake_ms.is_not(None)))

    @cached_property
    def counts(self) -> Statement:
        # Both halves by themselves, so that each is answered from its own index.
        w = workloads.c
        halves = [
            select(w.state, func.count()).where(half).group_by(w.state)
            for half in (w.finished_ms.is_(None), w.finished_ms.is_not(None))
        ]
        return self._compiled(halves[0].union_all(halves[1]))

    @cached_property
    def events_of(self) -> Statement:
        e = events.c
        found = select(events).where(e.workload_id == bindparam("workload_id"), e.seq > bindparam("after_seq"))
        return self._compiled(found.order_by(e.seq).limit(bindparam("limit")))

    @cached_property
    def artifacts_of(self) -> Statement:
        a = artifacts.c
        found = select(artifacts).where(a.workload_id == bindparam("workload_id"))
        return self._compiled(found.order_by(a.epoch, a.path))

    @cached_property
    def result_of(self) -> Statement:
        return self._compiled(select(results.c.document).where(results.c.workload_id == bindparam("workload_id")))

    @cached_property
    def attempt_owner(self) -> Statement:
        return self._compiled(select(attempts.c.workload_id).where(attempts.c.key == bindparam("key")))

    @cached_property
    def decisions_of(self) -> Statement:
        d = decisions.c
        found = select(d.document).where(d.workload_id == bindparam("workload_id"))
        return self._compiled(found.order_by(d.epoch))

    @cached_property
    def ended(self) -> Statement:
        """The columns that ``codec.ended_from`` reads."""
        a, w = attempts.c, workloads.c
        told = select(
            w.tenant, a.workload_id, a.epoch, a.placement, a.created_ms, a.finished_ms, a.permit_ms, a.started_ms,
            a.exited_ms, a.computed, a.failure, a.usage,
        )  # fmt: skip
        since = told.join(workloads, w.id == a.workload_id).where(a.finished_ms >= bindparam("since_ms"))
        latest = since.order_by(a.finished_ms.desc(), a.workload_id, a.epoch)
        return self._compiled(latest.limit(bindparam("limit")))

    @cached_property
    def meta_put(self) -> Statement:
        return self._insert_new(meta)

    @cached_property
    def meta_value(self) -> Statement:
        return self._compiled(select(meta.c.value).where(meta.c.name == bindparam("name")))

    def list_page(self, *, states: Sequence[WorkloadState], label_count: int, named: bool, before: bool) -> Statement:
        """One page of a tenant's workloads, newest first; one statement for each shape of question."""
        finals = {state in WORKLOAD_FINAL for state in states}
        only_finals = finals.pop() if len(finals) == 1 else None
        shape = (bool(states), label_count, named, before, only_finals)
        if shape not in self._lists:
            self._lists[shape] = self._compiled(self._list_page(*shape))
        return self._lists[shape]

    def _list_page(
        self, stated: bool, label_count: int, named: bool, before: bool, only_finals: bool | None
    ) -> Select[tuple[object, ...]]:
        w = workloads.c
        page: Select[tuple[object, ...]] = select(workloads).where(w.tenant == bindparam("tenant"))
        if stated:
            page = page.where(self._flavour.one_of(w.state, "states"))
        if only_finals is not None:
            # Says to the planner which of the partial indexes holds all that is asked for.
            page = page.where(w.finished_ms.is_not(None) if only_finals else w.finished_ms.is_(None))
        if named:
            page = page.where(w.name == bindparam("name"))
        if before:
            page = page.where(w.id < bindparam("before"))
        for index in range(label_count):
            label = labels.alias().c
            holders = select(label.workload_id).where(
                label.key == bindparam(f"key_{index}"), label.value == bindparam(f"value_{index}")
            )
            page = page.where(w.id.in_(holders))
        return page.order_by(w.id.desc()).limit(bindparam("limit"))

    # Tokens

    @cached_property
    def token_put(self) -> Statement:
        return self._insert(tokens)

    @cached_property
    def token_by_id(self) -> Statement:
        return self._compiled(select(tokens).where(tokens.c.id == bindparam("id")))

    @cached_property
    def tokens_all(self) -> Statement:
        return self._compiled(select(tokens).order_by(tokens.c.created_ms.desc(), tokens.c.id.desc()))

    @cached_property
    def token_revoke(self) -> Statement:
        t = tokens.c
        revoked = (
            update(tokens)
            .where(t.id == bindparam("token_id"))
            .values(revoked_ms=func.coalesce(t.revoked_ms, bindparam("now_ms", type_=t.revoked_ms.type)))
        )
        return self._compiled(revoked)

    # Budgets

    @cached_property
    def spending_begin(self) -> Statement:
        """The row of a holder and a period, empty, unless it is there."""
        s = spending.c
        named = {
            s.kind: bindparam("of_kind", type_=Text()),
            s.holder: bindparam("of_holder", type_=Text()),
            s.period: bindparam("of_period", type_=Text()),
            s.reserved_micro: literal_column("0"),
            s.spent_micro: literal_column("0"),
        }
        return self._compiled(self._flavour.insert(spending).values(named).on_conflict_do_nothing())

    @cached_property
    def spending_add(self) -> Statement:
        """Row count 0 means that it would be beyond the budget. Whoever adds to a row holds it until the commit."""
        s, b = spending.c, budgets.c
        reserved = bindparam("reserved_more", type_=BigInteger())
        spent = bindparam("spent_more", type_=BigInteger())
        most = case((s.period == literal_column("''"), b.total_micro), else_=b.month_micro)
        held = s.reserved_micro + s.spent_micro + reserved + spent
        over = select(b.kind).where(b.kind == s.kind, b.holder == s.holder, held > most).correlate(spending).exists()
        added = (
            update(spending)
            .where(
                s.kind == bindparam("of_kind", type_=Text()),
                s.holder == bindparam("of_holder", type_=Text()),
                s.period == bindparam("of_period", type_=Text()),
                or_(bindparam("free", type_=Boolean()), not_(over)),
            )
            .values(reserved_micro=s.reserved_micro + reserved, spent_micro=s.spent_micro + spent)
        )
        return self._compiled(added)

    @cached_property
    def budget_put(self) -> Statement:
        put = self._flavour.insert(budgets)
        b = budgets.c
        told = {column.name: put.excluded[column.name] for column in b if column.name not in ("kind", "holder")}
        upsert = put.on_conflict_do_update(index_elements=[b.kind, b.holder], set_=told)
        return self._compiled(upsert.inline(), [column.name for column in b])

    @cached_property
    def budget_drop(self) -> Statement:
        b = budgets.c
        return self._compiled(delete(budgets).where(b.kind == bindparam("kind"), b.holder == bindparam("holder")))

    @cached_property
    def budgets_all(self) -> Statement:
        return self._compiled(self._budgets().limit(bindparam("limit")))

    @cached_property
    def budgets_of(self) -> Statement:
        b = budgets.c
        ours = or_(
            and_(b.kind == inline(Holder.TENANT), b.holder == bindparam("tenant", type_=Text())),
            and_(b.kind == inline(Holder.TOKEN), b.holder == bindparam("token_id", type_=Text())),
        )
        return self._compiled(self._budgets().where(ours))

    def _budgets(self) -> Select[tuple[object, ...]]:
        """The columns that ``codec.budgeted_from`` reads."""
        b, total, month = budgets.c, spending.alias("total"), spending.alias("month")
        found: Select[tuple[object, ...]] = select(
            *b, total.c.reserved_micro, total.c.spent_micro, month.c.reserved_micro, month.c.spent_micro
        )
        joined = budgets
        for part, period in ((total, literal_column("''")), (month, bindparam("month", type_=Text()))):
            same = and_(part.c.kind == b.kind, part.c.holder == b.holder, part.c.period == period)
            joined = joined.outerjoin(part, same)  # type: ignore[assignment]  # a join is a table too
        return found.select_from(joined).order_by(b.kind, b.holder)

    # Orphans

    @cached_property
    def orphan_put(self) -> Statement:
        """News of an orphan; row count 0 means that somebody has asked for its deletion meanwhile."""
        put = self._flavour.insert(orphans)
        o = orphans.c
        unasked = and_(o.state == inline(OrphanState.RELEASING), put.excluded.state == inline(OrphanState.LISTED))
        upsert = put.on_conflict_do_update(
            index_elements=[o.id],
            set_={column.name: put.excluded[column.name] for column in o if column.name != "id"},
            where=not_(unasked),
        )
        return self._compiled(upsert.inline(), [column.name for column in o])

    @cached_property
    def orphans_since(self) -> Statement:
        """Open ones, and those closed since; of all providers where none is named."""
        o = orphans.c
        recent = or_(o.closed_ms.is_(None), o.closed_ms >= bindparam("closed_since_ms"))
        named = or_(bindparam("any_provider", type_=Boolean()), o.provider == bindparam("provider", type_=Text()))
        found = select(orphans).where(recent, named).order_by(o.first_seen_ms.desc(), o.id).limit(bindparam("limit"))
        return self._compiled(found)

    @cached_property
    def orphan_by_id(self) -> Statement:
        return self._compiled(select(orphans).where(orphans.c.id == bindparam("id")))
