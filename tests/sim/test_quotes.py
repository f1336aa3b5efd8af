"""Quotes over a running engine: what was quoted is accepted while it holds, and refused once the world has moved."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Launch
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Offer
from placet.domain.records import EventKind, Record, Workload
from placet.domain.spec import CapacityType, Constraints, RetryPolicy, Spec
from placet.domain.states import WorkloadState
from placet.engine.decide import decide
from placet.engine.facts import Situation, World
from placet.engine.intake import Estimate, Refused, Submission, Submitted
from placet.stages.explaining import replay
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.values import NOW_MS, WORKLOAD
from tests.support.worlds import TENANT, ControlPlane, always, process, start

pytestmark = pytest.mark.anyio
DEAR = replace(process(), constraints=Constraints(runtime_s=Decimal(3600)))


class Priced(ScriptedProvider):
    """Its one offer can be had at another price, or not at all."""

    shown: Sequence[Offer] | None = None

    def offers(self) -> Sequence[Offer]:
        return super().offers() if self.shown is None else self.shown

    def show(self, **changes: object) -> None:
        self.shown = tuple(replace(offer, **changes) for offer in super().offers())  # type: ignore[arg-type]  # fields by name


@pytest.fixture
async def provider() -> Priced:
    provider = Priced(SystemClock(), always(Script()))
    provider.show(price_usd_per_hour=Decimal(2))
    return provider


@pytest.fixture
async def plane(tmp_path: Path, provider: Priced) -> AsyncIterator[ControlPlane]:
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    yield plane
    await plane.reconciler.stop()
    await plane.loop
    await plane.store.close()


async def estimated(plane: ControlPlane, spec: Spec = DEAR) -> Estimate:
    return await plane.intake.estimate(TENANT, spec)


async def submitted(plane: ControlPlane, quote: str | None, spec: Spec = DEAR, *, key: str | None = None,
                    tenant: str = TENANT) -> Submitted | list[str]:  # fmt: skip
    outcome = await plane.intake.submit(Submission(tenant=tenant, spec=spec, key=key, actor="test", quote=quote))
    if isinstance(outcome, Refused):
        return [problem.code for problem in outcome.problems]
    assert isinstance(outcome, Submitted)
    return outcome


async def test_a_quote_that_holds_is_accepted_and_noted(plane: ControlPlane) -> None:
    estimate = await estimated(plane)
    assert estimate.forecast is not None
    assert estimate.quote is not None
    assert estimate.forecast.cost_usd.p50 <= estimate.forecast.cost_usd.p90 <= estimate.quote.terms.bound_usd
    outcome = await submitted(plane, estimate.quote.text)
    assert isinstance(outcome, Submitted)
    [accepted] = [event for event in await plane.store.events(outcome.workload.id) if event.kind is EventKind.ACCEPTED]
    assert ("quote", estimate.quote.text) in accepted.data


async def test_it_falls_when_the_price_rises_and_holds_when_it_falls(plane: ControlPlane, provider: Priced) -> None:
    quote = (await estimated(plane)).quote
    assert quote is not None
    provider.show(price_usd_per_hour=Decimal("2.20"))
    assert await submitted(plane, quote.text) == ["quote_exceeded"]
    dry = await plane.intake.estimate(TENANT, DEAR, quote=quote.text)
    assert [problem.code for problem in dry.problems] == ["quote_exceeded"]
    assert dry.quote is None
    provider.show(price_usd_per_hour=Decimal("1.00"))
    assert isinstance(await submitted(plane, quote.text), Submitted)
    provider.show(price_usd_per_hour=Decimal(2), minimum_charge_usd=Decimal(50))
    assert await submitted(plane, quote.text) == ["quote_exceeded"]
    provider.shown = ()
    assert await submitted(plane, quote.text) == ["quote_exceeded"]


async def test_it_is_for_one_spec_and_one_tenant(plane: ControlPlane) -> None:
    quote = (await estimated(plane)).quote
    assert quote is not None
    assert await submitted(plane, quote.text, replace(DEAR, name="other")) == ["quote_spec_changed"]
    assert await submitted(plane, quote.text, tenant="somebody else") == ["bad_quote"]
    assert await submitted(plane, "q1_nonsense") == ["bad_quote"]


async def test_a_known_key_is_not_refused_for_a_quote_that_fell(plane: ControlPlane, provider: Priced) -> None:
    quote = (await estimated(plane)).quote
    assert quote is not None
    first = await submitted(plane, quote.text, key="k")
    assert isinstance(first, Submitted)
    provider.show(price_usd_per_hour=Decimal(20))
    again = await submitted(plane, quote.text, key="k")
    assert isinstance(again, Submitted)
    assert again.existed
    assert again.workload.id == first.workload.id


async def test_what_is_full_now_is_quoted_as_if_it_were_free(plane: ControlPlane, provider: Priced) -> None:
    provider.show(price_usd_per_hour=Decimal(2), availability=Availability.FULL)
    estimate = await estimated(plane)
    assert not estimate.now
    assert estimate.problems == ()
    assert estimate.quote is not None
    assert isinstance(await submitted(plane, estimate.quote.text), Submitted)


async def test_what_can_never_run_is_refused_with_ways_out_and_no_quote(plane: ControlPlane) -> None:
    capped = replace(DEAR, constraints=replace(DEAR.constraints, cost_usd=Decimal(1)))
    estimate = await estimated(plane, capped)
    assert [problem.code for problem in estimate.problems] == ["over_budget"]
    assert estimate.quote is None
    assert estimate.forecast is None
    assert {way.changes[0].field for way in estimate.relaxations} == {
        "constraints.maximum_estimated_cost", "constraints.maximum_runtime_seconds"
    }  # fmt: skip
    for way in estimate.relaxations:
        mended = await estimated(plane, way.spec)
        assert mended.problems == ()
        assert mended.cost_usd == way.cost_usd
    spot_only = replace(DEAR, constraints=replace(DEAR.constraints, capacity_types=(CapacityType.SPOT,)))
    outcome = await plane.intake.submit(Submission(tenant=TENANT, spec=spot_only, key=None, actor="test"))
    assert isinstance(outcome, Refused)
    assert outcome.relaxations[0].changes[0].words == "allow on_demand"


async def test_the_forecast_of_the_first_attempt_is_kept_with_it(plane: ControlPlane) -> None:
    estimate = await estimated(plane)
    outcome = await submitted(plane, None)
    assert isinstance(outcome, Submitted)
    record = await plane.finished(outcome.workload.id)
    assert record.attempts[0].placement.forecast == estimate.forecast


def lost_once(launch: Launch) -> Script:
    return Script(cause=Cause.LOST, exit_code=None) if launch.tag.epoch == 1 else Script()


def used_up(provider: Priced, record: Record) -> Workload:
    """What becomes of it if its attempt has cost more than it was quoted."""
    (attempt,) = record.attempts
    record = replace(record, attempts=(replace(attempt, cost_usd=Decimal(100)),))
    world = World(
        now_ms=(record.workload.wake_ms or 0) + 1,
        deployment="d",
        worker="w1",
        offers=lambda: OfferTable.of(provider.offers()),
        places=frozenset({("scripted", "here")}),
        cards={provider.name: provider.card},
    )
    workload = decide(Situation(record=record, world=world)).record.workload
    assert workload.failure is not None
    assert workload.failure.cause is Cause.QUOTE_EXCEEDED
    assert workload.failure.message.startswith("its quote is used up: one more run may cost ")
    assert "of the quote of" in workload.failure.message
    assert "$0.00 is left" in workload.failure.message
    return workload


def seen(record: Record, at_ms: int, *, price: str, state: Availability = Availability.UNKNOWN,
         spec: Spec = DEAR, hands_off: str = "", wait_s: float = 86_400.0) -> Workload:  # fmt: skip
    """What becomes of a waiting workload at one look, when its only offer has this price."""
    offer = Offer(id="only", provider="scripted", region="here", runtimes=("process", "container", "python"),
                  price_usd_per_hour=Decimal(price), availability=state, cpu_cores=Decimal(8),
                  memory_bytes=2**34, startup_s=Decimal(60))  # fmt: skip
    world = World(
        now_ms=at_ms,
        deployment="d",
        worker="w1",
        offers=lambda: OfferTable.of([offer]),
        places=frozenset({("scripted", "here")}),
        cards={"scripted": ScriptedProvider(SystemClock(), always(Script())).card},
        quote_wait_s=wait_s,
        hands_off=hands_off,
    )
    record = replace(record, workload=replace(record.workload, spec=spec))
    return decide(Situation(record=record, world=world)).record.workload


HOUR_MS, DAY_MS = 3_600_000, 86_400_000
QUOTED = Record(
    workload=replace(WORKLOAD, spec=DEAR, quoted_usd=Decimal("2.5"), created_ms=NOW_MS), attempts=(), intents=()
)


def waiting_since(record: Record, at_ms: int, spec: Spec = DEAR) -> Record:
    return replace(record, workload=seen(record, at_ms, price="5", spec=spec))


def test_the_wait_for_a_price_within_the_quote_ends_and_tells_both_prices() -> None:
    waiting = waiting_since(QUOTED, NOW_MS)
    assert waiting.workload.state is WorkloadState.WAITING
    assert waiting.workload.wait_for == "capacity"  # so that whatever changes at a provider wakes it
    assert "it waits for a lower price until " in waiting.workload.reason
    for at_ms in (NOW_MS + HOUR_MS, NOW_MS + DAY_MS - 1):
        still = seen(waiting, at_ms, price="5")
        assert (still.state, still.reason) == (WorkloadState.WAITING, waiting.workload.reason)
        assert at_ms < (still.wake_ms or 0) <= NOW_MS + DAY_MS
    ended = seen(waiting, NOW_MS + DAY_MS, price="5")
    assert ended.state is WorkloadState.EXPIRED
    assert ended.failure is not None
    assert ended.failure.cause is Cause.QUOTE_EXCEEDED
    assert ended.failure.message == (
        "it has waited as long as it may: one more run may cost $5.00, of the quote of $2.50 $2.50 is left; "
        "the cheapest is only at $5.00/h"
    )
    assert dict(ended.failure.evidence) == {
        "quoted_usd": "2.5", "quote_left_usd": "2.5", "offer": "only", "price_usd_per_hour": "5", "run_usd": "5"
    }  # fmt: skip
    assert "placet estimate" in ended.failure.meaning.fix


def test_what_is_within_the_quote_and_taken_is_waited_for_as_by_anybody() -> None:
    waiting = waiting_since(QUOTED, NOW_MS)
    full = seen(waiting, NOW_MS + 3 * DAY_MS, price="2", state=Availability.FULL)
    assert (full.state, full.reason) == (WorkloadState.WAITING, "only: the provider has none free")
    assert seen(waiting, NOW_MS + 3 * DAY_MS, price="2").state is WorkloadState.PLACING


def test_who_has_no_quote_is_not_ended_for_a_price() -> None:
    unquoted = replace(QUOTED, workload=replace(QUOTED.workload, quoted_usd=None))
    assert seen(unquoted, NOW_MS, price="500").state is WorkloadState.PLACING


@pytest.mark.parametrize(("wait_s", "start_within_s", "end_s"), [(60.0, None, 60), (60.0, "600", 600), (9e9, "30", 30)])
def test_the_wait_is_as_long_as_the_start_bound_of_the_spec_or_the_setting(
    wait_s: float, start_within_s: str | None, end_s: int
) -> None:
    bound = None if start_within_s is None else Decimal(start_within_s)
    spec = replace(DEAR, constraints=replace(DEAR.constraints, start_within_s=bound))
    waiting = waiting_since(QUOTED, NOW_MS, spec)
    before = seen(waiting, NOW_MS + end_s * 1000 - 1, price="5", spec=spec, wait_s=wait_s)
    after = seen(waiting, NOW_MS + end_s * 1000, price="5", spec=spec, wait_s=wait_s)
    assert (before.state, after.state) == (WorkloadState.WAITING, WorkloadState.EXPIRED)


def test_while_the_clock_is_not_trusted_nothing_ends_by_it_and_nothing_spins() -> None:
    waiting = waiting_since(QUOTED, NOW_MS)
    late = seen(waiting, NOW_MS + 2 * DAY_MS, price="5", hands_off="the clock jumped")
    assert late.state is WorkloadState.WAITING
    assert (late.wake_ms or 0) >= NOW_MS + 2 * DAY_MS + 1000


def test_a_deadline_that_comes_first_ends_it_with_the_same_code() -> None:
    deadline_ms = NOW_MS + 2 * HOUR_MS
    spec = replace(DEAR, constraints=replace(DEAR.constraints, deadline_ms=deadline_ms))
    waiting = waiting_since(QUOTED, NOW_MS, spec)
    assert "until 2" in waiting.workload.reason
    assert seen(waiting, deadline_ms - 60_000, price="5", spec=spec).state is WorkloadState.WAITING
    late = seen(waiting, deadline_ms - 59_999, price="5", spec=spec)
    assert late.state is WorkloadState.EXPIRED
    assert late.failure is not None
    assert late.failure.cause is Cause.QUOTE_EXCEEDED
    assert late.failure.message.startswith(
        "its deadline came before a price within its quote: one more run may cost $5"
    )
    passed = seen(waiting, deadline_ms, price="5", spec=spec)
    assert passed.failure is not None
    assert passed.failure.cause is Cause.DEADLINE
    assert "while it waited: one more run may cost $5.00" in passed.failure.message
    cheap_and_late = seen(waiting, deadline_ms - 59_999, price="2", spec=spec)
    assert cheap_and_late.failure is not None
    assert cheap_and_late.failure.cause is Cause.NO_OFFER


RETRIED = replace(DEAR, retry=RetryPolicy(backoff_s=Decimal("0.01")))


async def test_a_later_attempt_waits_until_the_price_is_within_the_quote_again(tmp_path: Path) -> None:
    def script(launch: Launch) -> Script:
        if launch.tag.epoch == 1:
            provider.show(price_usd_per_hour=Decimal(5))
        return lost_once(launch)

    provider = Priced(SystemClock(), script)
    provider.show(price_usd_per_hour=Decimal(2))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    quote = (await estimated(plane, RETRIED)).quote
    assert quote is not None
    outcome = await submitted(plane, quote.text, RETRIED)
    assert isinstance(outcome, Submitted)
    assert outcome.workload.quoted_usd == quote.terms.bound_usd

    def waits(record: Record) -> bool:
        return "one more run may cost $5.00, of the quote of" in record.workload.reason

    record = await plane.until(outcome.workload.id, waits, "waiting for the price")
    assert record.workload.state is WorkloadState.WAITING
    assert [attempt.placement.price_usd_per_hour for attempt in record.attempts] == [2]
    explained = await plane.queries.explanation(TENANT, outcome.workload.id, replay=True)
    assert explained is not None
    assert explained.record.workload.reason == record.workload.reason
    assert [one.decision.quoted is not None for one in explained.explained] == [True]

    assert used_up(provider, record).state is WorkloadState.FAILED
    provider.show(price_usd_per_hour=Decimal("1.5"))
    plane.reconciler.hints().capacity()
    record = await plane.finished(outcome.workload.id)
    assert record.workload.state is WorkloadState.SUCCEEDED
    made = (await plane.store.decisions(outcome.workload.id))[-1]
    assert made.quoted is not None
    assert made.quoted.left_usd == quote.terms.bound_usd - record.attempts[0].cost_usd
    assert replay(RETRIED, made).differences == ()
    await plane.kill()


async def test_every_server_of_a_database_honours_the_quotes_of_all(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    planes = []
    for worker in ("w1", "w2"):
        provider = Priced(SystemClock(), always(Script()))
        provider.show(price_usd_per_hour=Decimal(2))
        planes.append(await start(url, tmp_path, provider, worker=worker))
    first, second = planes
    quote = (await estimated(first)).quote
    assert quote is not None
    assert isinstance(await submitted(second, quote.text), Submitted)
    for plane in planes:
        await plane.reconciler.stop()
        await plane.loop
        await plane.store.close()
