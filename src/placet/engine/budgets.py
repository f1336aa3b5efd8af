"""Budgets: what one server keeps in mind of them for its decisions, and the use cases of who sets and reads them.

What is kept in mind may be out of date by a moment. That is harmless: the store writes no new attempt beyond a budget.
"""

from collections.abc import Sequence
from decimal import Decimal

from placet.domain.budgets import Budget, Budgeted, Holder, month_of
from placet.domain.errors import StoreError
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.store import Store

# Where there are budgets, what is left of them is read at most this often.
READ_EVERY_S = 1.0
# Where none is known, so often it is seen whether another server has set one.
LOOK_EVERY_S = 10.0


class Allowances:
    """What is left to whom. Used by one event loop."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: dict[tuple[Holder, str], Budgeted] = {}
        self._wanted = True
        self._read_at_s = 0.0

    def want(self) -> None:
        """Something was said of a budget: an attempt was refused for it, or somebody set one."""
        self._wanted = True

    def of(self, tenant: str, token_id: str) -> tuple[Budgeted, ...]:
        """The budgets that an attempt of theirs must be within."""
        if not self._known:
            return ()
        named = (self._known.get((Holder.TENANT, tenant)), self._known.get((Holder.TOKEN, token_id)))
        return tuple(budget for budget in named if budget is not None)

    async def fresh(self, tenant: str, token_id: str) -> Sequence[Budgeted]:
        """The same as the store has it at this moment, for who submits."""
        if not self._known and not self._wanted:
            return ()
        found = await self._store.budgets_of(month_of(self._clock.now_ms()), tenant, token_id)
        self.learn(found)
        return found

    def learn(self, found: Sequence[Budgeted]) -> None:
        """What was read or set a moment ago."""
        self._known.update({(held.budget.kind, held.budget.holder): held for held in found})

    def forget(self, kind: Holder, holder: str) -> None:
        """It was taken away."""
        self._known.pop((kind, holder), None)

    async def refresh(self) -> None:
        """Read them again if that is due. A fault is waited out."""
        now_s = self._clock.monotonic_s()
        if not self._wanted and now_s < self._read_at_s:
            return
        try:
            found = await self._store.budgets(month_of(self._clock.now_ms()))
        except StoreError:
            return
        self._wanted = False
        self._read_at_s = now_s + (READ_EVERY_S if found else LOOK_EVERY_S)
        self._known = {(held.budget.kind, held.budget.holder): held for held in found}


class Budgets:
    """The use cases. ``allowances`` are what the engine of this process keeps in mind."""

    def __init__(self, store: Store, clock: Clock, allowances: Allowances) -> None:
        self._store, self._clock, self._allowances = store, clock, allowances

    async def listed(self) -> Sequence[Budgeted]:
        """All of them, by kind and holder."""
        return await self._store.budgets(month_of(self._clock.now_ms()))

    async def of(self, tenant: str, token_id: str) -> Sequence[Budgeted]:
        """Those that an attempt of theirs must be within."""
        return await self._store.budgets_of(month_of(self._clock.now_ms()), tenant, token_id)

    async def set(
        self, kind: Holder, holder: str, *, total_usd: Decimal | None, month_usd: Decimal | None, actor: str
    ) -> Budgeted:
        """Set it, whatever it was before. What was spent before counts, and nothing that runs is stopped."""
        now_ms = self._clock.now_ms()
        budget = Budget(kind=kind, holder=holder, total_usd=total_usd, month_usd=month_usd, set_ms=now_ms, set_by=actor)
        await passing(Point.BUDGET, self._store.put_budget(budget))
        month = month_of(now_ms)
        tenant, token = (holder, "") if kind is Holder.TENANT else ("", holder)
        found = await self._store.budgets_of(month, tenant, token)
        self._allowances.learn(found)
        return found[0] if found else Budgeted(budget=budget, month=month)  # somebody took it away meanwhile

    async def drop(self, kind: Holder, holder: str) -> bool:
        """Without it there is no bound; ``False`` when there was none."""
        dropped = await passing(Point.BUDGET, self._store.drop_budget(kind, holder))
        self._allowances.forget(kind, holder)
        return dropped
