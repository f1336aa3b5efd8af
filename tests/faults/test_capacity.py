"""Faults of capacity, quota and price: refusals that mean different things, figures that cannot be."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.domain.allocations import ErrorKind, ErrorRule, Handle, Launch
from placet.domain.failures import MEANINGS, Cause, FailureClass
from placet.domain.listings import Listing
from placet.domain.offers import Availability, Free, Offer
from placet.domain.spec import Constraints
from placet.domain.states import WorkloadState
from placet.engine.intake import Refused, Submission
from placet.stages.limits import exceeded
from placet.stages.listing import normalise
from placet.testing.scripted import CARD, Script
from tests.support.faulty import always, lived, wishes
from tests.support.missing import not_built
from tests.support.values import ATTEMPT, NOW_MS, SPEC
from tests.support.worlds import TENANT, control_plane, process
from tests.support.worlds import always as scripted

W = WorkloadState


@pytest.mark.parametrize("status", [400, 403, 409, 412, 503])
def test_fault_CAP_01(status: int) -> None:
    card = replace(CARD, error_table=(ErrorRule(status=status, kind=ErrorKind.NO_CAPACITY, marker="no capacity"),))
    assert card.error_kind(status, "sorry, no capacity in this zone") is ErrorKind.NO_CAPACITY
    assert card.error_kind(status, "something nobody has heard of") is ErrorKind.OUTCOME_UNKNOWN


def test_fault_CAP_02() -> None:
    kinds = (Cause.NO_CAPACITY, Cause.QUOTA, Cause.AUTH)
    assert len({MEANINGS[cause].fix for cause in kinds}) == 3
    assert [MEANINGS[cause].failure_class for cause in kinds] == [
        FailureClass.CAPACITY,
        FailureClass.QUOTA,
        FailureClass.PROVIDER,
    ]
    seen = lived(when={"quota": always}, faults_s=60.0)
    assert {attempt.failure.cause for attempt in seen.records["w0"].attempts if attempt.failure} == {Cause.QUOTA}


def offer(number: int) -> Offer:
    return Offer(
        id=f"o{number}",
        provider="scripted",
        region="here",
        runtimes=("process",),
        cpu_cores=Decimal(8),
        memory_bytes=10**10,
        price_usd_per_hour=Decimal(number + 1),
        availability=Availability.FREE,
        free=Free(slots=5),
        observed_ms=NOW_MS,
    )


async def test_fault_CAP_04(tmp_path: Path) -> None:
    def script(launch: Launch) -> Script:
        return Script(refuse=launch.offer.id != "o8")

    offers = tuple(offer(number) for number in range(12))
    async with control_plane(tmp_path, script, offers=lambda: offers) as plane:
        retry = replace(SPEC.retry, backoff_s=Decimal(0), infrastructure_attempts=3)
        record = await plane.finished(await plane.submit(process(retry=retry)))
        assert record.workload.state is W.SUCCEEDED
        assert [attempt.placement.offer_id for attempt in record.attempts][-1] == "o8"
        assert {f"o{number}" for number in range(8)} <= {attempt.placement.offer_id for attempt in record.attempts}


@not_built("machines that are kept between workloads")
def test_fault_CAP_05() -> None: ...


def test_fault_CAP_07() -> None:
    """What the provider says it charges counts, not what was listed: at ten times the price the cap ends it so soon."""
    capped = replace(SPEC, constraints=Constraints(cost_usd=Decimal(1)))
    handle = Handle(
        provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS, price_usd_per_hour=Decimal(36)
    )
    dear = replace(ATTEMPT, handle=handle)
    at_ms = NOW_MS + 100_000
    assert exceeded(ATTEMPT, capped, Decimal(0), at_ms) is None
    found = exceeded(dear, capped, Decimal(0), at_ms)
    assert found is not None
    assert found.cause is Cause.COST_CAP


async def test_fault_CAP_08(tmp_path: Path) -> None:
    dear = replace(offer(0), price_usd_per_hour=Decimal("4.90"))
    async with control_plane(tmp_path, scripted(Script()), offers=lambda: (dear,)) as plane:
        spec = process(constraints=Constraints(cost_usd=Decimal("0.28"), runtime_s=Decimal(3600)))
        told = await plane.intake.submit(Submission(tenant=TENANT, spec=spec, key=None, actor="test"))
        assert isinstance(told, Refused)
        text = " ".join(f"{problem.what} {problem.why} {problem.fix}" for problem in told.problems)
        assert "0.28" in text
        assert "4.9" in text
        assert plane.provider.ran == []


@pytest.mark.parametrize("price", ["0", "-1", "NaN"])
def test_fault_CAP_10(price: str) -> None:
    listing = Listing(
        source="test",
        provider="cloud",
        machine="big",
        gpu_name="A100 (80 GB)",
        gpu_count=1,
        gpu_memory=Decimal(80),
        vcpus=Decimal(12),
        memory_gb=Decimal(120),
        price_usd_per_hour=Decimal("2.00"),
    )
    assert len(normalise([listing]).offers) == 1
    assert not normalise([replace(listing, price_usd_per_hour=Decimal(price))]).offers


@not_built("bids for spot machines")
def test_fault_CAP_11() -> None: ...


async def test_fault_CAP_14(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script()), offers=lambda: (offer(0),)) as plane:
        spec = process(resources=replace(SPEC.resources, cpu_cores=Decimal(64)))
        told = await plane.intake.submit(Submission(tenant=TENANT, spec=spec, key=None, actor="test"))
        assert isinstance(told, Refused)
        assert all(problem.fix for problem in told.problems)


async def test_fault_CAP_15(tmp_path: Path) -> None:
    large = replace(offer(1), id="large", cpu_cores=Decimal(64))

    def script(launch: Launch) -> Script:
        return Script(refuse=launch.offer.id == "large")

    async with control_plane(tmp_path, script, offers=lambda: (offer(0), large)) as plane:
        head = await plane.submit(process(resources=replace(SPEC.resources, cpu_cores=Decimal(32))))
        others = [await plane.submit() for _ in range(5)]
        for workload_id in others:
            assert (await plane.finished(workload_id)).workload.state is W.SUCCEEDED
        assert not (await plane.record(head)).workload.final


def test_fault_CAP_16() -> None:
    """Everything is refused for 20 minutes: it is asked for less and less often, and found again afterwards."""
    seen = lived(wishes(1), when={"no_capacity": always}, faults_s=1200.0)
    assert seen.states == {W.SUCCEEDED}
    assert seen.asked["no_capacity"] < 1200 / 10
