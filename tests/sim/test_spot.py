"""Spot with a deadline through the engine: taken, taken back, gone on with, and left when the deadline says so."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Launch
from placet.domain.failures import Cause
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Free, Offer
from placet.domain.spec import CapacityType, Constraints, Repeat, RetryPolicy, Spec
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.decide import decide
from placet.engine.facts import Cancel, Situation, World
from placet.stages.course import DELIVERY_S, LOOK_S
from placet.stages.explaining import replay
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.worlds import always, process, start

pytestmark = pytest.mark.anyio

HOUR_S = 3600
LOOK_MS = int(LOOK_S * 1000)
DELIVERY_MS = int(DELIVERY_S * 1000)
STEADY = Offer(
    id="steady",
    provider="scripted",
    region="here",
    runtimes=("process",),
    cpu_cores=Decimal(64),
    memory_bytes=10**12,
    price_usd_per_hour=Decimal("3.00"),
    availability=Availability.FREE,
    free=Free(slots=100),
)
CHEAP = replace(
    STEADY, id="cheap", capacity_type=CapacityType.SPOT, price_usd_per_hour=Decimal("0.90"), preemptible=True
)


def resumable(hours: float) -> Spec:
    deadline_ms = SystemClock().now_ms() + int(hours * HOUR_S * 1000)
    return process(
        repeat=Repeat.RESUMABLE,
        constraints=Constraints(deadline_ms=deadline_ms, runtime_s=Decimal(4 * HOUR_S)),
        retry=RetryPolicy(attempts=1, infrastructure_attempts=1, backoff_s=Decimal("0.01")),
    )


async def test_spot_that_is_taken_back_is_gone_on_with_and_costs_no_attempt(tmp_path: Path) -> None:
    def script(launch: Launch) -> Script:
        return Script(cause=Cause.PREEMPTED if launch.tag.epoch < 4 else None)

    provider = ScriptedProvider(SystemClock(), script, offers=lambda: (STEADY, CHEAP))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit(resumable(hours=48))
    record = await plane.finished(workload_id)
    assert record.workload.state is WorkloadState.SUCCEEDED
    assert [attempt.placement.offer_id for attempt in record.attempts] == ["cheap"] * 4
    assert record.workload.infrastructure_failures == 0
    for made in await plane.store.decisions(workload_id):
        assert made.within is not None
        assert made.within.capacity_types == (CapacityType.SPOT,)
        assert replay(record.workload.spec, made).differences == ()
    await plane.kill()


async def test_no_time_to_play_with_is_no_spot(tmp_path: Path) -> None:
    provider = ScriptedProvider(SystemClock(), always(Script()), offers=lambda: (STEADY, CHEAP))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    record = await plane.finished(await plane.submit(resumable(hours=4.2)))
    assert [attempt.placement.offer_id for attempt in record.attempts] == ["steady"]
    await plane.kill()


async def test_waiting_for_spot_says_so(tmp_path: Path) -> None:
    sold_out = replace(CHEAP, availability=Availability.FULL)
    provider = ScriptedProvider(SystemClock(), always(Script()), offers=lambda: (STEADY, sold_out))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit(resumable(hours=96))
    record = await plane.until(
        workload_id, lambda record: record.workload.state is WorkloadState.WAITING, "waiting for spot"
    )
    assert record.workload.wait_for == "spot"
    assert "waiting for spot is expected to cost" in record.workload.reason
    assert record.workload.lease.owner == "w1", "what was seen of spot is not forgotten"
    await plane.kill()


async def test_what_does_not_start_is_left_when_nothing_else_keeps_the_deadline(tmp_path: Path) -> None:
    """The same record a few hours later: the decision is pure, so time is only a number."""
    provider = ScriptedProvider(SystemClock(), always(Script(hold=True)), offers=lambda: (STEADY, CHEAP))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    workload_id = await plane.submit(resumable(hours=8))
    record = await plane.until(
        workload_id,
        lambda record: record.workload.state is WorkloadState.RUNNING and record.attempts[0].handle is not None,
        "running on spot",
    )
    (attempt,) = record.attempts
    assert attempt.placement.offer_id == "cheap"
    # Not begun yet, four hours to do and a quarter of an hour for a change: it is left 4.25 hours before the end.
    deadline_ms = record.workload.spec.constraints.deadline_ms
    assert deadline_ms is not None
    latest_ms = deadline_ms - 255 * 60_000 - DELIVERY_MS
    starting = replace(attempt, state=AttemptState.STARTING, started_ms=None, created_ms=latest_ms - 3 * LOOK_MS)
    record = replace(record, attempts=(starting,))

    def at(now_ms: int) -> tuple[AttemptState, bool]:
        world = World(
            now_ms=now_ms,
            deployment="d",
            worker="w1",
            offers=lambda: OfferTable.of([STEADY, CHEAP]),
            places=frozenset({("scripted", "here")}),
            cards={provider.name: provider.card},
        )
        step = decide(Situation(record=record, world=world))
        return step.record.attempts[0].state, any(isinstance(effect, Cancel) for effect in step.effects)

    assert at(latest_ms - 2 * LOOK_MS) == (AttemptState.STARTING, False)
    assert at(latest_ms) == (AttemptState.STOPPING, True)
    await plane.kill()


async def test_on_demand_that_failed_is_tried_again_before_spot_that_the_deadline_forbids(tmp_path: Path) -> None:
    def script(launch: Launch) -> Script:
        return Script(cause=Cause.LOST if launch.tag.epoch == 1 else None)

    provider = ScriptedProvider(SystemClock(), script, offers=lambda: (STEADY, CHEAP))
    plane = await start(f"sqlite:///{tmp_path / 'placet.db'}", tmp_path, provider)
    spec = resumable(hours=4.2)
    spec = replace(spec, retry=replace(spec.retry, infrastructure_attempts=2))
    record = await plane.finished(await plane.submit(spec))
    assert [attempt.placement.offer_id for attempt in record.attempts] == ["steady", "steady"]
    await plane.kill()
