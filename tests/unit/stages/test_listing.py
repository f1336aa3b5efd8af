"""Price lists as they are: every trap that was seen is set aside with its reason, the rest is made uniform."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.adapters.catalog.files import demonstration
from placet.domain.gpus import MODELS, recognise
from placet.domain.listings import Doubt, Listing, MemoryUnit
from placet.domain.spec import CapacityType
from placet.stages.listing import normalise

A100 = Listing(
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


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("A100 (80 GB)", ["A100-80GB"]),
        ("NVIDIA A100-SXM4-40GB", ["A100-40GB"]),
        ("a100", ["A100-40GB", "A100-80GB"]),
        ("Tesla T4", ["T4"]),
        ("NVIDIA GeForce RTX 4090", ["RTX4090"]),
        ("H100 PCIe", ["H100-80GB"]),
        ("nvidia-l4", ["L4"]),
        ("RTX A6000 (48 GB)", ["A6000"]),
        ("toaster", []),
    ],
)
def test_names_are_recognised_however_they_are_written(listed: str, names: list[str]) -> None:
    assert [model.name for model in recognise(listed).models] == names


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_every_canonical_name_is_recognised_as_itself(model: object) -> None:
    assert recognise(model.name).models == (model,)  # type: ignore[attr-defined]  # MODELS holds GpuModel


@pytest.mark.parametrize(
    ("listing", "capacity", "doubt"),
    [
        (replace(A100, price_usd_per_hour=None), "on_demand", Doubt.PRICE_MISSING),
        (replace(A100, price_usd_per_hour=Decimal("0.00")), "on_demand", Doubt.PRICE_ZERO),
        (replace(A100, spot_usd_per_hour=Decimal("0.00")), "spot", Doubt.PRICE_ZERO),
        (replace(A100, price_usd_per_hour=Decimal("700.00")), "on_demand", Doubt.PRICE_PLACEHOLDER),
        (replace(A100, spot_usd_per_hour=Decimal("2.00")), "spot", Doubt.SPOT_IS_ON_DEMAND),
        (replace(A100, spot_usd_per_hour=Decimal("2.50")), "spot", Doubt.SPOT_ABOVE_ON_DEMAND),
        (replace(A100, gpu_name="A100", gpu_memory=None), "", Doubt.GPU_AMBIGUOUS),
        (replace(A100, gpu_name="toaster"), "", Doubt.GPU_UNKNOWN),
        (
            replace(A100, gpu_name="RTX 3090", gpu_memory=Decimal(49140), gpu_memory_unit=MemoryUnit.MIB),
            "",
            Doubt.GPU_MEMORY_CONTRADICTS,
        ),
        (replace(A100, gpu_count=None), "", Doubt.HOST_WITHOUT_GPU),
        (replace(A100, gpu_count=0), "", Doubt.HOST_WITHOUT_GPU),
    ],
)
def test_each_trap_is_set_aside_with_its_reason(listing: Listing, capacity: str, doubt: Doubt) -> None:
    made = normalise([listing])
    assert [(aside.capacity, aside.doubt) for aside in made.quarantined] == [(capacity, doubt)]
    assert all(aside.why for aside in made.quarantined)
    assert all(offer.capacity_type is not CapacityType.SPOT for offer in made.offers)


@pytest.mark.parametrize(
    ("listing", "name", "gigabytes"),
    [
        (replace(A100, gpu_name="A100"), "A100-80GB", 80),
        (replace(A100, gpu_name="A100", gpu_memory=Decimal(40)), "A100-40GB", 40),
        (replace(A100, gpu_memory_unit=MemoryUnit.MIB), "A100-80GB", 80),
        (replace(A100, gpu_memory=Decimal(81920), gpu_memory_unit=MemoryUnit.MIB), "A100-80GB", 80),
        (replace(A100, gpu_count=8, gpu_memory=Decimal(640)), "A100-80GB", 80),
        (replace(A100, gpu_count=8, gpu_memory=Decimal(80)), "A100-80GB", 80),
        (replace(A100, gpu_name="A100", gpu_count=2, gpu_memory=Decimal(80)), "A100-80GB", 80),
    ],
)
def test_memory_is_read_as_what_the_model_has(listing: Listing, name: str, gigabytes: int) -> None:
    made = normalise([listing])
    assert made.offers[0].gpu is not None
    assert (made.offers[0].gpu.model, made.offers[0].gpu.memory_bytes) == (name, gigabytes * 10**9)


def test_a_host_priced_without_its_gpu_is_found_by_its_price() -> None:
    fair = [replace(A100, machine=f"i{price}", price_usd_per_hour=Decimal(price)) for price in (2, 3, 4)]
    host = replace(A100, machine="host", price_usd_per_hour=Decimal("0.20"))
    made = normalise([*fair, host])
    assert len(made.offers) == 3
    assert [aside.doubt for aside in made.quarantined] == [Doubt.PRICE_TOO_LOW]


def test_one_identity_at_two_prices_is_believed_at_the_dearer() -> None:
    made = normalise([A100, replace(A100, price_usd_per_hour=Decimal(3))])
    assert [offer.price_usd_per_hour for offer in made.offers] == [3]
    assert [aside.doubt for aside in made.quarantined] == [Doubt.DUPLICATE]


def test_private_capacity_is_reserved_and_may_be_free() -> None:
    made = normalise([replace(A100, private=True, price_usd_per_hour=None)])
    assert [(offer.capacity_type, offer.price_usd_per_hour) for offer in made.offers] == [(CapacityType.RESERVED, 0)]


def test_the_demonstration_catalogue_is_nearly_all_believed() -> None:
    listings = demonstration()
    made = normalise(listings)
    assert len(listings) == 329
    assert len(made.offers) > 350
    assert len({offer.id for offer in made.offers}) == len(made.offers)
    doubts = {aside.doubt for aside in made.quarantined}
    assert doubts <= {Doubt.DUPLICATE, Doubt.PRICE_MISSING, Doubt.GPU_MEMORY_CONTRADICTS}
