"""One small check each: does this offer fit, not now, or never - and why. A filter scores nothing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from placet.domain.offers import Availability, Demand, Fate, Offer, Verdict
from placet.domain.spec import CapacityType, Repeat, Selection, Spec
from placet.domain.units import SECOND_MS, format_bytes, format_money


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an offer is measured against. ``excluded`` offers failed this workload and are left alone for now."""

    spec: Spec
    demand: Demand
    now_ms: int
    excluded: tuple[str, ...] = ()
    spent_usd: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A named check. ``reason`` returns ``None`` for an offer that passes."""

    name: str
    fate: Fate
    field: str
    reason: Callable[[Asked, Offer], str | None]

    def verdict(self, asked: Asked, offer: Offer) -> Verdict | None:
        reason = self.reason(asked, offer)
        return None if reason is None else Verdict(fate=self.fate, filter=self.name, reason=reason)


def first_failure(filters: Sequence[Filter], asked: Asked, offer: Offer) -> Verdict | None:
    """The first check that the offer fails; the order of the filters makes this reason stable."""
    for check in filters:
        verdict = check.verdict(asked, offer)
        if verdict is not None:
            return verdict
    return None


def all_failures(filters: Sequence[Filter], asked: Asked, offer: Offer) -> tuple[Verdict, ...]:
    """Every check that the offer fails, for finding the smallest change that would make one fit."""
    verdicts = (check.verdict(asked, offer) for check in filters)
    return tuple(verdict for verdict in verdicts if verdict is not None)


def _selected(chosen: Selection, value: str, noun: str) -> str | None:
    if value in chosen.denied:
        return f"{noun} {value!r} is denied"
    if chosen.allowed and value not in chosen.allowed:
        return f"{noun} {value!r} is not among the allowed {', '.join(chosen.allowed)}"
    return None


def _provider(asked: Asked, offer: Offer) -> str | None:
    return _selected(asked.spec.constraints.providers, offer.provider, "provider")


def _region(asked: Asked, offer: Offer) -> str | None:
    return _selected(asked.spec.constraints.regions, offer.region, "region")


def _jurisdiction(asked: Asked, offer: Offer) -> str | None:
    wanted = asked.spec.constraints.jurisdictions
    if wanted and offer.jurisdiction not in wanted:
        return f"jurisdiction {offer.jurisdiction or 'unknown'} is not among {', '.join(wanted)}"
    return None


def _compliance(asked: Asked, offer: Offer) -> str | None:
    lacking = [tag for tag in asked.spec.constraints.compliance if tag not in offer.compliance]
    return f"does not declare {', '.join(lacking)}" if lacking else None


def _capacity_type(asked: Asked, offer: Offer) -> str | None:
    types = asked.spec.constraints.capacity_types
    if types and offer.capacity_type not in types:
        return f"sold as {offer.capacity_type}, asked for {', '.join(types)}"
    return None


def _repeat(asked: Asked, offer: Offer) -> str | None:
    if asked.spec.repeat is not Repeat.AT_MOST_ONCE:
        return None
    if offer.preemptible or offer.capacity_type is CapacityType.SPOT:
        return "may be taken back, and the program may run at most once"
    return "may start the program again by itself, and it may run at most once" if offer.may_rerun else None


def _runtime(asked: Asked, offer: Offer) -> str | None:
    kind = asked.spec.runtime.kind
    return None if kind in offer.runtimes else f"cannot run a {kind} ({', '.join(offer.runtimes) or 'nothing'} only)"


def _gpu_model(asked: Asked, offer: Offer) -> str | None:
    needs = asked.spec.resources
    if asked.demand.gpu_count == 0 or not (needs.gpu_models or needs.gpu_families):
        return None
    model = offer.gpu.model.lower() if offer.gpu else ""
    exact = {name.lower() for name in needs.gpu_models}
    family = any(name.lower() in model for name in needs.gpu_families)
    if model and (model in exact or family):
        return None
    wanted = ", ".join((*needs.gpu_models, *needs.gpu_families))
    return f"has {offer.gpu.model if offer.gpu else 'no GPU'}, asked for {wanted}"


def _gpu_count(asked: Asked, offer: Offer) -> str | None:
    count = offer.gpu.count if offer.gpu else 0
    if count < asked.demand.gpu_count:
        return f"has {count} GPU, asked for {asked.demand.gpu_count}"
    return None


def _gpu_memory(asked: Asked, offer: Offer) -> str | None:
    wanted = asked.demand.gpu_memory_bytes
    has = offer.gpu.memory_bytes if offer.gpu else 0
    if wanted is not None and has < wanted:
        return f"GPU has {format_bytes(has)}, asked for {format_bytes(wanted)}"
    return None


def _gpu_features(asked: Asked, offer: Offer) -> str | None:
    has = offer.gpu.features if offer.gpu else ()
    lacking = [feature for feature in asked.spec.resources.gpu_features if feature not in has]
    return f"GPU lacks {', '.join(lacking)}" if lacking else None


def _at_least(name: str, wanted: str | None, has: str | None) -> str | None:
    if wanted is None:
        return None
    if has is None:
        return f"{name} is not known, asked for {wanted}"
    return f"{name} is {has}, asked for {wanted}" if version_key(has) < version_key(wanted) else None


def version_key(version: str) -> tuple[int, ...]:
    """``"12.4"`` as ``(12, 4)``; parts that are no numbers count as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _compute_capability(asked: Asked, offer: Offer) -> str | None:
    has = offer.gpu.compute_capability if offer.gpu else None
    return _at_least("compute capability", asked.spec.resources.compute_capability, has)


def _driver(asked: Asked, offer: Offer) -> str | None:
    return _at_least("driver", asked.spec.resources.driver_version, offer.gpu.driver_version if offer.gpu else None)


def _cuda(asked: Asked, offer: Offer) -> str | None:
    return _at_least("CUDA", asked.spec.resources.cuda_version, offer.gpu.cuda_version if offer.gpu else None)


def _cpu(asked: Asked, offer: Offer) -> str | None:
    wanted = asked.demand.cpu_cores
    if wanted is not None and offer.cpu_cores < wanted:
        return f"has {offer.cpu_cores} CPU cores, asked for {wanted}"
    return None


def _memory(asked: Asked, offer: Offer) -> str | None:
    wanted = asked.demand.memory_bytes
    if wanted is not None and offer.memory_bytes < wanted:
        return f"has {format_bytes(offer.memory_bytes)} of memory, asked for {format_bytes(wanted)}"
    return None


def _disk(asked: Asked, offer: Offer) -> str | None:
    wanted = asked.demand.disk_bytes
    if wanted is not None and offer.disk_bytes is not None and offer.disk_bytes < wanted:
        return f"has {format_bytes(offer.disk_bytes)} of disk, asked for {format_bytes(wanted)}"
    return None


def _nodes(asked: Asked, offer: Offer) -> str | None:
    if offer.nodes_max < asked.demand.nodes:
        return f"gives at most {offer.nodes_max} node, asked for {asked.demand.nodes}"
    return None


def _cost_cap(asked: Asked, offer: Offer) -> str | None:
    cap = asked.spec.constraints.cost_usd
    if cap is None:
        return None
    worst = asked.spent_usd + worst_cost_usd(asked.demand, offer)
    if worst > cap:
        return f"may cost {format_money(worst)}, the cap is {format_money(cap)}"
    return None


def worst_cost_usd(demand: Demand, offer: Offer) -> Decimal:
    """What one attempt can cost at most: the hourly price over start-up and the longest run time, at least the minimum.

    Without any bound on the run time only free offers are known to be free; others count one hour.
    """
    longest_s = demand.runtime_s.high if demand.runtime_s is not None else Decimal(3600)
    hours = (longest_s + offer.startup_s + offer.billing_quantum_s) / Decimal(3600)
    return max(offer.price_usd_per_hour * hours, offer.minimum_charge_usd)


def _deadline(asked: Asked, offer: Offer) -> str | None:
    deadline_ms = asked.spec.constraints.deadline_ms
    if deadline_ms is None:
        return None
    least_s = offer.startup_s + (asked.demand.runtime_s.low if asked.demand.runtime_s else Decimal(0))
    if asked.now_ms + int(least_s * SECOND_MS) > deadline_ms:
        return "cannot finish before the deadline"
    return None


def _excluded(asked: Asked, offer: Offer) -> str | None:
    return "failed this workload a moment ago" if offer.id in asked.excluded else None


def _available(asked: Asked, offer: Offer) -> str | None:
    del asked
    return "the provider has none free" if offer.availability is Availability.FULL else None


def _free(asked: Asked, offer: Offer) -> str | None:
    free, demand = offer.free, asked.demand
    if free.slots is not None and free.slots < 1:
        return "all slots are taken"
    if free.gpus is not None and free.gpus < demand.gpu_count:
        return f"{free.gpus} GPU free, asked for {demand.gpu_count}"
    if free.cpu_cores is not None and demand.cpu_cores is not None and free.cpu_cores < demand.cpu_cores:
        return f"{free.cpu_cores} CPU cores free, asked for {demand.cpu_cores}"
    if free.memory_bytes is not None and demand.memory_bytes is not None and free.memory_bytes < demand.memory_bytes:
        return f"{format_bytes(free.memory_bytes)} of memory free, asked for {format_bytes(demand.memory_bytes)}"
    return None


def _filters(fate: Fate, rows: Iterable[tuple[str, str, Callable[[Asked, Offer], str | None]]]) -> tuple[Filter, ...]:
    return tuple(Filter(name=name, fate=fate, field=field, reason=reason) for name, field, reason in rows)


NEVER_FILTERS = _filters(
    Fate.NEVER,
    (
        ("provider", "constraints.providers", _provider),
        ("region", "constraints.regions", _region),
        ("jurisdiction", "constraints.jurisdictions", _jurisdiction),
        ("compliance", "constraints.compliance", _compliance),
        ("capacity_type", "constraints.capacity_types", _capacity_type),
        ("repeat", "repeat", _repeat),
        ("runtime", "runtime.type", _runtime),
        ("gpu_count", "resources.gpu_count", _gpu_count),
        ("gpu_model", "resources.gpu_models", _gpu_model),
        ("gpu_memory", "resources.minimum_gpu_memory_gb", _gpu_memory),
        ("gpu_features", "resources.gpu_features", _gpu_features),
        ("compute_capability", "resources.minimum_compute_capability", _compute_capability),
        ("driver", "resources.minimum_driver_version", _driver),
        ("cuda", "resources.minimum_cuda_version", _cuda),
        ("cpu", "resources.cpu_cores", _cpu),
        ("memory", "resources.system_memory_gb", _memory),
        ("disk", "resources.disk_gb", _disk),
        ("nodes", "resources.nodes", _nodes),
        ("cost_cap", "constraints.maximum_estimated_cost", _cost_cap),
        ("deadline", "constraints.deadline", _deadline),
    ),
)
NOT_NOW_FILTERS = _filters(
    Fate.NOT_NOW,
    (("failed_here", "", _excluded), ("availability", "", _available), ("free_capacity", "", _free)),
)
ALL_FILTERS = (*NEVER_FILTERS, *NOT_NOW_FILTERS)
FILTER_FIELDS = {check.name: check.field for check in ALL_FILTERS}
