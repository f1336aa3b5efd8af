"""Budgets over running engines: of many at once only those begin that fit, and the others wait and say why."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.budgets import Budget, Budgeted, Holder, Spending, month_of, next_month_ms
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.records import Record, Transition, Workload
from placet.domain.spec import Constraints
from placet.domain.states import WorkloadState
from placet.engine.decide import decide
from placet.engine.facts import Situation, World
from placet.engine.intake import Refused, Submission, Submitted
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.values import NOW_MS, WORKLOAD
from tests.support.worlds import TENANT, ControlPlane, always, process, start

pytestmark = pytest.mark.anyio
DEAR = replace(process(), constraints=Constraints(runtime_s=Decimal(3600)))
LIMIT = Decimal(7)
BUDGET = Budget(kind=Holder.TENANT, holder=TENANT, total_usd=LIMIT)


class Priced(ScriptedProvider):
    """Its one offer costs two dollars an hour."""

    def offers(self) -> Sequence[Offer]:
        return tuple(replace(offer, price_usd_per_hour=Decimal(2)) for offer in super().offers())


async def planes_on(folder: Path, script: Script, count: int) -> list[ControlPlane]:
    provider = Priced(SystemClock(), always(script))
    url = f"sqlite:///{folder / 'placet.db'}"
    return [await start(url, folder, provider, worker=f"w{number}") for number in range(count)]


async def ended(planes: list[ControlPlane]) -> None:
    for plane in planes:
        await plane.reconciler.stop()
        await plane.loop
        await plane.store.close()


async def test_two_servers_together_never_set_aside_more_than_the_budget(tmp_path: Path) -> None:
    planes = await planes_on(tmp_path, Script(hold=True), 2)
    # What both servers believe at first is that there is no budget: only the store stands between.
    await planes[0].store.put_budget(BUDGET)
    asked = [
        planes[number % 2].intake.submit(Submission(tenant=TENANT, spec=DEAR, key=None, actor="test"))
        for number in range(12)
    ]
    outcomes = await asyncio.gather(*asked)
    ids = [outcome.workload.id for outcome in outcomes if isinstance(outcome, Submitted)]
    assert all(isinstance(outcome, Submitted | Refused) for outcome in outcomes)

    def settled(record: Record) -> bool:
        return bool(record.attempts) or record.workload.wait_for == "budget"

    for workload_id in ids:
        await planes[0].until(workload_id, settled, "it begins or waits")
    records = [await planes[0].record(workload_id) for workload_id in ids]
    begun = [record for record in records if record.attempts]
    assert len(begun) == 3, "three worst cases of two dollars and a start-up"
    [held] = await planes[0].store.budgets_of(month_of(NOW_MS), TENANT, "")
    reserved = sum(attempt.placement.reserved_usd for record in begun for attempt in record.attempts)
    assert held.total.reserved_usd == reserved <= LIMIT
    for record in records:
        if not record.attempts:
            assert record.workload.state is WorkloadState.WAITING
            assert "the budget of tenant tenant of $7.00 does not leave that" in record.workload.reason
    later = await planes[1].intake.submit(Submission(tenant=TENANT, spec=DEAR, key=None, actor="test"))
    assert isinstance(later, Refused), "by now both know"
    assert [problem.code for problem in later.problems] == ["budget_exceeded"]
    await ended(planes)


async def test_what_was_set_aside_becomes_what_was_spent(tmp_path: Path) -> None:
    planes = await planes_on(tmp_path, Script(), 1)
    await planes[0].store.put_budget(BUDGET)
    record = await planes[0].finished(await planes[0].submit(DEAR))
    [held] = await planes[0].store.budgets_of(month_of(NOW_MS), TENANT, "")
    assert held.total == Spending(spent_usd=sum((one.cost_usd for one in record.attempts), Decimal(0)))
    assert held.total.spent_usd > 0
    await ended(planes)


def looked(workload: Workload, at_ms: int, held: Budgeted) -> tuple[Workload, Transition | None]:
    """What becomes of a workload at one look, with this budget."""
    offer = Offer(id="only", provider="scripted", region="here", runtimes=("process",), cpu_cores=Decimal(8),
                  price_usd_per_hour=Decimal(2), memory_bytes=2**34)  # fmt: skip
    world = World(
        now_ms=at_ms,
        deployment="d",
        worker="w1",
        offers=lambda: OfferTable.of([offer]),
        places=frozenset({("scripted", "here")}),
        cards={"scripted": ScriptedProvider(SystemClock(), always(Script())).card},
        budgets=lambda _tenant, _token_id: (held,),
    )
    step = decide(Situation(record=Record(workload=workload), world=world))
    return step.record.workload, step.transition


def held(total: str | None = None, month: str | None = None, *, spent: str = "0", reserved: str = "0") -> Budgeted:
    spending = Spending(reserved_usd=Decimal(reserved), spent_usd=Decimal(spent))
    limits = {"total_usd": total, "month_usd": month}
    amounts = {name: None if text is None else Decimal(text) for name, text in limits.items()}
    return Budgeted(
        budget=Budget(kind=Holder.TENANT, holder=TENANT, **amounts),
        month=month_of(NOW_MS),
        total=spending,
        this_month=spending,
    )


ASKED = replace(WORKLOAD, spec=DEAR, created_ms=NOW_MS)


async def test_it_waits_while_what_runs_may_cost_less_and_begins_once_that_is_over() -> None:
    waiting, _ = looked(ASKED, NOW_MS, held("3", reserved="2"))
    assert (waiting.state, waiting.wait_for) == (WorkloadState.WAITING, "budget")
    still, transition = looked(waiting, NOW_MS + 60_000, held("3", reserved="1.9"))
    assert still.reason == waiting.reason
    assert transition is not None
    assert transition.events == (), "the wait is told once"
    begun, transition = looked(waiting, NOW_MS + 90_000, held("3", spent="0.5"))
    assert begun.state is WorkloadState.PLACING
    assert transition is not None
    assert {(one.reserved_usd, one.guarded) for one in transition.charges} == {(Decimal("2.000556"), True)}


async def test_it_waits_for_the_next_month_and_no_longer() -> None:
    end_ms = next_month_ms(NOW_MS)
    waiting, _ = looked(ASKED, end_ms - 5_000, held(month="3", spent="2"))
    assert (waiting.state, waiting.wake_ms) == (WorkloadState.WAITING, end_ms)


async def test_what_no_budget_will_ever_allow_is_over() -> None:
    for budget in (held("1"), held("3", spent="2"), held(month="1")):
        over, _ = looked(ASKED, NOW_MS, budget)
        assert over.state is WorkloadState.FAILED
        assert over.failure is not None
        assert over.failure.cause is Cause.BUDGET
