"""Sends messages to webhooks, beside the engine and never in its way. It tells of what is committed, at least once.

Rows before deeds: a message is written before it is sent, and taken for a while by the server that sends it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from placet.domain.errors import StoreError
from placet.domain.hooks import Dispatch, Hook
from placet.domain.states import DispatchState
from placet.domain.values import evolve
from placet.engine.hooks import ROOT
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.hooks import Sender
from placet.ports.store import Store
from placet.stages import hooks as stage

PAGE = 500
AT_ONCE = 16
AT_ONCE_PER_HOOK = 4
# A message that is being sent is nobody else's for this long; a sender is done long before.
TAKEN_MS = 120_000
# Of two transactions the one with the lower event numbers may be seen later: this far back is looked at again.
LATE_MS = 60_000
LOOK_BACK_S = 15.0
KEPT_MS = 7 * 24 * 3_600_000
# Between looks when nothing announces anything, and the least between two, so that a busy store is not asked often.
IDLE_S = 30.0
LEAST_S = 0.2
UNSENT_MAX = 10_000


@dataclass
class _Reading:
    """How far one hook's events were read by this process."""

    seq: int
    looked_back_s: float = 0.0


@dataclass
class Courier:
    """One server's sender; several of them share the work."""

    store: Store
    clock: Clock
    sender: Sender
    chance: Callable[[], float]
    _reading: dict[str, _Reading] = field(default_factory=dict)
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _work: "asyncio.Task[None] | None" = None
    _unwatch: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin; idle costs nothing while there are no hooks."""
        self._unwatch = self.store.watch(lambda _: self._wanted.set())
        self._work = asyncio.create_task(self._run(), name="courier")

    async def stop(self) -> None:
        """End; what was being sent is sent again by whoever comes next."""
        self._unwatch()
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work

    def hurry(self) -> None:
        """Something changed."""
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            wait_s = IDLE_S
            with contextlib.suppress(StoreError):  # the next look tries again
                wait_s = await self.round()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), max(wait_s, LEAST_S))
            await self.clock.pause(LEAST_S)

    async def round(self) -> float:
        """Write what is to be told, send what is due; seconds until there may be more. Raises ``StoreError``."""
        hooks = {hook.id: hook for hook in await self.store.hooks(None) if hook.paused_ms is None}
        self._reading = {hook_id: place for hook_id, place in self._reading.items() if hook_id in hooks}
        if not hooks:
            return IDLE_S
        for hook in hooks.values():
            await self._written(hook)
        now_ms = self.clock.now_ms()
        await passing(Point.HOOK, self.store.drop_dispatches(before_ms=now_ms - KEPT_MS))
        due = await self.store.due_dispatches(list(hooks), now_ms, AT_ONCE * 4)
        await self._sent_all(hooks, due)
        if len(due) == AT_ONCE * 4:
            return 0.0
        next_ms = await self.store.next_dispatch_ms(list(hooks))
        return IDLE_S if next_ms is None else min(IDLE_S, max(0.0, (next_ms - self.clock.now_ms()) / 1000))

    async def _written(self, hook: Hook) -> None:
        """A message for each event that the hook hears of, written once whoever writes it."""
        now_ms, now_s = self.clock.now_ms(), self.clock.monotonic_s()
        place = self._reading.setdefault(hook.id, _Reading(hook.after_seq))
        settled_seq = None
        if now_s - place.looked_back_s >= LOOK_BACK_S:
            place.looked_back_s, place.seq, settled_seq = now_s, hook.after_seq, hook.after_seq
        if await self.store.unsent(hook.id) >= UNSENT_MAX:
            await self._pause(hook, f"{UNSENT_MAX} messages wait to be sent")
            return
        while True:
            page = await self.store.events_of_tenant(hook.tenant, after_seq=place.seq, limit=PAGE)
            told = [stage.message(hook, event, name, now_ms) for event, name in page if stage.wanted(hook, event)]
            await passing(Point.HOOK, self.store.put_dispatches(told))
            for event, _ in page:
                place.seq = event.seq
                if settled_seq is not None and event.at_ms < now_ms - LATE_MS:
                    settled_seq = event.seq
            if len(page) < PAGE:
                break
        if settled_seq is not None and settled_seq > hook.after_seq:
            further = evolve(hook, after_seq=settled_seq, revision=hook.revision + 1)
            await passing(Point.HOOK, self.store.change_hook(further))

    async def _sent_all(self, hooks: dict[str, Hook], due: Sequence[Dispatch]) -> None:
        """A hook that does not answer holds up its own messages and nobody else's."""
        everybody = asyncio.Semaphore(AT_ONCE)
        own = {hook_id: asyncio.Semaphore(AT_ONCE_PER_HOOK) for hook_id in hooks}
        root = await passing(Point.HOOK, self.store.secret(ROOT))

        async def send(dispatch: Dispatch) -> None:
            async with own[dispatch.hook_id], everybody:
                await self._sent(hooks[dispatch.hook_id], dispatch, root)

        async with asyncio.TaskGroup() as group:
            for dispatch in due:
                group.create_task(send(dispatch))

    async def _sent(self, hook: Hook, dispatch: Dispatch, root: bytes) -> None:
        taken = evolve(dispatch, due_ms=self.clock.now_ms() + TAKEN_MS)
        if not await passing(Point.HOOK, self.store.settle_dispatch(taken, dispatch)):
            return  # another server sends it
        headers = stage.headers(root, hook, dispatch, self.clock.now_ms())
        answer = await passing(Point.HOOK_SENT, self.sender.post(hook.url, headers, dispatch.body.encode()))
        after = stage.settled(
            taken,
            answer.status,
            answer.problem,
            never=answer.never,
            now_ms=self.clock.now_ms(),
            chance=self.chance(),
        )
        await passing(Point.HOOK, self.store.settle_dispatch(after, taken))
        if after.state is DispatchState.GIVEN_UP and (why := stage.reason_to_pause(after)):
            await self._pause(hook, why)

    async def _pause(self, hook: Hook, why: str) -> None:
        for known in await self.store.hooks(hook.tenant):
            if known.id == hook.id and known.paused_ms is None:
                after = evolve(stage.paused(known, why, self.clock.now_ms()), revision=known.revision + 1)
                await passing(Point.HOOK, self.store.change_hook(after))
