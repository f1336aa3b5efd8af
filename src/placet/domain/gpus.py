"""GPU models by one canonical name each, with the facts that a listing may leave out or get wrong."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from placet.domain.units import GB


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """One model. ``memory_gb`` is the nominal memory of one device; ``capability`` is NVIDIA's compute capability."""

    name: str
    memory_gb: int
    architecture: str
    capability: str | None = None
    features: tuple[str, ...] = ()
    vendor: str = "nvidia"

    @property
    def memory_bytes(self) -> int:
        return self.memory_gb * GB


_FEATURES: Mapping[str, tuple[str, ...]] = {
    "kepler": (),
    "pascal": (),
    "volta": ("fp16",),
    "turing": ("fp16", "int8"),
    "ampere": ("fp16", "int8", "bf16", "tf32"),
    "ada": ("fp16", "int8", "bf16", "tf32", "fp8"),
    "hopper": ("fp16", "int8", "bf16", "tf32", "fp8"),
    "blackwell": ("fp16", "int8", "bf16", "tf32", "fp8", "fp4"),
    "cdna": ("fp16", "int8", "bf16"),
    "cdna2": ("fp16", "int8", "bf16"),
    "cdna3": ("fp16", "int8", "bf16", "fp8"),
    "cdna4": ("fp16", "int8", "bf16", "fp8", "fp4"),
}


def _models(rows: str) -> tuple[GpuModel, ...]:
    """One model a line: name, memory in GB, architecture, compute capability, ``nvlink`` where its boards have it."""
    made = []
    for line in rows.strip().splitlines():
        name, memory, architecture, capability, *more = line.split()
        made.append(
            GpuModel(
                name=name,
                memory_gb=int(memory),
                architecture=architecture,
                capability=None if capability == "-" else capability,
                features=(*_FEATURES[architecture], *more),
                vendor="amd" if architecture.startswith("cdna") else "nvidia",
            )
        )
    return tuple(made)


MODELS = _models("""
K80 12 kepler 3.7
P4 8 pascal 6.1
P100 16 pascal 6.0
V100-16GB 16 volta 7.0
V100-32GB 32 volta 7.0 nvlink
T4 16 turing 7.5
T4G 16 turing 7.5
RTX4000 8 turing 7.5
RTX5000 16 turing 7.5
RTX6000 24 turing 7.5
RTX2060-6GB 6 turing 7.5
RTX2060-12GB 12 turing 7.5
RTX2060SUPER 8 turing 7.5
RTX2070 8 turing 7.5
RTX2070SUPER 8 turing 7.5
RTX2080 8 turing 7.5
RTX2080SUPER 8 turing 7.5
RTX2080Ti 11 turing 7.5
A2 16 ampere 8.6
A10 24 ampere 8.6
A10G 24 ampere 8.6
A16 16 ampere 8.6
A30 24 ampere 8.0
A40 48 ampere 8.6
A4000 16 ampere 8.6
A4500 20 ampere 8.6
A5000 24 ampere 8.6
A6000 48 ampere 8.6
RTX3050-6GB 6 ampere 8.6
RTX3050-8GB 8 ampere 8.6
RTX3060-8GB 8 ampere 8.6
RTX3060-12GB 12 ampere 8.6
RTX3060Ti 8 ampere 8.6
RTX3070 8 ampere 8.6
RTX3070Ti 8 ampere 8.6
RTX3080-10GB 10 ampere 8.6
RTX3080-12GB 12 ampere 8.6
RTX3080Ti 12 ampere 8.6
RTX3090 24 ampere 8.6
RTX3090Ti 24 ampere 8.6
A100-40GB 40 ampere 8.0 nvlink
A100-80GB 80 ampere 8.0 nvlink
L4 24 ada 8.9
L40 48 ada 8.9
L40S 48 ada 8.9
RTX2000Ada 16 ada 8.9
RTX4000Ada 20 ada 8.9
RTX5000Ada 32 ada 8.9
RTX4060 8 ada 8.9
RTX4060Ti-8GB 8 ada 8.9
RTX4060Ti-16GB 16 ada 8.9
RTX4070 12 ada 8.9
RTX4070SUPER 12 ada 8.9
RTX4070Ti 12 ada 8.9
RTX4070TiSUPER 16 ada 8.9
RTX4080 16 ada 8.9
RTX4080SUPER 16 ada 8.9
RTX4090 24 ada 8.9
RTX6000Ada 48 ada 8.9
H100-80GB 80 hopper 9.0 nvlink
H100-NVL 94 hopper 9.0 nvlink
GH200 96 hopper 9.0
H200 141 hopper 9.0 nvlink
H200-NVL 141 hopper 9.0 nvlink
RTX5060 8 blackwell 12.0
RTX5060Ti-8GB 8 blackwell 12.0
RTX5060Ti-16GB 16 blackwell 12.0
RTX5070 12 blackwell 12.0
RTX5070Ti 16 blackwell 12.0
RTX5080 16 blackwell 12.0
RTX5090 32 blackwell 12.0
RTXPRO4500 32 blackwell 12.0
RTXPRO6000 96 blackwell 12.0
B200 180 blackwell 10.0 nvlink
B300 270 blackwell 10.3 nvlink
GB200 186 blackwell 10.0 nvlink
GB300 270 blackwell 10.3 nvlink
MI100 32 cdna -
MI210 64 cdna2 -
MI250 128 cdna2 -
MI250X 128 cdna2 -
MI300A 128 cdna3 -
MI300X 192 cdna3 -
MI325X 256 cdna3 -
MI350X 288 cdna4 -
MI355X 288 cdna4 -
""")
BY_NAME: Mapping[str, GpuModel] = {model.name.lower(): model for model in MODELS}

# Words that listings put around a model's name and that say nothing.
_NOISE = re.compile(
    r"\b(nvidia|amd|tesla|geforce|quadro|instinct|tensor core|generation|gpu|sxm[0-9]*|pcie|hgx|hbm[0-9]e?)\b"
)
_MEMORY = re.compile(r"\(?\b([0-9]{1,3})\s*g(?:i?b)\b\)?")


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """What a listed name may mean: one model, or several that only its memory can tell apart."""

    models: tuple[GpuModel, ...]


@lru_cache(maxsize=1024)
def recognise(listed: str) -> Recognised:
    """The models a listed name may stand for; none when the name is not known.

    ``A100 (80 GB)``, ``NVIDIA A100-SXM4-80GB``, ``a100-80gb`` are one model; ``A100`` may be two.
    """
    text = re.sub(r"[-_/]+", " ", listed.lower())
    memory = _MEMORY.search(text)
    text = _MEMORY.sub(" ", text)
    name = re.sub(r"^rtxa(?=[0-9])", "a", re.sub(r"\s+", "", _NOISE.sub(" ", text)))
    name = re.sub(r"^(?=[2-5]0[5-9]0)", "rtx", name)
    found = [model for model in MODELS if _stem(model) == name or model.name.lower().replace("-", "") == name]
    if memory is not None:
        stated = int(memory[1])
        found = [model for model in found if model.memory_gb == stated] or found
    return Recognised(models=tuple(found))


def _stem(model: GpuModel) -> str:
    """The name without the memory that tells its variants apart."""
    return re.sub(r"-[0-9]+gb$", "", model.name.lower()).replace("-", "")
