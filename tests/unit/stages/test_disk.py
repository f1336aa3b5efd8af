"""The disk that a spec takes: what is sure, what is assumed, and what contradicts."""

from dataclasses import replace

import pytest

from placet.domain.models import ModelHint, ModelUse
from placet.domain.offer_table import OfferTable
from placet.domain.spec import Accelerator, Input, InputKind, Output, Resources, Runtime, RuntimeKind, Spec
from placet.stages.admission import admit
from placet.stages.disk import IMAGE, IMAGE_WITH_GPU, INPUT_UNKNOWN, OUTPUTS, disk_of
from placet.stages.filters import Asked
from placet.stages.memory.values import Span, total
from placet.stages.placement import feasible
from placet.stages.sizing import size
from tests.support.values import GPU_OFFER, NOW_MS
from tests.support.worlds import process

GB = 10**9
LLAMA = ModelHint(id="meta-llama/Meta-Llama-3-8B", task=ModelUse.LORA)
CONTAINER = Spec(runtime=Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/a:v1", image_bytes=4 * GB))


def given(kind: InputKind, size_bytes: int | None, source: str = "/data") -> Input:
    return Input(name="data", kind=kind, source=source, size_bytes=size_bytes)


def sized(spec: Spec) -> Span:
    estimate = disk_of(spec)
    return total(()) if estimate is None else estimate.size


def test_a_command_that_reads_nothing_takes_nothing_that_is_known() -> None:
    spec = process("work", outputs=(Output(name="o", path="o"),))
    assert disk_of(spec) is None
    assert (size(spec).disk_bytes, size(spec).disk) == (None, None)


def test_known_sizes_are_sure_and_allowances_have_no_lower_bound() -> None:
    spec = replace(CONTAINER, inputs=(given(InputKind.HTTP, 3 * GB), given(InputKind.PATH, GB)))
    assert sized(spec) == Span(low=8 * GB, likely=8 * GB, high=8 * GB)
    assert sized(replace(spec, outputs=(Output(name="o", path="o"),))).likely == 8 * GB + OUTPUTS.likely
    unknown = replace(CONTAINER, inputs=(given(InputKind.HTTP, None),))
    assert sized(unknown) == Span(low=4 * GB, likely=4 * GB + INPUT_UNKNOWN.likely, high=4 * GB + INPUT_UNKNOWN.high)


def test_an_unknown_image_gets_an_allowance_by_whether_it_computes_on_a_gpu() -> None:
    plain = replace(CONTAINER, runtime=replace(CONTAINER.runtime, image_bytes=None))
    assert sized(plain) == IMAGE
    assert sized(replace(plain, resources=Resources(accelerator=Accelerator.GPU))) == IMAGE_WITH_GPU


@pytest.mark.parametrize(
    ("kind", "low"), [(InputKind.PATH, 0), (InputKind.STORAGE, 0), (InputKind.HTTP, GB), (InputKind.TEXT, 5)]
)
def test_what_is_linked_to_a_process_is_not_copied_for_certain(kind: InputKind, low: int) -> None:
    assert sized(process("work", inputs=(given(kind, GB, "\u00e4bcd"),))).low == low


def test_weights_are_downloaded_unless_an_input_holds_them() -> None:
    gpu = replace(CONTAINER, model=LLAMA, resources=Resources(accelerator=Accelerator.GPU))
    assert sized(gpu).likely == pytest.approx(4 * GB + 2 * 8.03 * GB, rel=0.001)
    assert sized(gpu).low == 4 * GB
    held = replace(
        gpu,
        model=replace(LLAMA, folder="/models/llama/weights"),
        inputs=(given(InputKind.PATH, 16 * GB, "/models/llama"),),
    )
    assert sized(held).likely == 20 * GB
    beside = replace(held, inputs=(given(InputKind.PATH, 16 * GB, "/models/lla"),))
    assert sized(beside).likely > 30 * GB
    full = replace(gpu, model=replace(LLAMA, task=ModelUse.FULL_FINE_TUNE))
    assert sized(full).likely == pytest.approx(4 * GB + 3 * 2 * 8.03 * GB, rel=0.001)
    assert sized(replace(gpu, resources=Resources())).likely == 4 * GB


def test_less_than_is_needed_for_certain_is_a_contradiction() -> None:
    spec = replace(CONTAINER, inputs=(given(InputKind.HTTP, int(2.5 * GB)),), resources=Resources(disk_bytes=6 * GB))
    (problem,) = admit(spec, NOW_MS)
    assert (problem.code, problem.field) == ("contradiction", "resources.disk_gb")
    assert problem.fix == "ask for 7 or more, or leave it out"
    assert "input data 2.5 GB" in problem.why
    enough = replace(spec, resources=Resources(disk_bytes=int(6.5 * GB)))
    assert admit(enough, NOW_MS) == ()
    assert size(enough).disk_bytes == int(6.5 * GB)


def test_what_is_only_likely_is_told_and_refuses_nothing() -> None:
    spec = replace(CONTAINER, outputs=(Output(name="o", path="o"),), resources=Resources(disk_bytes=4 * GB))
    assert admit(spec, NOW_MS) == ()
    (told,) = size(spec).reasons
    assert told.startswith("disk: 4 GB as stated, though likely 5 GB: image 4 GB (as stated)")


def test_placement_asks_for_what_is_likely() -> None:
    spec = replace(CONTAINER, outputs=(Output(name="o", path="o"),))
    asked = Asked(spec=spec, demand=size(spec), now_ms=NOW_MS)
    (told,) = asked.demand.reasons
    assert told.startswith("disk: 5 GB, between 4 GB and 24 GB: image 4 GB (as stated), outputs 1 GB (an allowance)")
    for disk_bytes, fits in ((5 * GB - 1, False), (5 * GB, True), (None, True)):
        assert feasible(asked, OfferTable.of([replace(GPU_OFFER, disk_bytes=disk_bytes)])) is fits
