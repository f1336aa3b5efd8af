"""The offers of one engine: one for its processors, one for each model of GPU that is declared. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from placet.adapters.providers.container import names
from placet.adapters.providers.container.options import ContainerOptions, DeclaredGpu
from placet.domain.gpus import recognise
from placet.domain.offers import Availability, Free, Gpu, Offer, Trust
from placet.domain.spec import CapacityType

# Left to the machine and to the engine itself.
MEMORY_SHARE = Decimal("0.9")
MAGNITUDE_MAX = 18
BETWEEN_GPUS = frozenset({"nvlink", "nvswitch"})


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What an engine can run at one time."""

    slots: int
    cpu_cores: Decimal
    memory_bytes: int
    gpus: tuple[DeclaredGpu, ...]


@dataclass(frozen=True, kw_only=True)
class Left:
    """What of it is free, the attempts that live taken off."""

    slots: int
    cpu_cores: Decimal
    memory_bytes: int
    gpus: tuple[DeclaredGpu, ...]


def capacity(options: ContainerOptions, info: Mapping[str, object]) -> Capacity:
    """What is stated, else what the engine says of its machine."""
    cores = options.cpu_cores or Decimal(_whole(info.get("NCPU"), 1))
    memory = options.memory_bytes or int(_whole(info.get("MemTotal"), 0) * MEMORY_SHARE)
    slots = options.slots or max(4, int(cores) * 2)
    return Capacity(slots=slots, cpu_cores=cores, memory_bytes=memory, gpus=options.gpus)


def left(all_of_it: Capacity, living: Iterable[Mapping[str, str]]) -> Left:
    """What is free, by the marks of the attempts that live."""
    slots, cores, memory = all_of_it.slots, all_of_it.cpu_cores, all_of_it.memory_bytes
    taken: set[str] = set()
    for labels in living:
        slots -= 1
        cores -= _decimal(labels.get(names.CPU))
        memory -= int(_decimal(labels.get(names.MEMORY)))
        taken |= set(names.gpus(labels))
    return Left(
        slots=max(slots, 0),
        cpu_cores=max(cores, Decimal(0)),
        memory_bytes=max(memory, 0),
        gpus=tuple(gpu for gpu in all_of_it.gpus if gpu.id not in taken),
    )


def make_offers(
    options: ContainerOptions, all_of_it: Capacity, free: Left, *, region: str, observed_ms: int, live: bool
) -> tuple[Offer, ...]:
    """What can be run there; of an engine that does not answer, what is free is not known."""
    groups: dict[str, list[DeclaredGpu]] = defaultdict(list)
    for gpu in all_of_it.gpus:
        groups[gpu.model].append(gpu)
    shapes: list[tuple[str, Gpu | None, int | None]] = [("cpu", None, None)]
    for model, members in sorted(groups.items()):
        shapes.append((slug(model), _gpu(model, members), sum(gpu.model == model for gpu in free.gpus)))
    return tuple(
        Offer(
            id=f"{options.name}-{shape}",
            provider=options.name,
            region=region,
            runtimes=options.runtimes,
            capacity_type=CapacityType.ON_DEMAND,
            cpu_cores=all_of_it.cpu_cores,
            memory_bytes=all_of_it.memory_bytes,
            gpu=gpu,
            price_usd_per_hour=options.price_usd_per_hour,
            availability=_availability(free, gpus, live),
            free=_free(free, gpus) if live else Free(),
            observed_ms=observed_ms,
            trust=Trust.OWN,
        )
        for shape, gpu, gpus in shapes
    )


def slug(model: str) -> str:
    """The end of the id of an offer with that GPU."""
    return "gpu-" + re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")


def _gpu(model: str, members: list[DeclaredGpu]) -> Gpu:
    least = min(member.memory_bytes for member in members)
    fits = [one for one in recognise(model).models if abs(one.memory_bytes - least) <= one.memory_bytes // 10]
    known = fits[0] if len(fits) == 1 else None
    return Gpu(
        model=model,
        count=len(members),
        memory_bytes=least,
        architecture=known.architecture if known else "",
        features=tuple(name for name in known.features if name not in BETWEEN_GPUS) if known else (),
        compute_capability=known.capability if known else None,
    )


def _availability(free: Left, gpus: int | None, live: bool) -> Availability:
    if not live:
        return Availability.UNKNOWN
    return Availability.FULL if free.slots == 0 or gpus == 0 else Availability.FREE


def _free(free: Left, gpus: int | None) -> Free:
    return Free(slots=free.slots, cpu_cores=free.cpu_cores, memory_bytes=free.memory_bytes, gpus=gpus)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and value > 0 else default


def _decimal(text: str | None) -> Decimal:
    try:
        value = Decimal(text or "0")
    except InvalidOperation:
        return Decimal(0)
    # Of a number with an exponent of a billion the whole part would be computed for ever.
    return value if value.is_finite() and abs(value.adjusted()) <= MAGNITUDE_MAX else Decimal(0)
