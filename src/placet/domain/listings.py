"""What sources of offers say, before anybody believes it; and what was not believed, with the reason."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum


class MemoryUnit(StrEnum):
    """What a source claims to count memory in; claims are checked."""

    GB = "gb"
    MIB = "mib"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One line of a price list as it stands there. ``None`` means that the line does not say."""

    source: str
    provider: str
    machine: str
    region: str = ""
    jurisdiction: str = ""
    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory: Decimal | None = None
    gpu_memory_unit: MemoryUnit = MemoryUnit.GB
    vcpus: Decimal | None = None
    memory_gb: Decimal | None = None
    price_usd_per_hour: Decimal | None = None
    spot_usd_per_hour: Decimal | None = None
    serverless: bool = False
    private: bool = False
    runtimes: tuple[str, ...] = ("container",)
    compliance: tuple[str, ...] = ()
    observed_ms: int = 0
    line: int = 0


class Doubt(StrEnum):
    """Why a listed price is not offered."""

    PRICE_MISSING = "price_missing"
    PRICE_ZERO = "price_zero"
    PRICE_PLACEHOLDER = "price_placeholder"
    PRICE_TOO_LOW = "price_too_low"
    SPOT_IS_ON_DEMAND = "spot_is_on_demand"
    SPOT_ABOVE_ON_DEMAND = "spot_above_on_demand"
    GPU_UNKNOWN = "gpu_unknown"
    GPU_AMBIGUOUS = "gpu_ambiguous"
    GPU_MEMORY_CONTRADICTS = "gpu_memory_contradicts"
    HOST_WITHOUT_GPU = "host_without_gpu"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A listing, or one of its prices, that was set aside."""

    listing: Listing
    capacity: str
    doubt: Doubt
    why: str


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A listing that was believed after a correction, and what was corrected."""

    listing: Listing
    what: str = field(default="")
