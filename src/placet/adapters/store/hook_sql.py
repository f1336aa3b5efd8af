"""The statements about webhooks."""

from functools import cached_property

from sqlalchemy import Boolean, Text, and_, bindparam, delete, func, not_, or_, select, update

from placet.adapters.store.statement import Compiler, Statement, inline
from placet.adapters.store.tables import dispatches, events, hooks, workloads
from placet.domain.states import DispatchState

HOOK_FIXED = frozenset({"id", "tenant", "url", "created_ms", "created_by"})
DISPATCH_MOVABLE = ("state", "due_ms", "tries", "sent_ms", "status", "problem")


class HookStatements(Compiler):
    """All of them for one engine."""

    @cached_property
    def hook_put(self) -> Statement:
        return self._insert(hooks)

    @cached_property
    def hook_change(self) -> Statement:
        """Row count 0 means that somebody else has written it meanwhile, or that it is gone."""
        h = hooks.c
        moved = {
            column.name: bindparam(column.name, type_=column.type) for column in h if column.name not in HOOK_FIXED
        }
        changed = update(hooks).where(h.id == bindparam("hook_id"), h.revision == bindparam("expect_revision"))
        return self._compiled(changed.values(moved))

    @cached_property
    def hooks_of(self) -> Statement:
        h = hooks.c
        ours = or_(bindparam("any_tenant", type_=Boolean()), h.tenant == bindparam("tenant", type_=Text()))
        return self._compiled(select(hooks).where(ours).order_by(h.created_ms.desc(), h.id))

    @cached_property
    def hook_drop(self) -> Statement:
        h = hooks.c
        return self._compiled(delete(hooks).where(h.id == bindparam("hook_id"), h.tenant == bindparam("tenant")))

    @cached_property
    def hook_forget(self) -> Statement:
        """Its messages, where it is the tenant's."""
        mine = select(hooks.c.id).where(hooks.c.id == bindparam("hook_id"), hooks.c.tenant == bindparam("tenant"))
        return self._compiled(delete(dispatches).where(dispatches.c.hook_id.in_(mine)))

    @cached_property
    def last_seq(self) -> Statement:
        return self._compiled(select(func.max(events.c.seq)))

    @cached_property
    def events_of_tenant(self) -> Statement:
        """The columns of an event, then the name of its workload."""
        e, w = events.c, workloads.c
        joined = select(events, w.name).join(workloads, w.id == e.workload_id)
        found = joined.where(w.tenant == bindparam("tenant"), e.seq > bindparam("after_seq"))
        return self._compiled(found.order_by(e.seq).limit(bindparam("limit")))

    @cached_property
    def dispatch_put(self) -> Statement:
        return self._insert_new(dispatches)

    @cached_property
    def dispatch_settle(self) -> Statement:
        """Row count 0 means that another server has it, or that it is gone."""
        d = dispatches.c
        moved = {name: bindparam(name, type_=d[name].type) for name in DISPATCH_MOVABLE}
        due, state = bindparam("expect_due_ms", type_=d.due_ms.type), bindparam("expect_state", type_=d.state.type)
        same_due = or_(d.due_ms == due, and_(d.due_ms.is_(None), due.is_(None)))
        same = and_(d.hook_id == bindparam("of_hook"), d.seq == bindparam("of_seq"), d.state == state, same_due)
        return self._compiled(update(dispatches).where(same).values(moved))

    @cached_property
    def dispatches_due(self) -> Statement:
        d = dispatches.c
        due = and_(d.due_ms.is_not(None), d.due_ms <= bindparam("now_ms"), self._flavour.one_of(d.hook_id, "hooks"))
        return self._compiled(select(dispatches).where(due).order_by(d.due_ms, d.seq).limit(bindparam("limit")))

    @cached_property
    def dispatch_next(self) -> Statement:
        d = dispatches.c
        wanted = and_(d.due_ms.is_not(None), self._flavour.one_of(d.hook_id, "hooks"))
        return self._compiled(select(func.min(d.due_ms)).where(wanted))

    @cached_property
    def dispatches_of(self) -> Statement:
        d = dispatches.c
        stated = or_(bindparam("any_state", type_=Boolean()), d.state == bindparam("state", type_=Text()))
        found = select(dispatches).where(d.hook_id == bindparam("hook_id"), stated)
        return self._compiled(found.order_by(d.created_ms.desc(), d.seq.desc()).limit(bindparam("limit")))

    @cached_property
    def dispatch_by_id(self) -> Statement:
        d = dispatches.c
        return self._compiled(select(dispatches).where(d.hook_id == bindparam("hook_id"), d.id == bindparam("id")))

    @cached_property
    def dispatches_unsent(self) -> Statement:
        d = dispatches.c
        waiting = and_(d.hook_id == bindparam("hook_id"), d.state == inline(DispatchState.PENDING))
        return self._compiled(select(func.count()).where(waiting))

    @cached_property
    def dispatches_old(self) -> Statement:
        d = dispatches.c
        over = and_(not_(d.state == inline(DispatchState.PENDING)), d.created_ms < bindparam("before_ms"))
        return self._compiled(delete(dispatches).where(over))
