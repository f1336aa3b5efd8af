"""The offers of one machine: one for its processors, one for each model of GPU. Pure: the facts are passed in."""

import re
from collections import defaultdict
from decimal import Decimal
from typing import Any

from placet.adapters.providers.local.options import Device, LocalOptions
from placet.domain.gpus import GpuModel, recognise
from placet.domain.offers import Availability, Free, Gpu, Offer, Trust
from placet.domain.spec import CapacityType

RUNTIMES = ("process", "python")
# What a board can have is not what joins the boards of this machine.
BETWEEN_GPUS = frozenset({"nvlink", "nvswitch"})


def make_offers(
    options: LocalOptions,
    devices: tuple[Device, ...],
    capacity: dict[str, Any],
    *,
    region: str,
    disk_bytes: int | None,
    observed_ms: int,
    live: bool,
) -> tuple[Offer, ...]:
    """What can be run here; without a live supervisor the free share is not known."""
    free_gpus = set(capacity["gpus_free"])
    groups: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        groups[device.model].append(device)
    shapes: list[tuple[str, Gpu | None, int | None]] = [("cpu", None, None)]
    for model, members in sorted(groups.items()):
        shapes.append((_slug(model), _gpu(model, members), sum(member.index in free_gpus for member in members)))
    return tuple(
        Offer(
            id=f"{options.name}-{shape}",
            provider=options.name,
            region=region,
            runtimes=RUNTIMES,
            capacity_type=CapacityType.ON_DEMAND,
            cpu_cores=Decimal(str(capacity["cpu_cores"])),
            memory_bytes=capacity["memory_bytes"],
            disk_bytes=disk_bytes,
            gpu=gpu,
            price_usd_per_hour=options.price_usd_per_hour,
            availability=_availability(capacity, gpus, live),
            free=_free(capacity, gpus) if live else Free(),
            observed_ms=observed_ms,
            trust=Trust.OWN,
        )
        for shape, gpu, gpus in shapes
    )


def _gpu(model: str, members: list[Device]) -> Gpu:
    first = members[0]
    least_bytes = min(member.memory_bytes for member in members)
    known = _known(model, least_bytes)
    return Gpu(
        model=model,
        count=len(members),
        memory_bytes=least_bytes,
        architecture=known.architecture if known else "",
        features=tuple(name for name in known.features if name not in BETWEEN_GPUS) if known else (),
        compute_capability=first.compute_capability or (known.capability if known else None),
        driver_version=first.driver_version,
        cuda_version=first.cuda_version,
    )


def _known(model: str, memory_bytes: int) -> GpuModel | None:
    """What is known of a model by its name and memory."""
    found = [one for one in recognise(model).models if abs(one.memory_bytes - memory_bytes) <= one.memory_bytes // 10]
    return found[0] if len(found) == 1 else None


def _availability(capacity: dict[str, Any], gpus: int | None, live: bool) -> Availability:
    if not live:
        return Availability.UNKNOWN
    return Availability.FULL if capacity["slots_free"] == 0 or gpus == 0 else Availability.FREE


def _free(capacity: dict[str, Any], gpus: int | None) -> Free:
    return Free(
        slots=capacity["slots_free"],
        cpu_cores=Decimal(str(capacity["cpu_cores_free"])),
        memory_bytes=capacity["memory_bytes_free"],
        gpus=gpus,
    )


def _slug(model: str) -> str:
    return "gpu-" + re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
