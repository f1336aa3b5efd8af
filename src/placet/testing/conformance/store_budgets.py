"""What every store must do about money: what attempts count is written with them, and never beyond a budget."""

import asyncio
from dataclasses import replace
from decimal import Decimal

from placet.domain.budgets import ALWAYS, Budget, Budgeted, Charge, Holder, Spending
from placet.domain.records import Transition, Workload
from placet.domain.states import WorkloadState
from placet.ports.store import Store
from placet.testing.conformance.store_ownership import Opener, OwnershipContract
from placet.testing.conformance.store_values import (
    TENANT,
    accepted,
    applied,
    claimed,
    loaded,
    new_attempt,
    owned,
    transition_to,
)

W = WorkloadState
MONTH = "2027-01"
ONE = Decimal("1.000001")
BUDGET = Budget(
    kind=Holder.TENANT,
    holder=TENANT,
    total_usd=Decimal("10.000005"),
    month_usd=Decimal(100),
    set_ms=7,
    set_by="token:a",
)


def charge(reserved: Decimal, spent: Decimal = Decimal(0), *, period: str = ALWAYS, guarded: bool = True) -> Charge:
    return Charge(
        kind=Holder.TENANT, holder=TENANT, period=period, reserved_usd=reserved, spent_usd=spent, guarded=guarded
    )


def begins(workload: Workload, *charges: Charge) -> Transition:
    """Its first attempt, with what that counts."""
    moved = transition_to(workload, W.PLACING)
    return replace(moved, attempts=(new_attempt(workload),), charges=charges)


async def held(store: Store, month: str = MONTH) -> Budgeted:
    (found,) = await store.budgets_of(month, TENANT, "")
    return found


class BudgetContract(OwnershipContract):
    """A part of ``StoreContract``."""

    async def test_budgets_are_set_replaced_and_taken_away(self, store: Store) -> None:
        assert list(await store.budgets(MONTH)) == []
        token = Budget(kind=Holder.TOKEN, holder="t1", month_usd=Decimal("0.5"), set_ms=8, set_by="x")
        await store.put_budget(token)
        await store.put_budget(BUDGET)
        none = Budgeted(budget=BUDGET, month=MONTH)
        assert list(await store.budgets(MONTH)) == [none, replace(none, budget=token)]
        assert list(await store.budgets_of(MONTH, "other", "t1")) == [replace(none, budget=token)]
        assert list(await store.budgets_of(MONTH, "t1", TENANT)) == []
        less = replace(BUDGET, total_usd=None, month_usd=Decimal(0), set_ms=9)
        await store.put_budget(less)
        assert (await held(store)).budget == less
        assert await store.drop_budget(Holder.TENANT, TENANT)
        assert not await store.drop_budget(Holder.TENANT, TENANT)
        assert list(await store.budgets_of(MONTH, TENANT, "")) == []

    async def test_what_is_counted_is_counted_before_there_is_a_budget(self, store: Store) -> None:
        workload = await owned(store, 1)
        both = (charge(ONE), charge(ONE, period=MONTH))
        step = begins(workload, *both)
        assert await applied(store, step)
        settled = replace(
            transition_to(step.workload, W.WAITING),
            charges=tuple(replace(one, reserved_usd=-ONE, spent_usd=Decimal("0.25"), guarded=False) for one in both),
        )
        await store.put_budget(BUDGET)
        assert (await held(store)).total == Spending(reserved_usd=ONE)
        assert await applied(store, settled)
        assert await held(store) == Budgeted(
            budget=BUDGET,
            month=MONTH,
            total=Spending(spent_usd=Decimal("0.25")),
            this_month=Spending(spent_usd=Decimal("0.25")),
        )
        assert (await held(store, "2027-02")).this_month == Spending()

    async def test_nothing_is_written_of_an_attempt_beyond_its_budget(self, store: Store) -> None:
        await store.put_budget(BUDGET)
        workload = await owned(store, 1)
        much = begins(workload, charge(Decimal(10), period=MONTH), charge(Decimal("10.000006")))
        assert not await applied(store, much)
        assert (await loaded(store, workload.id)).attempts == ()
        assert (await held(store)).this_month == Spending(), "what was within its month is undone with the rest"
        assert await applied(store, begins(workload, charge(Decimal("10.000005")))), "to the last millionth"

    async def test_of_several_at_once_those_within_the_budget_are_written(self, store: Store) -> None:
        await store.put_budget(BUDGET)
        await accepted(store, *range(12))
        steps = [begins(record.workload, charge(ONE)) for record in await claimed(store)]
        written = await store.apply(steps)
        assert sum(written) == 9
        assert (await held(store)).total == Spending(reserved_usd=9 * ONE)

    async def test_what_was_paid_for_is_counted_beyond_any_budget(self, store: Store) -> None:
        await store.put_budget(replace(BUDGET, total_usd=Decimal(0)))
        workload = await owned(store, 1)
        step = begins(workload, charge(-ONE, Decimal(50), guarded=False))
        assert await applied(store, step), "it runs, and what it cost is a fact"
        assert (await held(store)).total == Spending(reserved_usd=-ONE, spent_usd=Decimal(50))

    async def test_many_servers_together_stay_within_the_budget(self, store: Store, opener: Opener) -> None:
        await store.put_budget(BUDGET)
        servers = [store, await opener(), await opener()]
        await accepted(store, *range(30))
        mine = [record.workload for record in await claimed(store)]
        steps = [begins(workload, charge(ONE), charge(ONE, period=MONTH)) for workload in mine]
        asked = [servers[place % 3].apply([step]) for place, step in enumerate(steps)]
        written = [outcome for (outcome,) in await asyncio.gather(*asked)]
        assert sum(written) == 9
        assert (await held(store)).total == (await held(store)).this_month == Spending(reserved_usd=9 * ONE)
        for server in servers[1:]:
            await server.close()
