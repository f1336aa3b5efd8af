"""What equal workloads took is what the next one is expected to take."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.lessons import NO_LESSONS, Ended
from placet.domain.offer_table import OfferTable
from placet.domain.spec import Constraints, Resources
from placet.stages import histories
from placet.stages.filters import Asked
from placet.stages.histories import RUN_TIMES_FEW, RUN_TIMES_MAX, remember_kinds, run_time
from placet.stages.lessons import remember
from placet.stages.placement import place
from placet.stages.sizing import kind_of, size
from tests.support.values import GPU_OFFER, NOW_MS
from tests.support.worlds import process

SPEC = process("train", resources=Resources(cpu_cores=Decimal(1)))
TENANT = "t"


def run(seconds: float, number: int = 1, **fields: object) -> Ended:
    ended = Ended(
        tenant=TENANT,
        workload_id=f"wl_{number}",
        epoch=1,
        kind=kind_of(SPEC),
        offer_id="a",
        provider="p",
        region="r",
        gpu_model="",
        capacity_type="on_demand",
        created_ms=NOW_MS,
        started_ms=NOW_MS,
        exited_ms=NOW_MS + int(seconds * 1000),
        finished_ms=NOW_MS + number,
        computed=True,
    )
    return replace(ended, **fields)  # type: ignore[arg-type]  # fields of Ended by name


def test_quantiles_of_many_runs_and_a_wide_guess_from_few() -> None:
    many = run_time([float(seconds) for seconds in range(0, 101)])
    assert (many.low, many.likely, many.high) == (10, 50, 90)
    few = run_time([60.0] * (RUN_TIMES_FEW - 1))
    assert (few.low, few.likely, few.high) == (30, 60, 120)
    assert run_time([0.0]).high == 0


def test_a_kind_is_the_program_and_not_its_name_or_its_bounds() -> None:
    same = replace(SPEC, name="other", labels=(("a", "b"),), constraints=Constraints(runtime_s=Decimal(60)))
    assert kind_of(same) == kind_of(SPEC)
    assert kind_of(replace(SPEC, resources=Resources(cpu_cores=Decimal(1), memory_bytes=10**9))) == kind_of(SPEC)
    others = [process("train", "more"), replace(SPEC, environment=(("SEED", "2"),)), process("train")]
    assert len({kind_of(SPEC), *map(kind_of, others)}) == 4


def test_only_successes_of_the_tenants_own_kind_count() -> None:
    lessons = remember(NO_LESSONS, [run(10, 1), run(999, 2, computed=False), run(999, 3, tenant="u")])
    demand = size(SPEC, tenant=TENANT, lessons=lessons)
    assert demand.runtime_s is not None
    assert demand.runtime_s.likely == 10
    assert "1 equal workload took" in demand.reasons[0]
    assert size(SPEC, tenant="v", lessons=lessons).runtime_s is None
    assert size(process("other"), tenant=TENANT, lessons=lessons).runtime_s is None


def test_a_later_attempt_may_have_done_only_the_rest() -> None:
    lessons = remember(NO_LESSONS, [run(3600, 1), run(5, 2, epoch=2, whole=False), run(3700, 3, epoch=2)])
    assert lessons.history(TENANT, kind_of(SPEC)).run_times_s == (3600.0, 3700.0)


def test_the_declared_limit_bounds_what_is_expected() -> None:
    lessons = remember(NO_LESSONS, [run(100, number) for number in range(9)])
    demand = size(replace(SPEC, constraints=Constraints(runtime_s=Decimal(60))), tenant=TENANT, lessons=lessons)
    assert demand.runtime_s is not None
    assert (demand.runtime_s.low, demand.runtime_s.likely, demand.runtime_s.high) == (60, 60, 60)
    demand = size(replace(SPEC, constraints=Constraints(runtime_s=Decimal(600))), tenant=TENANT, lessons=lessons)
    assert demand.runtime_s is not None
    assert (demand.runtime_s.low, demand.runtime_s.likely, demand.runtime_s.high) == (100, 100, 600)


def test_the_expected_cost_is_that_of_the_expected_run_time() -> None:
    offer = replace(GPU_OFFER, gpu=None, price_usd_per_hour=Decimal(36), startup_s=Decimal(0), region="r")
    lessons = remember(NO_LESSONS, [run(100, number) for number in range(9)])
    table = OfferTable.of([offer])
    known = size(SPEC, tenant=TENANT, lessons=lessons)
    told = place(Asked(spec=SPEC, demand=known, now_ms=NOW_MS), table, seed="s").ranked[0].cost_usd
    untold = place(Asked(spec=SPEC, demand=size(SPEC), now_ms=NOW_MS), table, seed="s").ranked[0].cost_usd
    assert told.likely == pytest.approx(Decimal(1), rel=Decimal("0.01"))
    assert untold.likely > 35
    assert "equal workloads" in told.reason


def test_earlier_run_times_never_refuse_a_deadline() -> None:
    lessons = remember(NO_LESSONS, [run(7200, number) for number in range(9)])
    spec = replace(SPEC, constraints=Constraints(deadline_ms=NOW_MS + 3_600_000))
    demand = size(spec, tenant=TENANT, lessons=lessons)
    offer = replace(GPU_OFFER, startup_s=Decimal(1))
    assert place(Asked(spec=spec, demand=demand, now_ms=NOW_MS), OfferTable.of([offer]), seed="s").ranked


def test_histories_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "KINDS_MAX", 8)
    known = remember_kinds({}, [run(number, number) for number in range(RUN_TIMES_MAX + 7)])
    (history,) = known.values()
    assert history.run_times_s == tuple(float(number) for number in range(7, RUN_TIMES_MAX + 7))
    for number in range(30):
        known = remember_kinds(known, [run(1, 1000 + number, kind=f"k{number}")])
    assert len(known) <= 8
    assert (TENANT, "k29") in known
