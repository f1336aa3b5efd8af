"""The Store port over any of the engines: values in, rows to the writer, rows from the readers, values out."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from placet.adapters.store import codec, items, ownership, questions
from placet.adapters.store.batch import Deed
from placet.adapters.store.codec import SpecCache, number, text
from placet.adapters.store.hook_rows import HookRows
from placet.adapters.store.link import Database, Link
from placet.adapters.store.readers import Readers
from placet.adapters.store.schema import DEPLOYMENT
from placet.adapters.store.vault_rows import VaultRows
from placet.adapters.store.writer import Writer
from placet.domain.budgets import BUDGETS_MAX, Budget, Budgeted, Holder
from placet.domain.decisions import Decision
from placet.domain.lessons import Ended
from placet.domain.orphans import Orphan
from placet.domain.records import (
    Acceptance,
    Accepted,
    Artifact,
    Event,
    Record,
    Token,
    Transition,
    Workload,
    WorkloadFilter,
)
from placet.domain.states import WorkloadState
from placet.ports.store import Claim, Submission

T = TypeVar("T")
Changed: TypeAlias = Callable[[frozenset[str]], None]

SECRET, SECRET_BYTES = "secret:", 32
NEVER_MS = 2**62
ORPHANS_MAX = 100_000


class SqlStore(HookRows, VaultRows):
    """A store belongs to the event loop that opened it."""

    def __init__(
        self, database: Database, *, readers: int, writer: Callable[[Database, Changed], Writer] = Writer
    ) -> None:
        self._database = database
        self._specs = SpecCache()
        self._listeners: dict[object, tuple[Callable[[frozenset[str]], None], bool]] = {}
        self._writer = writer(database, self._changed)
        self._readers = Readers(database, readers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._closed = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._open_blocking, self._loop)

    def _open_blocking(self, loop: asyncio.AbstractEventLoop) -> None:
        self._database.prepare()
        self._writer.start(loop)
        self._stop_listening = self._database.listen(self._changed_elsewhere)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close_blocking)

    def _close_blocking(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        self._writer.stop()
        self._readers.close()

    async def deployment_id(self) -> str:
        rows = await self._readers.read(lambda link: link.rows(link.sql.meta_value, name=DEPLOYMENT))
        return text(rows[0][0])

    async def now_ms(self) -> int:
        return await self._readers.read(self._database.now_ms)

    async def secret(self, name: str) -> bytes:
        known = SECRET + name

        def act(link: Link) -> tuple[str, tuple[str, ...]]:
            link.run_all(link.sql.meta_put, [{"name": known, "value": secrets.token_hex(SECRET_BYTES)}])
            return text(link.rows(link.sql.meta_value, name=known)[0][0]), ()

        rows = await self._readers.read(lambda link: link.rows(link.sql.meta_value, name=known))
        return bytes.fromhex(text(rows[0][0]) if rows else await self._do(act, flush=True))

    # Writes

    async def accept(self, acceptance: Acceptance) -> Accepted:
        admission = items.admission(acceptance)
        await self._writer.write([admission])
        if admission.fault is not None:
            raise admission.fault
        assert admission.outcome is not None
        return admission.outcome

    async def apply(self, transitions: Sequence[Transition]) -> Sequence[bool]:
        """If one of them errs, the others are written all the same, and the error of the first such is raised."""
        moves = [items.move(transition) for transition in transitions]
        if not moves:
            return []
        await self._writer.write(moves)
        for move in moves:
            if move.fault is not None:
                raise move.fault
        return [move.outcome for move in moves]

    async def claim(self, claim: Claim) -> Sequence[Record]:
        return await self._do(lambda link: ownership.claim(link, self._specs, claim))

    async def beat(self, owner: str, now_ms: int) -> None:
        await self._do(lambda link: (link.run(link.sql.beat, owner=owner, beat_ms=now_ms), ()))

    async def retire(self, owner: str) -> None:
        await self._do(lambda link: ownership.retire(link, owner))

    async def held(self, owner: str) -> Sequence[str]:
        """A read in the queue of the writes: it must not overtake a claim that is still on its way."""

        def act(link: Link) -> tuple[list[str], tuple[str, ...]]:
            return [text(workload_id) for (workload_id,) in link.rows(link.sql.held, owner=owner)], ()

        return await self._do(act)

    async def add_token(self, token: Token) -> None:
        await self._do(lambda link: (link.run_all(link.sql.token_put, [codec.token_columns(token)]), ()), flush=True)

    async def revoke_token(self, token_id: str, now_ms: int) -> bool:
        return await self._do(
            lambda link: (link.run(link.sql.token_revoke, token_id=token_id, now_ms=now_ms) > 0, ()), flush=True
        )

    async def put_orphans(self, orphans: Sequence[Orphan]) -> Sequence[bool]:
        if not orphans:
            return []

        def act(link: Link) -> tuple[list[bool], tuple[str, ...]]:
            put = link.sql.orphan_put
            return [link.run(put, **codec.orphan_columns(orphan)) > 0 for orphan in orphans], ()

        return await self._do(act, flush=True)

    async def put_budget(self, budget: Budget) -> None:
        row = codec.budget_columns(budget)
        await self._do(lambda link: (link.run_all(link.sql.budget_put, [row]), ()), flush=True)

    async def drop_budget(self, kind: Holder, holder: str) -> bool:
        return await self._do(
            lambda link: (link.run(link.sql.budget_drop, kind=kind.value, holder=holder) > 0, ()), flush=True
        )

    # Reads

    async def budgets(self, month: str) -> Sequence[Budgeted]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.budgets_all, month=month, limit=BUDGETS_MAX))
        return [codec.budgeted_from(row, month) for row in rows]

    async def budgets_of(self, month: str, tenant: str, token_id: str) -> Sequence[Budgeted]:
        rows = await self._readers.read(
            lambda link: link.rows(link.sql.budgets_of, month=month, tenant=tenant, token_id=token_id)
        )
        return [codec.budgeted_from(row, month) for row in rows]

    async def load(self, workload_ids: Sequence[str]) -> Sequence[Record]:
        if not workload_ids:
            return []
        ids = list(workload_ids)
        return await self._readers.read(
            lambda link: questions.records(link, self._specs, link.rows(link.sql.workloads_by_id, ids=link.many(ids))),
            one_moment=True,
        )

    async def next_wake_ms(self) -> int | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.next_wake))
        return codec.perhaps_number(rows[0][0])

    async def find(self, tenant: str, workload_id: str) -> Workload | None:
        found = await self._readers.read(
            lambda link: questions.workloads(
                link, self._specs, link.rows(link.sql.workload_of, id=workload_id, tenant=tenant)
            )
        )
        return found[0] if found else None

    async def list(self, wanted: WorkloadFilter) -> Sequence[Workload]:
        return await self._readers.read(
            lambda link: questions.workloads(link, self._specs, questions.page(link, wanted))
        )

    async def counts(self) -> dict[WorkloadState, int]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.counts))
        counted = dict.fromkeys(WorkloadState, 0)
        for state, count in rows:
            counted[WorkloadState(text(state))] += number(count)
        return counted

    async def events(self, workload_id: str, *, after_seq: int = 0, limit: int = 200) -> Sequence[Event]:
        """Who follows one workload by ``seq`` misses nothing: the numbers are drawn while its row is locked.

        Over several workloads of a PostgreSQL database a higher number may be seen before a lower one.
        """
        rows = await self._readers.read(
            lambda link: link.rows(link.sql.events_of, workload_id=workload_id, after_seq=after_seq, limit=limit)
        )
        return [codec.event_from(row) for row in rows]

    async def artifacts(self, workload_id: str) -> Sequence[Artifact]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.artifacts_of, workload_id=workload_id))
        return [codec.artifact_from(row) for row in rows]

    async def result(self, workload_id: str) -> str | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.result_of, workload_id=workload_id))
        return text(rows[0][0]) if rows else None

    async def submission(self, tenant: str, key: str) -> Submission | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.key_holder, tenant=tenant, key=key))
        return Submission(workload_id=text(rows[0][0]), body_digest=text(rows[0][1])) if rows else None

    async def decisions(self, workload_id: str) -> Sequence[Decision]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.decisions_of, workload_id=workload_id))
        return [codec.decision_from(row) for row in rows]

    async def ended(self, since_ms: int, limit: int) -> Sequence[Ended]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.ended, since_ms=since_ms, limit=limit))
        return [codec.ended_from(row) for row in rows]

    async def attempt_by_key(self, key: str) -> str | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.attempt_owner, key=key))
        return text(rows[0][0]) if rows else None

    async def token(self, token_id: str) -> Token | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.token_by_id, id=token_id))
        return codec.token_from(rows[0]) if rows else None

    async def tokens(self) -> Sequence[Token]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.tokens_all))
        return [codec.token_from(row) for row in rows]

    async def orphans(self, *, provider: str | None = None, closed_since_ms: int | None = None) -> Sequence[Orphan]:
        wanted = {
            "closed_since_ms": NEVER_MS if closed_since_ms is None else closed_since_ms,
            "any_provider": provider is None,
            "provider": provider or "",
            "limit": ORPHANS_MAX,
        }
        rows = await self._readers.read(lambda link: link.rows(link.sql.orphans_since, **wanted))
        return [codec.orphan_from(row) for row in rows]

    async def orphan(self, orphan_id: str) -> Orphan | None:
        rows = await self._readers.read(lambda link: link.rows(link.sql.orphan_by_id, id=orphan_id))
        return codec.orphan_from(rows[0]) if rows else None

    def watch(self, listener: Callable[[frozenset[str]], None], *, only_elsewhere: bool = False) -> Callable[[], None]:
        mark = object()
        self._listeners[mark] = (listener, only_elsewhere)

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    def _changed(self, workload_ids: frozenset[str], *, elsewhere: bool = False) -> None:
        for listener, only_elsewhere in list(self._listeners.values()):
            if elsewhere or not only_elsewhere:
                listener(workload_ids)

    def _changed_elsewhere(self, workload_ids: frozenset[str]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(partial(self._changed, workload_ids, elsewhere=True))
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear of it

    async def _do(self, act: Callable[[Link], tuple[T, Iterable[str]]], *, flush: bool = False) -> T:
        deed = Deed(act=act, flush=flush)
        await self._writer.write([deed])
        if deed.fault is not None:
            raise deed.fault
        return deed.outcome[0]
