"""From price lists to offers: what can be trusted is made uniform, what cannot is set aside with a reason.

Every rule here stands for a line that was seen in a real price list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from statistics import median
from typing import TypeAlias

from placet.domain.gpus import GpuModel, recognise
from placet.domain.listings import Corrected, Doubt, Listing, MemoryUnit, Quarantined
from placet.domain.offers import Availability, Gpu, Offer
from placet.domain.spec import CapacityType
from placet.domain.units import GB, GIB

# The dearest GPU-hour in the price lists seen was 10 USD; what is four times that stands for "not for sale".
PLACEHOLDER_USD_PER_GPU_HOUR = Decimal(40)
# The same for machines without GPU: of large ones, a core costs well under a dollar.
PLACEHOLDER_USD_PER_CORE_HOUR = Decimal(2)
# A price this far below the median of its model is that of the host without its GPU, this far above it a placeholder.
TOO_LOW_SHARE = Decimal("0.10")
TOO_HIGH_TIMES = Decimal(8)
# So many prices of a model make a median.
MEDIAN_OF_LEAST = 3
# Devices report a little less or more than their nominal memory.
MEMORY_TOLERANCE = Decimal("0.08")
SERVERLESS_STARTUP_S = Decimal(5)
MACHINE_STARTUP_S = Decimal(180)
MICRO, MILLI = Decimal("0.000001"), Decimal("0.001")
TEXT_MAX = 200
# What no listing of a real machine exceeds; beyond it a number is a mistake, and would not fit its column.
MOST = {
    "gpu_count": 1024, "gpu_memory": 10**9, "vcpus": 10**5, "memory_gb": 10**6, "disk_gb": 10**6,
    "price_usd_per_hour": 10**6, "spot_usd_per_hour": 10**6, "minimum_charge_usd": 10**6,
    "billing_quantum_s": 31 * 86_400, "startup_s": 86_400, "startup_p90_s": 86_400,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Normalised:
    """What came of a batch of listings; every price of every listing is in exactly one of the first two."""

    offers: tuple[Offer, ...]
    quarantined: tuple[Quarantined, ...]
    corrected: tuple[Corrected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What the GPU columns of a listing may mean; ``of_all`` is how a memory of several devices was counted."""

    gpu: Gpu | None
    of_all: bool | None = None
    correction: str = ""


@dataclass(frozen=True, kw_only=True)
class _Priced:
    """One price of a listing whose hardware is settled."""

    listing: Listing
    gpu: Gpu | None
    capacity: CapacityType
    price: Decimal

    @property
    def per_gpu(self) -> Decimal:
        return self.price / (self.gpu.count if self.gpu else 1)


_Doubted: TypeAlias = tuple[Doubt, str]


def normalise(listings: Iterable[Listing]) -> Normalised:
    """Offers from listings. Prices are judged against those of the same model in the same batch."""
    quarantined: list[Quarantined] = []
    corrected: list[Corrected] = []
    priced: list[_Priced] = []
    read = [(listing, _readings_of(listing)) for listing in listings]
    habits = _habits(read)
    for listing, readings in read:
        reading = _settled(listing, readings, habits)
        if not isinstance(reading, _Reading):
            quarantined.append(_aside(listing, "", *reading))
            continue
        if reading.correction:
            corrected.append(Corrected(listing=listing, what=reading.correction))
        for capacity, price in _prices(listing):
            doubt = _doubt(listing, reading.gpu, capacity, price)
            if doubt is None and price is not None:
                priced.append(_Priced(listing=listing, gpu=reading.gpu, capacity=capacity, price=price))
            elif doubt is not None:
                quarantined.append(_aside(listing, capacity, *doubt))
    believed = _without_outliers(_without_bare_hosts(priced, quarantined), quarantined)
    offers = _distinct(believed, quarantined)
    return Normalised(offers=tuple(offers), quarantined=tuple(quarantined), corrected=tuple(corrected))


def _aside(listing: Listing, capacity: str, doubt: Doubt, why: str) -> Quarantined:
    return Quarantined(listing=listing, capacity=str(capacity), doubt=doubt, why=why)


def _readings_of(listing: Listing) -> tuple[_Reading, ...] | _Doubted:
    """What the listing may mean; two readings when its memory may be of one device or of all."""
    broken = listing.unreadable or _out_of_bounds(listing)
    if broken:
        return Doubt.UNREADABLE, broken
    if listing.currency.upper() != "USD":
        return Doubt.CURRENCY, f"priced in {listing.currency}, and no exchange rate is known here"
    if not listing.gpu_name:
        return (_Reading(gpu=None),)
    if not listing.gpu_count:
        return Doubt.HOST_WITHOUT_GPU, f"{listing.gpu_name} is named and no count is given: a host without its GPU"
    models = recognise(listing.gpu_name).models
    if not models:
        return Doubt.GPU_UNKNOWN, f"{listing.gpu_name!r} is no GPU that is known here"
    if listing.gpu_memory is None:
        if len(models) > 1:
            names = " or ".join(model.name for model in models)
            return Doubt.GPU_AMBIGUOUS, f"{listing.gpu_name!r} may be {names}, and no memory is given"
        return (_Reading(gpu=_gpu(listing, models[0])),)
    return _with_memory(listing, models, listing.gpu_count, listing.gpu_memory)


def _out_of_bounds(listing: Listing) -> str:
    for name, most in MOST.items():
        value = getattr(listing, name)
        if value is not None and not (Decimal(value).is_finite() and 0 <= value <= most):
            return f"{name} is {value}, which no machine has"
    for text in (listing.provider, listing.machine, listing.region, listing.jurisdiction, listing.gpu_name or ""):
        if len(text) > TEXT_MAX or not text.isprintable():
            return "a text is too long or holds control characters"
    return "" if listing.provider else "no provider is named"


def _with_memory(
    listing: Listing, models: Sequence[GpuModel], count: int, stated: Decimal
) -> tuple[_Reading, ...] | _Doubted:
    """Settle which model it is, and whether the stated memory is of one device or of all, by what models have."""
    for correction, amount_gb in _amounts(stated, listing.gpu_memory_unit):
        each = next((model for model in models if _close(amount_gb, model.memory_gb)), None)
        whole = next((model for model in models if count > 1 and _close(amount_gb / count, model.memory_gb)), None)
        found = []
        if each is not None:
            of_all = False if count > 1 else None
            found.append(_Reading(gpu=_gpu(listing, each), of_all=of_all, correction=correction))
        if whole is not None:
            summed = f"the memory was that of all {count} devices"
            told = f"{correction}, and {summed}" if correction else summed
            found.append(_Reading(gpu=_gpu(listing, whole), of_all=True, correction=told))
        if found:
            return tuple(found)
    names = " or ".join(f"{model.name} ({model.memory_gb} GB)" for model in models)
    return (
        Doubt.GPU_MEMORY_CONTRADICTS,
        f"{stated} {listing.gpu_memory_unit} on {count} device(s) is not what {names} has",
    )


def _amounts(stated: Decimal, unit: MemoryUnit) -> tuple[tuple[str, Decimal], ...]:
    """What a number may mean, the likeliest first: 80 "MiB" are 80 GB, and 49,140 MiB are 51.5 GB."""
    if unit is MemoryUnit.GB:
        return (("", stated),)
    if stated < 1024:
        return (("the memory said MiB and was GB", stated),)
    return (("", stated * (GIB // 1024) / GB), ("", stated / 1024))


def _close(amount_gb: Decimal, nominal_gb: int) -> bool:
    return abs(amount_gb - nominal_gb) <= nominal_gb * MEMORY_TOLERANCE


def _habits(read: Sequence[tuple[Listing, tuple[_Reading, ...] | _Doubted]]) -> dict[tuple[str, str], set[bool]]:
    """How each provider of each source counts memory, by those of its listings that can be read in one way only."""
    habits: dict[tuple[str, str], set[bool]] = {}
    for listing, readings in read:
        if len(readings) == 1 and readings[0].of_all is not None:
            habits.setdefault((listing.source, listing.provider), set()).add(readings[0].of_all)
    return habits


def _settled(
    listing: Listing, readings: tuple[_Reading, ...] | _Doubted, habits: dict[tuple[str, str], set[bool]]
) -> _Reading | _Doubted:
    found = [one for one in readings if isinstance(one, _Reading)]
    if len(found) == 1:
        return found[0]
    if not found:
        assert isinstance(readings[0], Doubt)
        assert isinstance(readings[1], str)
        return readings[0], readings[1]
    habit = habits.get((listing.source, listing.provider), set())
    if len(habit) == 1:
        return next(one for one in found if one.of_all in habit)
    names = " or ".join(one.gpu.model for one in found if one.gpu is not None)
    return Doubt.GPU_AMBIGUOUS, f"{listing.gpu_memory} may be of each device or of all {listing.gpu_count}: {names}"


def _gpu(listing: Listing, model: GpuModel) -> Gpu:
    count = listing.gpu_count or 0
    several = count > 1
    linked = "nvlink" if several and "nvlink" in model.features else ""
    joined = listing.interconnect or linked
    return Gpu(
        model=model.name,
        count=count,
        memory_bytes=model.memory_bytes,
        architecture=model.architecture,
        interconnect=joined if several else "",
        compute_capability=model.capability,
        features=(*(name for name in model.features if name != "nvlink"), *((joined,) if several and joined else ())),
    )


def _prices(listing: Listing) -> tuple[tuple[CapacityType, Decimal | None], ...]:
    """Every price that the listing speaks of; a missing spot price speaks of no spot."""
    if listing.private:
        return ((CapacityType.RESERVED, listing.price_usd_per_hour or Decimal(0)),)
    first = CapacityType.SERVERLESS if listing.serverless else CapacityType.ON_DEMAND
    always = () if listing.spot_only else ((first, listing.price_usd_per_hour),)
    spot = () if listing.spot_usd_per_hour is None else ((CapacityType.SPOT, listing.spot_usd_per_hour),)
    return (*always, *spot)


def _doubt(listing: Listing, gpu: Gpu | None, capacity: CapacityType, price: Decimal | None) -> _Doubted | None:
    if capacity is CapacityType.RESERVED:
        return None
    if price is None:
        return Doubt.PRICE_MISSING, "no price is listed"
    if price <= 0:
        return Doubt.PRICE_ZERO, f"{price} USD/h is not a price"
    if gpu is not None and price / gpu.count >= PLACEHOLDER_USD_PER_GPU_HOUR:
        return Doubt.PRICE_PLACEHOLDER, f"{price / gpu.count:.2f} USD per GPU-hour stands for something else"
    if gpu is None and price / max(listing.vcpus or Decimal(1), Decimal(1)) >= PLACEHOLDER_USD_PER_CORE_HOUR:
        return Doubt.PRICE_PLACEHOLDER, f"{price} USD/h for {listing.vcpus or 0} cores stands for something else"
    on_demand = listing.price_usd_per_hour
    if capacity is CapacityType.SPOT and on_demand is not None and on_demand > 0:
        if price == on_demand:
            return Doubt.SPOT_IS_ON_DEMAND, f"spot is listed at the on-demand price, {price} USD/h"
        if price > on_demand:
            return Doubt.SPOT_ABOVE_ON_DEMAND, f"spot {price} is above on-demand {on_demand} USD/h"
    return None


def _without_bare_hosts(priced: Sequence[_Priced], quarantined: list[Quarantined]) -> list[_Priced]:
    """Set aside prices with a GPU that are exactly those of the same host without one."""
    hosts = {_host(one) for one in priced if one.gpu is None}
    believed = []
    for one in priced:
        if one.gpu is not None and one.capacity is not CapacityType.RESERVED and _host(one) in hosts:
            why = f"{one.price} USD/h is what the same host costs without {one.gpu.model}"
            quarantined.append(_aside(one.listing, one.capacity, Doubt.HOST_WITHOUT_GPU, why))
        else:
            believed.append(one)
    return believed


def _host(one: _Priced) -> tuple[object, ...]:
    listing = one.listing
    shape = (listing.vcpus, listing.memory_gb)
    return (listing.provider, listing.region, one.capacity, one.price, shape if any(shape) else listing.machine)


def _without_outliers(priced: Sequence[_Priced], quarantined: list[Quarantined]) -> list[_Priced]:
    """Set aside prices far from the median of their model and capacity: they leave the GPU out, or are no prices."""
    by_model: dict[tuple[str, CapacityType], list[Decimal]] = {}
    for one in priced:
        if one.gpu is not None:
            by_model.setdefault((one.gpu.model, one.capacity), []).append(one.per_gpu)
    middles = {key: median(values) for key, values in by_model.items() if len(values) >= MEDIAN_OF_LEAST}
    believed = []
    for one in priced:
        doubt = _outlying(one, middles.get((one.gpu.model, one.capacity)) if one.gpu is not None else None)
        if doubt is None:
            believed.append(one)
        else:
            quarantined.append(_aside(one.listing, one.capacity, *doubt))
    return believed


def _outlying(one: _Priced, middle: Decimal | None) -> _Doubted | None:
    if middle is None or one.capacity is CapacityType.RESERVED:
        return None
    told = f"{one.per_gpu:.3f} USD per GPU-hour is"
    if one.per_gpu < middle * TOO_LOW_SHARE:
        return Doubt.PRICE_TOO_LOW, f"{told} under a tenth of the usual {middle:.2f}"
    if one.per_gpu > middle * TOO_HIGH_TIMES:
        return Doubt.PRICE_PLACEHOLDER, f"{told} over eight times the usual {middle:.2f}"
    return None


def _distinct(priced: Sequence[_Priced], quarantined: list[Quarantined]) -> list[Offer]:
    """One offer per identity; of several, the dearest is believed, so that nobody is surprised by the bill."""
    chosen: dict[str, _Priced] = {}
    for one in priced:
        offer_id = _id(one)
        known = chosen.get(offer_id)
        if known is None:
            chosen[offer_id] = one
            continue
        dearer, other = (one, known) if one.price > known.price else (known, one)
        chosen[offer_id] = dearer
        why = f"{offer_id} is listed at {dearer.price} and at {other.price} USD/h; the dearer one is believed"
        quarantined.append(_aside(other.listing, other.capacity, Doubt.DUPLICATE, why))
    return [_offer(offer_id, one) for offer_id, one in chosen.items()]


def _id(one: _Priced) -> str:
    """One machine may be had with one GPU or another, so both are in the name."""
    listing, gpu = one.listing, one.gpu
    host = f"{listing.vcpus or 0}c-{listing.memory_gb or 0}g"
    devices = "" if gpu is None else f"{gpu.count}x{gpu.model}"
    parts = (listing.provider, listing.machine or host, devices, listing.region, one.capacity)
    return "/".join(str(part).replace(" ", "-").replace("/", "-").lower() for part in parts if part)


def _offer(offer_id: str, one: _Priced) -> Offer:
    listing = one.listing
    usual_startup_s = SERVERLESS_STARTUP_S if listing.serverless else MACHINE_STARTUP_S
    return Offer(
        id=offer_id,
        provider=listing.provider,
        region=listing.region,
        jurisdiction=listing.jurisdiction,
        compliance=listing.compliance,
        runtimes=listing.runtimes,
        capacity_type=one.capacity,
        cpu_cores=_no_finer(listing.vcpus or Decimal(0), MILLI),
        memory_bytes=int((listing.memory_gb or Decimal(0)) * GB),
        disk_bytes=None if listing.disk_gb is None else int(listing.disk_gb * GB),
        gpu=one.gpu,
        price_usd_per_hour=_no_finer(one.price, MICRO),
        minimum_charge_usd=_no_finer(listing.minimum_charge_usd or Decimal(0), MICRO),
        billing_quantum_s=listing.billing_quantum_s or 1,
        startup_s=usual_startup_s if listing.startup_s is None else _no_finer(listing.startup_s, MILLI),
        startup_p90_s=None if listing.startup_p90_s is None else _no_finer(listing.startup_p90_s, MILLI),
        availability=listing.availability,
        observed_ms=listing.observed_ms,
        preemptible=one.capacity is CapacityType.SPOT,
        connected=False,
        trust=listing.trust,
        price_source=listing.source,
        priced_ms=listing.observed_ms,
        availability_ms=0 if listing.availability is Availability.UNKNOWN else listing.observed_ms,
    )


def _no_finer(amount: Decimal, step: Decimal) -> Decimal:
    """The amount, rounded up where it is finer than a step: some lists hold binary fractions."""
    rounded = amount.quantize(step, ROUND_UP)
    return amount if amount == rounded else rounded
