"""A provider reports the GPU memory that an attempt used; the next equal workload is sized by it."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from placet.domain.allocations import Launch, Usage
from placet.domain.models import ModelHint, ModelUse
from placet.domain.offers import Availability, Free, Gpu, Offer
from placet.domain.spec import Accelerator, Resources
from placet.engine.intake import Sized
from placet.stages.memory.measured import MeasuredMemory
from placet.testing.scripted import Script
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, control_plane, process

GB = 10**9
SPEC = process("tune", model=ModelHint(id="meta-llama/Meta-Llama-3-8B", task=ModelUse.LORA))
SPEC = replace(SPEC, resources=Resources(accelerator=Accelerator.GPU))


def card(model: str, memory_gb: int, price: str) -> Offer:
    return Offer(
        id=model,
        provider="scripted",
        region="here",
        runtimes=("process",),
        cpu_cores=Decimal(8),
        memory_bytes=64 * GB,
        gpu=Gpu(model=model, count=1, memory_bytes=memory_gb * GB),
        price_usd_per_hour=Decimal(price),
        availability=Availability.FREE,
        free=Free(gpus=1),
    )


async def knows(plane: ControlPlane, count: int) -> None:
    async def known() -> bool:
        match await plane.intake.measure(TENANT, SPEC):
            case Sized(measured=MeasuredMemory(attempts=attempts)):
                return attempts == count
            case _:
                return False

    await wait_until_async(known, 10, "the measurement is known")


async def test_the_next_equal_workload_is_sized_by_the_measured_peak(tmp_path: Path) -> None:
    peaks = iter((30 * GB, None, 25 * GB))

    def script(launch: Launch) -> Script:
        del launch
        return Script(usage=Usage(gpu_peak_bytes=next(peaks)))

    market = [card("A100", 80, "2")]

    def offers() -> list[Offer]:
        return market

    async with control_plane(tmp_path, script, offers=offers) as plane:
        first = await plane.finished(await plane.submit(SPEC))
        assert (first.attempts[0].placement.gpu_asked_bytes or 0) < 24 * GB
        assert first.attempts[0].usage.gpu_peak_bytes == 30 * GB
        result = await plane.queries.result(TENANT, first.workload.id)
        assert '"gpu_peak_bytes":30000000000' in str(result).replace(" ", "")
        await knows(plane, 1)

        market = [card("L4", 24, "0.1"), card("A100", 80, "2")]
        second = await plane.finished(await plane.submit(replace(SPEC, name="again")))
        placement = second.attempts[0].placement
        assert placement.offer_id == "A100"
        assert dict(placement.dropped) == {"gpu_memory": 1}
        assert 33 * GB <= (placement.gpu_asked_bytes or 0) < 34 * GB
        assert any("1 equal attempt used at most 30 GB" in reason for reason in placement.reasons)
        # What was not measured is not nothing: it changes nothing of what is known.
        assert second.attempts[0].usage.gpu_peak_bytes is None

        await plane.finished(await plane.submit(SPEC))
        await knows(plane, 2)
        estimate = await plane.intake.estimate(TENANT, SPEC)
        assert 33 * GB <= (estimate.demand.gpu_memory_bytes or 0) < 34 * GB
        stranger = await plane.intake.estimate("other", SPEC)
        assert (stranger.demand.gpu_memory_bytes or 0) < 24 * GB
    async with control_plane(tmp_path, script, offers=offers) as again:
        await knows(again, 2)
