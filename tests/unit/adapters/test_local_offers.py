"""What this machine offers of its GPUs: what their model is known for, and nothing that nobody has seen."""

from pathlib import Path

import pytest

from placet.adapters.providers.local.offers import make_offers
from placet.adapters.providers.local.options import Device, LocalOptions
from placet.domain.offers import Gpu, Trust

CAPACITY = {"gpus_free": [0], "cpu_cores": "8", "memory_bytes": 10**10, "slots_free": 1, "cpu_cores_free": "8",
            "memory_bytes_free": 10**10}  # fmt: skip


def gpu_of(*devices: Device) -> Gpu:
    options = LocalOptions(name="local", folder=Path("/nowhere"), region="here")
    offers = make_offers(options, devices, CAPACITY, region="here", disk_bytes=None, observed_ms=1, live=True)
    assert all(offer.connected and offer.trust is Trust.OWN for offer in offers)
    [gpu] = [offer.gpu for offer in offers if offer.gpu is not None]
    return gpu


@pytest.mark.parametrize(
    ("model", "memory_bytes", "architecture", "feature"),
    [
        ("NVIDIA H100 80GB HBM3", 85_520_809_984, "hopper", "fp8"),
        ("NVIDIA A100-SXM4-40GB", 42_410_770_432, "ampere", "bf16"),
        ("NVIDIA RTX 6000 Ada Generation", 51_527_024_640, "ada", "fp8"),
        ("Tesla T4", 16_106_127_360, "turing", "fp16"),
    ],
)
def test_a_known_model_has_its_features(model: str, memory_bytes: int, architecture: str, feature: str) -> None:
    gpu = gpu_of(Device(index=0, id="GPU-0", model=model, memory_bytes=memory_bytes))
    assert (gpu.model, gpu.architecture) == (model, architecture)
    assert feature in gpu.features
    assert "nvlink" not in gpu.features
    assert gpu.compute_capability


@pytest.mark.parametrize(("model", "memory_bytes"), [("Acme 9000", 10**10), ("NVIDIA A100", 20_000_000_000)])
def test_nothing_is_claimed_of_what_is_not_known(model: str, memory_bytes: int) -> None:
    gpu = gpu_of(Device(index=0, id="GPU-0", model=model, memory_bytes=memory_bytes))
    assert (gpu.architecture, gpu.features, gpu.compute_capability) == ("", (), None)
