"""The durable store. Every write is conditional, and a change and its events are one transaction.

Methods may block the caller's coroutine until committed, never the event loop. All raise ``StoreError`` on faults;
``StoreBusy`` means that nothing was written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from placet.domain.budgets import Budget, Budgeted, Holder
from placet.domain.decisions import Decision
from placet.domain.hooks import Dispatch, Hook
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
from placet.domain.states import DispatchState, WorkloadState
from placet.domain.vault import Sealed


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Which workloads a worker wants to own now.

    Due ones come first: the wake time has come (a finished workload with a wake time still has something to release)
    and they are unowned or owned by a worker whose heartbeat is older than ``owner_timeout_ms``. Then up to
    ``capacity_waiters`` unowned ones whose ``wait_for`` is ``"capacity"``, oldest first, whatever their wake time;
    ids are in the order of age, so ``waiters_after`` the last id of one claim goes on where that ended.
    An unfinished workload of a dead owner is due even without a wake time. To claim is a sign of life of the owner.
    """

    owner: str
    now_ms: int
    limit: int
    owner_timeout_ms: int
    capacity_waiters: int = 0
    waiters_after: str = ""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The workload that a key stands for, and the digest of the body it came with."""

    workload_id: str
    body_digest: str


class Store(Protocol):
    """Claims, loads, conditional writes and reads; no SQL words."""

    async def open(self) -> None:
        """Connect and check the schema's version. Raises ``SchemaMismatch``."""

    async def close(self) -> None:
        """Finish what was handed in, then disconnect. Idempotent."""

    async def deployment_id(self) -> str:
        """The random id of this database, made when the schema was."""

    async def now_ms(self) -> int:
        """What time it is by the clock that all servers of this store share, in milliseconds since 1970, UTC."""

    async def secret(self, name: str) -> bytes:
        """32 random bytes that belong to this name in this database, made when they are first asked for.

        Whoever asks gets the same, and no other name does.
        """

    async def accept(self, acceptance: Acceptance) -> Accepted:
        """Create the workload, its key and its event in one flushed transaction, or say which one exists."""

    async def submission(self, tenant: str, key: str) -> Submission | None:
        """What this key was used for, if it was."""

    async def claim(self, claim: Claim) -> Sequence[Record]:
        """Take ownership of due workloads: the owner is set and the lease's epoch grows. Claims are disjoint."""

    async def apply(self, transitions: Sequence[Transition]) -> Sequence[bool]:
        """Write each transition whose expectation holds; ``False`` means nothing of it was written.

        A transition with a guarded charge beyond the budget of its holder is not applied either. The result is
        write-once: a transition that carries one for a workload that has one is not applied.
        """

    async def beat(self, owner: str, now_ms: int) -> None:
        """Record that the worker is alive."""

    async def retire(self, owner: str) -> None:
        """The worker stops: everything it owns becomes unowned and due."""

    async def held(self, owner: str) -> Sequence[str]:
        """The workloads that this worker owns once all that was handed in before is done, heard of or not."""

    async def load(self, workload_ids: Sequence[str]) -> Sequence[Record]:
        """The records that exist, in no particular order."""

    async def next_wake_ms(self) -> int | None:
        """The earliest wake time of an unowned workload, finished or not; ``None`` when none has one."""

    async def find(self, tenant: str, workload_id: str) -> Workload | None:
        """One workload of this tenant."""

    async def list(self, wanted: WorkloadFilter) -> Sequence[Workload]:
        """Workloads of one tenant, newest first."""

    async def counts(self) -> dict[WorkloadState, int]:
        """How many workloads are in each state, over all tenants."""

    async def events(self, workload_id: str, *, after_seq: int = 0, limit: int = 200) -> Sequence[Event]:
        """Events of one workload in order."""

    async def artifacts(self, workload_id: str) -> Sequence[Artifact]:
        """Delivered outputs of all epochs, by epoch and path."""

    async def result(self, workload_id: str) -> str | None:
        """The final document, once there is one."""

    async def decisions(self, workload_id: str) -> Sequence[Decision]:
        """Why each attempt of a workload runs where it runs, by epoch."""

    async def ended(self, since_ms: int, limit: int) -> Sequence[Ended]:
        """The attempts of all tenants that ended at this moment or later, the latest first; at most ``limit``."""

    async def attempt_by_key(self, key: str) -> str | None:
        """The workload id that owns this attempt key."""

    async def add_token(self, token: Token) -> None:
        """Keep a token's digest."""

    async def token(self, token_id: str) -> Token | None:
        """One token by its lookup id."""

    async def tokens(self) -> Sequence[Token]:
        """All tokens, newest first."""

    async def revoke_token(self, token_id: str, now_ms: int) -> bool:
        """Revoke; ``False`` when there is no such token. Idempotent."""

    async def put_orphans(self, orphans: Sequence[Orphan]) -> Sequence[bool]:
        """Write what is known of each, flushed; ``False`` for one whose deletion was asked for meanwhile."""

    async def orphans(self, *, provider: str | None = None, closed_since_ms: int | None = None) -> Sequence[Orphan]:
        """Open ones, and those closed at that moment or later; the latest found first."""

    async def orphan(self, orphan_id: str) -> Orphan | None:
        """One of them."""

    async def put_budget(self, budget: Budget) -> None:
        """Set the budget of its holder, whatever it was before, flushed."""

    async def drop_budget(self, kind: Holder, holder: str) -> bool:
        """There is no bound any more; ``False`` when there was none. What was counted stays counted."""

    async def budgets(self, month: str) -> Sequence[Budgeted]:
        """All of them by kind and holder, with what counts against them in all and in that month."""

    async def budgets_of(self, month: str, tenant: str, token_id: str) -> Sequence[Budgeted]:
        """The same of one tenant and one token."""

    async def put_hook(self, hook: Hook) -> None:
        """Keep a new one, flushed."""

    async def change_hook(self, hook: Hook) -> bool:
        """Write it where nobody else has since the revision before its own; ``False`` otherwise."""

    async def drop_hook(self, tenant: str, hook_id: str) -> bool:
        """Forget it and its messages; ``False`` when the tenant has none of that id. Idempotent."""

    async def hooks(self, tenant: str | None) -> Sequence[Hook]:
        """Those of a tenant, or of all; the newest first."""

    async def last_seq(self) -> int:
        """The highest number of an event."""

    async def events_of_tenant(self, tenant: str, *, after_seq: int, limit: int) -> Sequence[tuple[Event, str | None]]:
        """Events in order, each with the name of its workload. On PostgreSQL a lower number may be seen later."""

    async def put_dispatches(self, dispatches: Sequence[Dispatch]) -> None:
        """Keep messages, flushed; one that is there already stays as it is."""

    async def settle_dispatch(self, dispatch: Dispatch, seen: Dispatch) -> bool:
        """Write how far it got, where its state and due time are still those that were seen; ``False`` otherwise."""

    async def due_dispatches(self, hook_ids: Sequence[str], now_ms: int, limit: int) -> Sequence[Dispatch]:
        """Messages to these hooks whose time has come, the earliest first."""

    async def next_dispatch_ms(self, hook_ids: Sequence[str]) -> int | None:
        """When the next message to one of these is due."""

    async def dispatches(self, hook_id: str, *, limit: int, state: DispatchState | None = None) -> Sequence[Dispatch]:
        """Messages to one hook, the newest first."""

    async def dispatch(self, hook_id: str, message_id: str) -> Dispatch | None:
        """One of them."""

    async def unsent(self, hook_id: str) -> int:
        """How many messages wait to be sent to it."""

    async def drop_dispatches(self, before_ms: int) -> None:
        """Forget messages made before that moment which are no longer tried."""

    async def put_sealed(self, sealed: Sealed, *, keep_from: int) -> bool:
        """Keep a version of a secret, flushed, and forget those before ``keep_from``; ``False`` where it exists."""

    async def change_sealed(self, sealed: Sealed, former_key_id: str) -> bool:
        """Write its key where it is still under the former one; ``False`` otherwise."""

    async def drop_sealed(self, tenant: str, name: str) -> bool:
        """Forget all versions of a secret; ``False`` when the tenant has none of that name. Idempotent."""

    async def sealed(self, tenant: str) -> Sequence[Sealed]:
        """All versions of a tenant's secrets that are kept, by name and version."""

    async def sealed_keys(self) -> frozenset[str]:
        """The ids of the keys that anything is sealed under."""

    async def sealed_under_others(self, key_id: str, *, after: tuple[str, str, int], limit: int) -> Sequence[Sealed]:
        """What is sealed under other keys, by tenant, name and version, after these."""

    def watch(self, listener: Callable[[frozenset[str]], None], *, only_elsewhere: bool = False) -> Callable[[], None]:
        """Call ``listener`` on the event loop with the ids whose rows changed, by us or by another process.

        With ``only_elsewhere`` it hears of nothing that was written through this store. Hints only: some may be
        repeated, and an empty set means "something changed". Returns the way to stop it.
        """
