"""Measured GPU memory takes the place of an estimate: down to what is sure, up as far as there are offers."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.lessons import NO_LESSONS, Ended, GpuUse, History, Lessons
from placet.domain.models import ModelHint, ModelUse
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Gpu
from placet.domain.spec import Accelerator, Constraints, Resources, Selection, Spec
from placet.stages.enlarging import enlarged
from placet.stages.filters import Asked
from placet.stages.lessons import remember
from placet.stages.memory.demanded import model_memory
from placet.stages.memory.measured import measured_memory
from placet.stages.memory.values import MemoryEstimate
from placet.stages.placement import place
from placet.stages.sizing import kind_of, size
from tests.support.values import GPU_OFFER, NOW_MS
from tests.support.worlds import process

GB, MIB = 10**9, 2**20
TENANT = "t"
MODEL = ModelHint(id="meta-llama/Meta-Llama-3-8B", task=ModelUse.LORA)
SPEC = process("train", model=MODEL, resources=Resources(accelerator=Accelerator.GPU))
ESTIMATE = model_memory(SPEC)
assert isinstance(ESTIMATE, MemoryEstimate)
ASKED = ESTIMATE.recommended_bytes
SMALL = replace(GPU_OFFER, id="small", gpu=Gpu(model="L4", count=1, memory_bytes=24 * GB))
LARGE = replace(
    SMALL,
    id="large",
    provider="other",
    gpu=Gpu(model="A100", count=1, memory_bytes=80 * GB),
    price_usd_per_hour=Decimal(3),
)
TABLE = OfferTable.of([SMALL, LARGE])


def use(peak_gb: float, device_gb: float = 80, *, asked: int | None = ASKED, computed: bool = True) -> GpuUse:
    return GpuUse(
        peak_bytes=int(peak_gb * GB),
        device_bytes=int(device_gb * GB),
        gpu_count=1,
        asked_bytes=asked,
        computed=computed,
    )


def lessons_of(*uses: GpuUse, spec: Spec = SPEC) -> Lessons:
    ended = [
        Ended(
            tenant=TENANT,
            workload_id=f"wl_{number}",
            epoch=1,
            kind=kind_of(spec),
            offer_id="large",
            provider="other",
            region="r",
            gpu_model="A100",
            capacity_type="on_demand",
            created_ms=NOW_MS,
            finished_ms=NOW_MS + number,
            started_ms=NOW_MS,
            exited_ms=NOW_MS + number,
            computed=one.computed,
            gpu_use=one,
        )
        for number, one in enumerate(uses)
    ]
    return remember(NO_LESSONS, ended)


def asked(*uses: GpuUse, spec: Spec = SPEC, table: OfferTable = TABLE) -> Asked:
    lessons = lessons_of(*uses, spec=spec)
    plain = Asked(spec=spec, demand=size(spec, tenant=TENANT, lessons=lessons), now_ms=NOW_MS)
    return enlarged(plain, table, history=lessons.history(TENANT, kind_of(spec)))


@pytest.mark.parametrize(
    ("uses", "wanted_gb"),
    [
        ((use(20),), 22),
        ((use(10), use(20), use(15)), 22),
        # It was enough for one that succeeded, so no more than that is wanted.
        ((use(22.9, 24),), 24),
        # One that failed needed at least what it had.
        ((use(23.5, 24, asked=22 * GB, computed=False),), 25.85),
        # One that fills whatever it gets says nothing of its need.
        ((use(72, 80),), None),
        ((use(72, 80), use(20)), 22),
        ((use(72, 80, asked=70 * GB),), 79.2),
        ((), None),
    ],
)
def test_a_tenth_more_than_the_highest_peak_that_tells_anything(
    uses: tuple[GpuUse, ...], wanted_gb: float | None
) -> None:
    measured = measured_memory(History(gpu_uses=uses), 1)
    if wanted_gb is None:
        assert measured is None
    else:
        assert measured is not None
        assert 0 <= measured.memory_bytes - wanted_gb * GB < MIB
    assert measured_memory(History(gpu_uses=uses), 2) is None


def test_a_measurement_below_the_estimate_takes_its_place_and_says_so() -> None:
    spec = replace(SPEC, model=replace(MODEL, gradient_checkpointing=False))
    estimate = model_memory(spec)
    assert isinstance(estimate, MemoryEstimate)
    peak_gb = (estimate.size.low + estimate.recommended_bytes) / 2 / 1.1 / GB
    less = asked(use(peak_gb), spec=spec)
    wanted = less.demand.gpu_memory_bytes or 0
    assert estimate.size.low < wanted < estimate.recommended_bytes
    (told,) = [reason for reason in less.demand.reasons if "instead of the estimated" in reason]
    assert "1 equal attempt used at most" in told
    assert less.demand.raised == ""


def test_it_is_never_less_than_the_model_surely_needs() -> None:
    assert asked(use(1)).demand.gpu_memory_bytes == ESTIMATE.size.low


def test_a_measurement_above_the_estimate_is_asked_for_where_an_offer_has_it() -> None:
    assert place(asked(), TABLE, seed="s").ranked[0].offer.id == "small"
    more = asked(use(30))
    assert 33 * GB <= (more.demand.gpu_memory_bytes or 0) < 33 * GB + MIB
    assert "instead of the estimated" in more.demand.raised
    assert more.demand.raised in more.demand.reasons
    assert place(more, TABLE, seed="s").ranked[0].offer.id == "large"


def test_nothing_is_refused_for_a_measurement() -> None:
    within = replace(SPEC, constraints=Constraints(providers=Selection(denied=("other",))))
    assert asked(use(30), spec=within).demand.gpu_memory_bytes == ASKED


def test_a_declared_figure_is_a_bound_from_below() -> None:
    declared = process("train", resources=Resources(accelerator=Accelerator.GPU, gpu_memory_bytes=24 * GB))
    assert asked(use(10, asked=24 * GB), spec=declared).demand.gpu_memory_bytes == 24 * GB
    more = asked(use(30, asked=24 * GB), spec=declared)
    assert (more.demand.gpu_memory_bytes or 0) >= 33 * GB
    assert "instead of the declared 24 GB" in more.demand.raised


def test_where_nothing_was_declared_the_measurement_is_asked_for() -> None:
    undeclared = process("train", resources=Resources(accelerator=Accelerator.GPU))
    assert asked(spec=undeclared).demand.gpu_memory_bytes is None
    assert (asked(use(10, asked=None), spec=undeclared).demand.gpu_memory_bytes or 0) >= 11 * GB
