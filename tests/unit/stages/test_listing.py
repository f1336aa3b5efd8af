"""Price lists as they are: every trap that was seen is set aside with its reason, the rest is made uniform."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.adapters.catalog.files import demonstration
from placet.domain.gpus import MODELS, recognise
from placet.domain.listings import Doubt, Listing, MemoryUnit
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Availability, Trust
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
        ("GeForce 3080 Ti", ["RTX3080Ti"]),
        ("RTX 3060", ["RTX3060-8GB", "RTX3060-12GB"]),
        ("RTX PRO 6000", ["RTXPRO6000"]),
        ("H200 NVL", ["H200-NVL"]),
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
        (replace(A100, gpu_name="A100", gpu_count=2), "", Doubt.GPU_AMBIGUOUS),
        (replace(A100, gpu_count=8, price_usd_per_hour=Decimal("700.00")), "on_demand", Doubt.PRICE_PLACEHOLDER),
        (replace(A100, gpu_name=None, price_usd_per_hour=Decimal(100)), "on_demand", Doubt.PRICE_PLACEHOLDER),
        (replace(A100, spot_only=True, spot_usd_per_hour=Decimal(0)), "spot", Doubt.PRICE_ZERO),
        (replace(A100, currency="EUR"), "", Doubt.CURRENCY),
        (replace(A100, unreadable="'x' is not a number"), "", Doubt.UNREADABLE),
        (replace(A100, gpu_count=10**9), "", Doubt.UNREADABLE),
        (replace(A100, vcpus=Decimal(-1)), "", Doubt.UNREADABLE),
        (replace(A100, region="a\nb"), "", Doubt.UNREADABLE),
        (replace(A100, machine="m" * 201), "", Doubt.UNREADABLE),
        (replace(A100, private=True, price_usd_per_hour=Decimal(-1)), "", Doubt.UNREADABLE),
        (replace(A100, provider=""), "", Doubt.UNREADABLE),
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
    ],
)
def test_memory_is_read_as_what_the_model_has(listing: Listing, name: str, gigabytes: int) -> None:
    made = normalise([listing])
    assert made.offers[0].gpu is not None
    assert (made.offers[0].gpu.model, made.offers[0].gpu.memory_bytes) == (name, gigabytes * 10**9)


@pytest.mark.parametrize(("memory", "name"), [(160, "A100-40GB"), (40, "A100-80GB")])
def test_memory_of_one_device_or_of_all_is_read_as_the_provider_counts_elsewhere(memory: int, name: str) -> None:
    either = replace(A100, gpu_name="A100", gpu_count=2)
    habit = replace(A100, gpu_name="A100", machine="other", gpu_count=4, gpu_memory=Decimal(memory))
    made = normalise([either, habit])
    [gpu] = [offer.gpu for offer in made.offers if offer.id.startswith("cloud/big")]
    assert gpu is not None
    assert gpu.model == name


def test_an_odd_one_among_two_habits_is_set_aside() -> None:
    rows = [
        replace(A100, gpu_name="A100", gpu_count=2),
        replace(A100, gpu_name="A100", machine="sum", gpu_count=4, gpu_memory=Decimal(320)),
        replace(A100, gpu_name="A100", machine="each", gpu_count=8, gpu_memory=Decimal(40)),
    ]
    made = normalise(rows)
    assert [aside.doubt for aside in made.quarantined] == [Doubt.GPU_AMBIGUOUS]
    assert [told.listing.machine for told in made.corrected] == ["sum"]


def test_a_price_with_a_gpu_that_is_the_hosts_own_is_set_aside() -> None:
    host = replace(A100, machine="n1", gpu_name=None, gpu_count=None, gpu_memory=None, price_usd_per_hour=Decimal("1"))
    made = normalise([host, replace(A100, machine="n1-gpu", price_usd_per_hour=Decimal("1"))])
    assert [aside.doubt for aside in made.quarantined] == [Doubt.HOST_WITHOUT_GPU]
    assert [offer.gpu for offer in made.offers] == [None]


def test_a_price_far_above_its_kind_is_a_placeholder() -> None:
    fair = [replace(A100, machine=f"i{price}", price_usd_per_hour=Decimal(price)) for price in (2, 3, 4)]
    made = normalise([*fair, replace(A100, machine="odd", price_usd_per_hour=Decimal(30))])
    assert [aside.doubt for aside in made.quarantined] == [Doubt.PRICE_PLACEHOLDER]


def test_a_listing_is_for_comparison_and_says_where_its_price_is_from() -> None:
    row = replace(
        A100,
        gpu_count=8,
        price_usd_per_hour=Decimal("0.30000000000000004") * 50,
        disk_gb=Decimal(100),
        minimum_charge_usd=Decimal("0.01"),
        billing_quantum_s=60,
        startup_s=Decimal(90),
        startup_p90_s=Decimal(300),
        availability=Availability.FREE,
        trust=Trust.COMMUNITY,
        observed_ms=1_700_000_000_000,
    )
    [offer] = normalise([row]).offers
    assert not offer.connected
    assert offer.gpu is not None
    assert (offer.gpu.architecture, offer.gpu.interconnect) == ("ampere", "nvlink")
    assert (offer.price_source, offer.trust, offer.disk_bytes) == ("test", Trust.COMMUNITY, 10**11)
    assert (offer.minimum_charge_usd, offer.billing_quantum_s) == (Decimal("0.01"), 60)
    assert (offer.startup_s, offer.startup_p90_s) == (90, 300)
    assert {offer.observed_ms, offer.priced_ms, offer.availability_ms} == {1_700_000_000_000}
    assert OfferTable.of([offer]).offer(0) == offer


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


def test_one_machine_with_one_gpu_or_another_is_two_offers() -> None:
    made = normalise([A100, replace(A100, gpu_name="T4", gpu_memory=Decimal(16), price_usd_per_hour=Decimal(1))])
    assert [offer.id for offer in made.offers] == ["cloud/big/1xa100-80gb/on_demand", "cloud/big/1xt4/on_demand"]
    assert made.quarantined == ()


def test_private_capacity_is_reserved_and_may_be_free() -> None:
    made = normalise([replace(A100, private=True, price_usd_per_hour=None)])
    assert [(offer.capacity_type, offer.price_usd_per_hour) for offer in made.offers] == [(CapacityType.RESERVED, 0)]


def test_the_demonstration_catalogue_is_nearly_all_believed() -> None:
    listings = demonstration()
    made = normalise(listings)
    assert len(listings) == 329
    assert len(made.offers) > 370
    assert len({offer.id for offer in made.offers}) == len(made.offers)
    doubts = {aside.doubt for aside in made.quarantined}
    assert doubts <= {Doubt.DUPLICATE, Doubt.PRICE_MISSING, Doubt.GPU_MEMORY_CONTRADICTS}
