"""The part of the Store port that webhooks need, over any of the engines."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from placet.adapters.store import codec
from placet.adapters.store.codec import Row, number, perhaps_number, perhaps_text, text
from placet.adapters.store.link import Link
from placet.adapters.store.readers import Readers
from placet.adapters.store.sql import Params
from placet.domain.hooks import Dispatch, Hook
from placet.domain.records import Event
from placet.domain.states import DispatchState

T = TypeVar("T")


class _Rows(Protocol):
    """What a store has for its parts."""

    _readers: Readers

    def _do(self, act: Callable[[Link], tuple[T, Iterable[str]]], *, flush: bool = False) -> Awaitable[T]: ...


class HookRows:
    """Hooks and their messages."""

    async def put_hook(self: _Rows, hook: Hook) -> None:
        await self._do(lambda link: (link.run_all(link.sql.hook_put, [hook_columns(hook)]), ()), flush=True)

    async def change_hook(self: _Rows, hook: Hook) -> bool:
        expected = {"hook_id": hook.id, "expect_revision": hook.revision - 1}
        columns = {**hook_columns(hook), **expected}
        return await self._do(lambda link: (link.run(link.sql.hook_change, **columns) > 0, ()), flush=True)

    async def drop_hook(self: _Rows, tenant: str, hook_id: str) -> bool:
        def act(link: Link) -> tuple[bool, tuple[str, ...]]:
            link.run(link.sql.hook_forget, hook_id=hook_id, tenant=tenant)
            return link.run(link.sql.hook_drop, hook_id=hook_id, tenant=tenant) > 0, ()

        return await self._do(act, flush=True)

    async def hooks(self: _Rows, tenant: str | None) -> Sequence[Hook]:
        wanted = {"any_tenant": tenant is None, "tenant": tenant or ""}
        rows = await self._readers.read(lambda link: link.rows(link.sql.hooks_of, **wanted))
        return [hook_from(row) for row in rows]

    async def last_seq(self: _Rows) -> int:
        rows = await self._readers.read(lambda link: link.rows(link.sql.last_seq))
        return perhaps_number(rows[0][0]) or 0

    async def events_of_tenant(
        self: _Rows, tenant: str, *, after_seq: int, limit: int
    ) -> Sequence[tuple[Event, str | None]]:
        wanted = {"tenant": tenant, "after_seq": after_seq, "limit": limit}
        rows = await self._readers.read(lambda link: link.rows(link.sql.events_of_tenant, **wanted))
        return [(codec.event_from(row[:-1]), perhaps_text(row[-1])) for row in rows]

    async def put_dispatches(self: _Rows, dispatches: Sequence[Dispatch]) -> None:
        if dispatches:
            rows = [dispatch_columns(dispatch) for dispatch in dispatches]
            await self._do(lambda link: (link.run_all(link.sql.dispatch_put, rows), ()), flush=True)

    async def settle_dispatch(self: _Rows, dispatch: Dispatch, seen: Dispatch) -> bool:
        expected: Params = {
            "of_hook": seen.hook_id,
            "of_seq": seen.seq,
            "expect_due_ms": seen.due_ms,
            "expect_state": seen.state,
        }
        columns = {**dispatch_columns(dispatch), **expected}
        return await self._do(lambda link: (link.run(link.sql.dispatch_settle, **columns) > 0, ()), flush=True)

    async def due_dispatches(self: _Rows, hook_ids: Sequence[str], now_ms: int, limit: int) -> Sequence[Dispatch]:
        rows = await self._readers.read(
            lambda link: link.rows(link.sql.dispatches_due, hooks=link.many(hook_ids), now_ms=now_ms, limit=limit)
        )
        return [dispatch_from(row) for row in rows]

    async def next_dispatch_ms(self: _Rows, hook_ids: Sequence[str]) -> int | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.dispatch_next, hooks=link.many(hook_ids)))
        return perhaps_number(rows[0][0])

    async def dispatches(
        self: _Rows, hook_id: str, *, limit: int, state: DispatchState | None = None
    ) -> Sequence[Dispatch]:
        wanted = {"hook_id": hook_id, "limit": limit, "any_state": state is None, "state": state or ""}
        rows = await self._readers.read(lambda link: link.rows(link.sql.dispatches_of, **wanted))
        return [dispatch_from(row) for row in rows]

    async def dispatch(self: _Rows, hook_id: str, message_id: str) -> Dispatch | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.dispatch_by_id, hook_id=hook_id, id=message_id))
        return dispatch_from(rows[0]) if rows else None

    async def unsent(self: _Rows, hook_id: str) -> int:
        rows = await self._readers.read(lambda link: link.rows(link.sql.dispatches_unsent, hook_id=hook_id))
        return number(rows[0][0])

    async def drop_dispatches(self: _Rows, before_ms: int) -> None:
        await self._do(lambda link: (link.run(link.sql.dispatches_old, before_ms=before_ms), ()))


def hook_columns(hook: Hook) -> Params:
    return {
        "id": hook.id,
        "tenant": hook.tenant,
        "url": hook.url,
        "states": " ".join(hook.states),
        "created_ms": hook.created_ms,
        "created_by": hook.created_by,
        "generation": hook.generation,
        "former_until_ms": hook.former_until_ms,
        "after_seq": hook.after_seq,
        "paused_ms": hook.paused_ms,
        "paused_why": hook.paused_why,
        "revision": hook.revision,
    }


def hook_from(row: Row) -> Hook:
    (id_, tenant, url, states, created_ms, created_by, generation, former_until_ms, after_seq, paused_ms, paused_why,
     revision) = row  # fmt: skip
    return Hook(
        id=text(id_),
        tenant=text(tenant),
        url=text(url),
        states=tuple(text(states).split()),
        created_ms=number(created_ms),
        created_by=text(created_by),
        generation=number(generation),
        former_until_ms=perhaps_number(former_until_ms),
        after_seq=number(after_seq),
        paused_ms=perhaps_number(paused_ms),
        paused_why=text(paused_why),
        revision=number(revision),
    )


def dispatch_columns(dispatch: Dispatch) -> Params:
    return {
        "hook_id": dispatch.hook_id,
        "seq": dispatch.seq,
        "id": dispatch.id,
        "workload_id": dispatch.workload_id,
        "kind": dispatch.kind,
        "body": dispatch.body,
        "created_ms": dispatch.created_ms,
        "state": dispatch.state,
        "due_ms": dispatch.due_ms,
        "tries": dispatch.tries,
        "sent_ms": dispatch.sent_ms,
        "status": dispatch.status,
        "problem": dispatch.problem,
    }


def dispatch_from(row: Row) -> Dispatch:
    (hook_id, seq, _, workload_id, kind, body, created_ms, state, due_ms, tries, sent_ms, status, problem) = row
    return Dispatch(
        hook_id=text(hook_id),
        seq=number(seq),
        workload_id=text(workload_id),
        kind=text(kind),
        body=text(body),
        created_ms=number(created_ms),
        state=DispatchState(text(state)),
        due_ms=perhaps_number(due_ms),
        tries=number(tries),
        sent_ms=perhaps_number(sent_ms),
        status=perhaps_number(status),
        problem=text(problem),
    )
