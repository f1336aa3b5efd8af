"""From price lists to offers: what can be trusted is made uniform, what cannot is set aside with a reason.

Every rule here stands for a line that was seen in a real price list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from placet.domain.gpus import GpuModel, recognise
from placet.domain.listings import Corrected, Doubt, Listing, MemoryUnit, Quarantined
from placet.domain.offers import Availability, Gpu, Offer
from placet.domain.spec import CapacityType
from placet.domain.units import GB, GIB

# No GPU is rented for this much an hour; round sums above it stand for "not for sale".
PLACEHOLDER_USD_PER_GPU_HOUR = Decimal(100)
# A price this far below the median of its model is that of the host without its GPU.
TOO_LOW_SHARE = Decimal("0.10")
# Devices report a little less or more than their nominal memory.
MEMORY_TOLERANCE = Decimal("0.08")
SERVERLESS_STARTUP_S = Decimal(5)
MACHINE_STARTUP_S = Decimal(180)


@dataclass(frozen=True, kw_only=True)
class Normalised:
    """What came of a batch of listings; every price of every listing is in exactly one of the two."""

    offers: tuple[Offer, ...]
    quarantined: tuple[Quarantined, ...]
    corrected: tuple[Corrected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Priced:
    """One price of a listing whose hardware is settled."""

    listing: Listing
    gpu: Gpu | None
    capacity: CapacityType
    price: Decimal


def normalise(listings: Iterable[Listing]) -> Normalised:
    """Offers from listings. Prices are judged against those of the same model in the same batch."""
    quarantined: list[Quarantined] = []
    corrected: list[Corrected] = []
    priced: list[_Priced] = []
    for listing in listings:
        hardware = _hardware(listing)
        if isinstance(hardware, Quarantined):
            quarantined.append(hardware)
            continue
        gpu, correction = hardware
        if correction:
            corrected.append(Corrected(listing=listing, what=correction))
        for capacity, price in _prices(listing):
            doubt = _doubt(listing, gpu, capacity, price)
            if doubt is None and price is not None:
                priced.append(_Priced(listing=listing, gpu=gpu, capacity=capacity, price=price))
            elif doubt is not None:
                quarantined.append(_aside(listing, capacity, *doubt))
    believed = _without_cheap_hosts(priced, quarantined)
    offers = _distinct(believed, quarantined)
    return Normalised(offers=tuple(offers), quarantined=tuple(quarantined), corrected=tuple(corrected))


def _aside(listing: Listing, capacity: str, doubt: Doubt, why: str) -> Quarantined:
    return Quarantined(listing=listing, capacity=str(capacity), doubt=doubt, why=why)


def _hardware(listing: Listing) -> tuple[Gpu | None, str] | Quarantined:
    """The GPUs of a listing, ``None`` for none, with what had to be corrected."""
    if not listing.gpu_name:
        return None, ""
    if not listing.gpu_count:
        why = f"{listing.gpu_name} is named and no count is given: the host's price without its GPU"
        return _aside(listing, "", Doubt.HOST_WITHOUT_GPU, why)
    models = recognise(listing.gpu_name).models
    if not models:
        return _aside(listing, "", Doubt.GPU_UNKNOWN, f"{listing.gpu_name!r} is no GPU that is known here")
    if listing.gpu_memory is None:
        if len(models) > 1:
            names = " or ".join(model.name for model in models)
            return _aside(listing, "", Doubt.GPU_AMBIGUOUS, f"{listing.gpu_name!r} may be {names}")
        return _gpu(models[0], listing.gpu_count), ""
    return _with_memory(listing, models, listing.gpu_count, listing.gpu_memory)


def _with_memory(
    listing: Listing, models: Sequence[GpuModel], count: int, stated: Decimal
) -> tuple[Gpu | None, str] | Quarantined:
    """Settle which model it is, and whether the stated memory is of one device or of all, by what models have."""
    for reading, amount_gb in _readings(stated, listing.gpu_memory_unit):
        for model in models:
            if _close(amount_gb, model.memory_gb):
                return _gpu(model, count), reading
        for model in models:
            if count > 1 and _close(amount_gb / count, model.memory_gb):
                return _gpu(model, count), reading
    names = " or ".join(f"{model.name} ({model.memory_gb} GB)" for model in models)
    why = f"{stated} {listing.gpu_memory_unit} on {count} device(s) is not what {names} has"
    return _aside(listing, "", Doubt.GPU_MEMORY_CONTRADICTS, why)


def _readings(stated: Decimal, unit: MemoryUnit) -> tuple[tuple[str, Decimal], ...]:
    """What a number may mean, the likeliest first: 80 "MiB" are 80 GB, and 49,140 MiB are 51.5 GB."""
    if unit is MemoryUnit.GB:
        return (("", stated),)
    if stated < 1024:
        return (("the memory said MiB and was GB", stated),)
    return (("", stated * (GIB // 1024) / GB), ("", stated / 1024))


def _close(amount_gb: Decimal, nominal_gb: int) -> bool:
    return abs(amount_gb - nominal_gb) <= nominal_gb * MEMORY_TOLERANCE


def _gpu(model: GpuModel, count: int) -> Gpu:
    return Gpu(
        model=model.name,
        count=count,
        memory_bytes=model.memory_bytes,
        compute_capability=model.capability,
        features=model.features if count > 1 else tuple(name for name in model.features if name != "nvlink"),
    )


def _prices(listing: Listing) -> tuple[tuple[CapacityType, Decimal | None], ...]:
    """Every price that the listing speaks of; a missing spot price speaks of no spot."""
    if listing.private:
        return ((CapacityType.RESERVED, listing.price_usd_per_hour or Decimal(0)),)
    first = CapacityType.SERVERLESS if listing.serverless else CapacityType.ON_DEMAND
    always = (first, listing.price_usd_per_hour)
    return (always,) if listing.spot_usd_per_hour is None else (always, (CapacityType.SPOT, listing.spot_usd_per_hour))


def _doubt(
    listing: Listing, gpu: Gpu | None, capacity: CapacityType, price: Decimal | None
) -> tuple[Doubt, str] | None:
    if capacity is CapacityType.RESERVED:
        return None
    if price is None:
        return Doubt.PRICE_MISSING, "no price is listed"
    if price <= 0:
        return Doubt.PRICE_ZERO, f"{price} USD/h is not a price"
    per_gpu = price / (gpu.count if gpu else 1)
    if per_gpu >= PLACEHOLDER_USD_PER_GPU_HOUR:
        return Doubt.PRICE_PLACEHOLDER, f"{per_gpu:.2f} USD per GPU-hour stands for something else than a price"
    on_demand = listing.price_usd_per_hour
    if capacity is CapacityType.SPOT and on_demand is not None and on_demand > 0:
        if price == on_demand:
            return Doubt.SPOT_IS_ON_DEMAND, f"spot is listed at the on-demand price, {price} USD/h"
        if price > on_demand:
            return Doubt.SPOT_ABOVE_ON_DEMAND, f"spot {price} is above on-demand {on_demand} USD/h"
    return None


def _without_cheap_hosts(priced: Sequence[_Priced], quarantined: list[Quarantined]) -> list[_Priced]:
    """Set aside prices far below the median of their model and capacity: they leave the GPU out."""
    by_model: dict[tuple[str, CapacityType], list[Decimal]] = {}
    for one in priced:
        if one.gpu is not None:
            by_model.setdefault((one.gpu.model, one.capacity), []).append(one.price / one.gpu.count)
    middles = {key: median(values) for key, values in by_model.items() if len(values) >= 3}
    believed = []
    for one in priced:
        middle = middles.get((one.gpu.model, one.capacity)) if one.gpu is not None else None
        per_gpu = one.price / one.gpu.count if one.gpu is not None else one.price
        if middle is not None and one.capacity is not CapacityType.RESERVED and per_gpu < middle * TOO_LOW_SHARE:
            why = f"{per_gpu:.3f} USD per GPU-hour is under a tenth of the usual {middle:.2f}"
            quarantined.append(_aside(one.listing, one.capacity, Doubt.PRICE_TOO_LOW, why))
        else:
            believed.append(one)
    return believed


def _distinct(priced: Sequence[_Priced], quarantined: list[Quarantined]) -> list[Offer]:
    """One offer per identity; of several, the dearest is believed, so that nobody is surprised by the bill."""
    chosen: dict[str, tuple[_Priced, Offer]] = {}
    for one in priced:
        offer = _offer(one)
        known = chosen.get(offer.id)
        if known is None:
            chosen[offer.id] = one, offer
            continue
        dearer, other = (one, known[0]) if one.price > known[0].price else (known[0], one)
        chosen[offer.id] = dearer, _offer(dearer)
        why = f"{offer.id} is listed at {dearer.price} and at {other.price} USD/h; the dearer one is believed"
        quarantined.append(_aside(other.listing, other.capacity, Doubt.DUPLICATE, why))
    return [offer for _, offer in chosen.values()]


def _offer(one: _Priced) -> Offer:
    listing, gpu = one.listing, one.gpu
    host = f"{listing.vcpus or 0}c-{listing.memory_gb or 0}g"
    hardware = f"{gpu.count}x{gpu.model}-{host}" if gpu is not None else host
    parts = (listing.provider, listing.machine or hardware, listing.region, one.capacity)
    return Offer(
        id="/".join(str(part).replace(" ", "-").replace("/", "-").lower() for part in parts if part),
        provider=listing.provider,
        region=listing.region,
        jurisdiction=listing.jurisdiction,
        compliance=listing.compliance,
        runtimes=listing.runtimes,
        capacity_type=one.capacity,
        cpu_cores=listing.vcpus or Decimal(0),
        memory_bytes=int((listing.memory_gb or Decimal(0)) * GB),
        gpu=gpu,
        price_usd_per_hour=one.price,
        startup_s=SERVERLESS_STARTUP_S if listing.serverless else MACHINE_STARTUP_S,
        availability=Availability.UNKNOWN,
        observed_ms=listing.observed_ms,
        preemptible=one.capacity is CapacityType.SPOT,
    )
