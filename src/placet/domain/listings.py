"""What sources of offers say, before anybody believes it; and what was not believed, with the reason."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from placet.domain.offers import Availability, Trust


class MemoryUnit(StrEnum):
    """What a source claims to count memory in; claims are checked."""

    GB = "gb"
    MIB = "mib"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One line of a price list as it stands there. ``None`` means that the line does not say.

    ``line`` counts from 1, in ``part`` of the source where it has several.
    ``spot_only`` is a line that speaks of spot alone, so that it lacks no other price. ``unreadable`` says why a line
    could not be read; the rest of it is then whatever could be. ``observed_ms`` is when the line was true.
    """

    source: str
    provider: str
    machine: str
    region: str = ""
    jurisdiction: str = ""
    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory: Decimal | None = None
    gpu_memory_unit: MemoryUnit = MemoryUnit.GB
    interconnect: str = ""
    vcpus: Decimal | None = None
    memory_gb: Decimal | None = None
    disk_gb: Decimal | None = None
    currency: str = "USD"
    price_usd_per_hour: Decimal | None = None
    spot_usd_per_hour: Decimal | None = None
    minimum_charge_usd: Decimal | None = None
    billing_quantum_s: int | None = None
    serverless: bool = False
    private: bool = False
    spot_only: bool = False
    startup_s: Decimal | None = None
    startup_p90_s: Decimal | None = None
    availability: Availability = Availability.UNKNOWN
    trust: Trust = Trust.UNKNOWN
    runtimes: tuple[str, ...] = ("container",)
    compliance: tuple[str, ...] = ()
    observed_ms: int = 0
    line: int = 0
    part: str = ""
    unreadable: str = ""


class Doubt(StrEnum):
    """Why a listed price is not offered."""

    UNREADABLE = "unreadable"
    CURRENCY = "currency"
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
