"""Offers, the demand they are measured against, and the plan that ranks them."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from placet.domain.spec import CapacityType


class Availability(StrEnum):
    """What the source said of free capacity; ``UNKNOWN`` is not ``NONE``."""

    FREE = "free"
    FULL = "full"
    UNKNOWN = "unknown"


class Trust(StrEnum):
    """Whose machine it is; ``UNKNOWN`` is what a list that does not say is taken for."""

    OWN = "own"
    COMPANY = "company"
    COMMUNITY = "community"
    UNKNOWN = "unknown"


class Fate(StrEnum):
    """A filter's answer: only ``NOT_NOW`` may be waited for."""

    FITS = "fits"
    NOT_NOW = "not_now"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The devices of one offer; ``memory_bytes`` is that of one device, ``interconnect`` what joins them."""

    model: str
    count: int
    memory_bytes: int
    architecture: str = ""
    interconnect: str = ""
    compute_capability: str | None = None
    features: tuple[str, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None


@dataclass(frozen=True, kw_only=True)
class Free:
    """What is free of an offer at this moment; ``None`` means not known."""

    slots: int | None = None
    cpu_cores: Decimal | None = None
    memory_bytes: int | None = None
    gpus: int | None = None


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One concrete way to run a workload, with its price and the age of what is known about it.

    ``connected`` says that an adapter offers it, so that it can be dispatched to; what a price list names besides is
    for comparison. ``startup_s`` is the median, ``startup_p90_s`` the ninth decile where it is known. ``price_source``
    is empty for what the provider itself says. ``priced_ms`` and ``availability_ms`` are when the price and the
    availability were true; 0 is ``observed_ms``, when the offer was last seen. ``simulated``: nothing of it is real.
    ``by_name_only``: it is there only for workloads whose spec allows its provider by name.
    """

    id: str
    provider: str
    region: str = ""
    jurisdiction: str = ""
    compliance: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    cpu_cores: Decimal = Decimal(0)
    memory_bytes: int = 0
    disk_bytes: int | None = None
    gpu: Gpu | None = None
    nodes_max: int = 1
    price_usd_per_hour: Decimal = Decimal(0)
    minimum_charge_usd: Decimal = Decimal(0)
    billing_quantum_s: int = 1
    startup_s: Decimal = Decimal(0)
    startup_p90_s: Decimal | None = None
    reliability: float | None = None
    availability: Availability = Availability.UNKNOWN
    free: Free = field(default_factory=Free)
    observed_ms: int = 0
    preemptible: bool = False
    may_rerun: bool = False
    connected: bool = True
    trust: Trust = Trust.UNKNOWN
    price_source: str = ""
    priced_ms: int = 0
    availability_ms: int = 0
    simulated: bool = False
    by_name_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A quantity we can only bracket; ``likely`` lies between the bounds."""

    low: Decimal
    likely: Decimal
    high: Decimal
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What sizing derived from the spec: the strict needs an offer must meet, and estimates with their reasons.

    ``raised`` says why more memory is asked for than was declared, if it is. ``kind`` is what equal workloads share.
    ``runtime_s`` are bounds, with the declared limit as the upper one; ``usual_s`` the first
    decile, median and ninth decile of what equal workloads took, where there were any. ``disk`` is what the spec is
    known or assumed to take, in bytes; ``disk_bytes`` is what it states, else the likely part of that.
    """

    gpu_count: int = 0
    gpu_memory_bytes: int | None = None
    cpu_cores: Decimal | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    nodes: int = 1
    runtime_s: Interval | None = None
    reasons: tuple[str, ...] = ()
    kind: str = ""
    raised: str = ""
    usual_s: Interval | None = None
    disk: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One filter's answer about one offer; ``field`` is the bound of the spec that it checks."""

    fate: Fate
    filter: str
    field: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is believed of one offer: the chance that an attempt starts, the time until it does, as median and ninth
    decile, and how often a machine is taken away."""

    start_share: float
    startup_s: float
    startup_p90_s: float
    losses_per_hour: float


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """An offer that fits, with the parts of its score kept apart so that the choice can be explained.

    ``outlook`` is told of the best one, which is the one that is taken.
    """

    offer: Offer
    cost_usd: Interval
    score: Decimal
    parts: tuple[tuple[str, str], ...] = ()
    outlook: Outlook | None = None


@dataclass(frozen=True, kw_only=True)
class Drop:
    """An offer that does not fit and the first reason why."""

    offer_id: str
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Ranked offers, and how many were dropped by which filter; ``fate`` is the best answer that any offer got.

    ``drops`` are some of the dropped offers with their reasons, the counts are of all.
    """

    ranked: tuple[Ranked, ...]
    drops: tuple[Drop, ...]
    drop_counts: tuple[tuple[str, int], ...]
    fate: Fate
    reason: str
    relaxed: tuple[str, ...] = ()
