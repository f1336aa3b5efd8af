"""What people do with webhooks: add, list, pause by hand, rotate, replay. The courier sends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placet.domain.hooks import Dispatch, Hook
from placet.domain.states import DispatchState
from placet.domain.values import evolve
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock, Ids
from placet.ports.hooks import Sender
from placet.ports.store import Store
from placet.stages import hooks as stage

ROOT = "webhooks"
HOOKS_MAX = 20
SHOWN_MAX = 1000


@dataclass(frozen=True, kw_only=True)
class Refused:
    """It is not done; ``why`` is fit for whoever asked."""

    why: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A hook and its signing key."""

    hook: Hook
    secret: str


class Hooks:
    """The use cases, each for one tenant. ``deliver_now`` wakes the courier."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, sender: Sender, deliver_now: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._sender = sender
        self._deliver_now = deliver_now

    async def add(self, tenant: str, url: str, states: Sequence[str], actor: str) -> Keyed | Refused:
        """A hook for all that happens from now on."""
        refusal = self._sender.refusal(url)
        if refusal is not None:
            return Refused(why=refusal, fix="use an https:// address that everybody can reach, or ask the operator")
        if len(await self._store.hooks(tenant)) >= HOOKS_MAX:
            return Refused(why=f"there are {HOOKS_MAX} webhooks already", fix="remove one: placet webhook rm ID")
        hook = Hook(
            id=f"wh_{self._ids.nonce()[:24].lower()}",
            tenant=tenant,
            url=url,
            states=tuple(dict.fromkeys(states)),
            created_ms=self._clock.now_ms(),
            created_by=actor,
            after_seq=await self._store.last_seq(),
        )
        await passing(Point.HOOK, self._store.put_hook(hook))
        self._deliver_now()
        return Keyed(hook=hook, secret=await self._secret(hook))

    async def listed(self, tenant: str) -> Sequence[Hook]:
        """The hooks of a tenant, the newest first."""
        return await self._store.hooks(tenant)

    async def one(self, tenant: str, hook_id: str) -> Hook | None:
        """One of them."""
        return next((hook for hook in await self._store.hooks(tenant) if hook.id == hook_id), None)

    async def remove(self, tenant: str, hook_id: str) -> bool:
        """Forget it and its messages; ``False`` when there is none."""
        return await passing(Point.HOOK, self._store.drop_hook(tenant, hook_id))

    async def rotate(self, tenant: str, hook_id: str) -> Keyed | None:
        """A new key; for a day the old one signs too."""
        hook = await self._changed(tenant, hook_id, lambda hook: stage.rotated(hook, self._clock.now_ms()))
        return None if hook is None else Keyed(hook=hook, secret=await self._secret(hook))

    async def pause(self, tenant: str, hook_id: str, actor: str) -> Hook | None:
        """Send nothing more; what happens meanwhile waits."""
        now_ms = self._clock.now_ms()
        return await self._changed(
            tenant, hook_id, lambda hook: hook if hook.paused_ms else stage.paused(hook, f"by {actor}", now_ms)
        )

    async def resume(self, tenant: str, hook_id: str) -> Hook | None:
        """Send what waits, and what was given up stays so until it is sent again by its id."""
        hook = await self._changed(tenant, hook_id, stage.resumed)
        self._deliver_now()
        return hook

    async def test(self, tenant: str, hook_id: str) -> Dispatch | None:
        """Send a message that tells of nothing."""
        hook = await self.one(tenant, hook_id)
        if hook is None:
            return None
        now_ms = self._clock.now_ms()
        dispatch = stage.test_message(hook, -now_ms, now_ms)
        await passing(Point.HOOK, self._store.put_dispatches([dispatch]))
        self._deliver_now()
        return dispatch

    async def dispatches(
        self, tenant: str, hook_id: str, limit: int, state: DispatchState | None = None
    ) -> Sequence[Dispatch] | None:
        """Its messages, the newest first."""
        if await self.one(tenant, hook_id) is None:
            return None
        return await self._store.dispatches(hook_id, limit=min(limit, SHOWN_MAX), state=state)

    async def resend(self, tenant: str, hook_id: str, message_id: str) -> Dispatch | None:
        """Send one message again, under its old id."""
        if await self.one(tenant, hook_id) is None:
            return None
        found = await self._store.dispatch(hook_id, message_id)
        if found is None:
            return None
        due = stage.again(found, self._clock.now_ms())
        await passing(Point.HOOK, self._store.settle_dispatch(due, found))
        self._deliver_now()
        return due

    async def replay(self, tenant: str, hook_id: str, since_ms: int) -> int | None:
        """Send again all that was told since then; how many. Each keeps its id."""
        listed = await self.dispatches(tenant, hook_id, SHOWN_MAX)
        if listed is None:
            return None
        now_ms, count = self._clock.now_ms(), 0
        for dispatch in listed:
            if dispatch.created_ms >= since_ms and dispatch.seq > 0:
                again = stage.again(dispatch, now_ms)
                count += await passing(Point.HOOK, self._store.settle_dispatch(again, dispatch))
        self._deliver_now()
        return count

    async def _changed(self, tenant: str, hook_id: str, change: Callable[[Hook], Hook]) -> Hook | None:
        """The hook as it is now; whoever else writes it meanwhile is not overwritten."""
        while (hook := await self.one(tenant, hook_id)) is not None:
            after = evolve(change(hook), revision=hook.revision + 1)
            if await passing(Point.HOOK, self._store.change_hook(after)):
                return after
        return None

    async def _secret(self, hook: Hook) -> str:
        return stage.secret(await passing(Point.HOOK, self._store.secret(ROOT)), hook)
