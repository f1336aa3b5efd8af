"""How far each bound of a spec would have to give so that one offer fits it. It looks at no other offer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from typing import TypeAlias

import numpy as np

from placet.domain.offer_table import Numbers, OfferTable
from placet.domain.offers import Offer
from placet.domain.relaxations import Change
from placet.domain.spec import Accelerator, Constraints, Repeat, Resources, Selection, Spec
from placet.domain.units import MINUTE_MS, SECOND_MS, format_bytes, format_duration_ms, format_instant, format_money
from placet.stages.costs import worst_micro, worst_usd
from placet.stages.filters import Asked
from placet.stages.memory.demanded import model_memory
from placet.stages.memory.splitting import smallest_split
from placet.stages.memory.values import MemoryEstimate

Changed: TypeAlias = tuple[Change, Spec]
CENT, SMALL_CENT = Decimal("0.01"), Decimal("0.0001")
# No program is told to be done in less.
LEAST_RUN_S = Decimal(60)
RUNTIME_FIELD = "constraints.maximum_runtime_seconds"


def change(filter_name: str, asked: Asked, spec: Spec, offer: Offer) -> Changed | None:
    """The spec with this one bound changed so that the offer passes; ``None`` where no change of a bound does that.

    ``spec`` may have been changed before; ``asked`` is the request as it came.
    """
    return _changed(CHANGERS.get(filter_name), filter_name, _At(asked=asked, spec=spec, offer=offer))


def other_change(filter_name: str, asked: Asked, spec: Spec, offer: Offer) -> Changed | None:
    """Another bound changed to the same end, where there is one: what may not cost more may end earlier."""
    other = _shorter if filter_name == "cost_cap" else None
    return _changed(other, filter_name, _At(asked=asked, spec=spec, offer=offer))


def _changed(changer: "Callable[[_At], _Made | None] | None", filter_name: str, at: "_At") -> Changed | None:
    made = None if changer is None else changer(at)
    if made is None:
        return None
    field, words, value, changed = made
    return Change(filter=filter_name, field=field, words=words, value=value), changed


_Made: TypeAlias = tuple[str, str, str, Spec]


@dataclass(frozen=True, kw_only=True)
class _At:
    asked: Asked
    spec: Spec
    offer: Offer


def _bounds(spec: Spec, bounds: Constraints) -> Spec:
    return replace(spec, constraints=bounds)


def _needs(spec: Spec, needs: Resources) -> Spec:
    return replace(spec, resources=needs)


def _with(chosen: Selection, name: str) -> Selection:
    """A selection that takes this name too."""
    allowed = chosen.allowed if not chosen.allowed or name in chosen.allowed else (*chosen.allowed, name)
    return replace(chosen, allowed=allowed, denied=tuple(one for one in chosen.denied if one != name))


def _selected(part: str, noun: str, chosen: Selection, name: str) -> tuple[str, str, str]:
    if name in chosen.denied:
        left = [one for one in chosen.denied if one != name]
        return f"constraints.{part}.denied", f"stop denying {noun} {name}", ", ".join(left)
    return f"constraints.{part}.allowed", f"allow {noun} {name}", ", ".join((*chosen.allowed, name))


def _provider(at: _At) -> _Made | None:
    chosen = at.spec.constraints.providers
    said = _selected("providers", "provider", chosen, at.offer.provider)
    return *said, _bounds(at.spec, replace(at.spec.constraints, providers=_with(chosen, at.offer.provider)))


def _region(at: _At) -> _Made | None:
    chosen = at.spec.constraints.regions
    said = _selected("regions", "region", chosen, at.offer.region)
    return *said, _bounds(at.spec, replace(at.spec.constraints, regions=_with(chosen, at.offer.region)))


def _jurisdiction(at: _At) -> _Made | None:
    field, known = "constraints.jurisdictions", at.spec.constraints.jurisdictions
    if not at.offer.jurisdiction:
        words = "drop constraints.jurisdictions (what would run it does not say where it is)"
        return field, words, "", _bounds(at.spec, replace(at.spec.constraints, jurisdictions=()))
    wider = (*known, at.offer.jurisdiction)
    words = f"allow jurisdiction {at.offer.jurisdiction}"
    return field, words, ", ".join(wider), _bounds(at.spec, replace(at.spec.constraints, jurisdictions=wider))


def _compliance(at: _At) -> _Made | None:
    kept = tuple(tag for tag in at.spec.constraints.compliance if tag in at.offer.compliance)
    dropped = ", ".join(tag for tag in at.spec.constraints.compliance if tag not in kept)
    words = f"do without {dropped} in constraints.compliance"
    return (
        "constraints.compliance",
        words,
        ", ".join(kept),
        _bounds(at.spec, replace(at.spec.constraints, compliance=kept)),
    )


def _capacity(at: _At) -> _Made | None:
    types = (*at.spec.constraints.capacity_types, at.offer.capacity_type)
    changed = _bounds(at.spec, replace(at.spec.constraints, capacity_types=types))
    return "constraints.capacity_types", f"allow {at.offer.capacity_type}", ", ".join(types), changed


def _repeat(at: _At) -> _Made | None:
    words = "declare repeat: safe, if the program may run more than once"
    return "repeat", words, str(Repeat.SAFE), replace(at.spec, repeat=Repeat.SAFE)


def _gpu_count(at: _At) -> _Made | None:
    if at.offer.gpu is None:
        return None
    words = f"ask for {at.offer.gpu.count} GPU in place of {at.asked.demand.gpu_count}"
    changed = _needs(at.spec, replace(at.spec.resources, gpu_count=at.offer.gpu.count))
    return "resources.gpu_count", words, str(at.offer.gpu.count), changed


def _gpu_model(at: _At) -> _Made | None:
    if at.offer.gpu is None or not at.offer.gpu.model:
        return None
    models = (*at.spec.resources.gpu_models, at.offer.gpu.model)
    changed = _needs(at.spec, replace(at.spec.resources, gpu_models=models))
    return "resources.gpu_models", f"allow GPU model {at.offer.gpu.model}", ", ".join(models), changed


def _gpu_memory(at: _At) -> _Made | None:
    if at.offer.gpu is None or at.spec.resources.accelerator is not Accelerator.GPU:
        return None
    if at.spec.resources.gpu_memory_bytes is not None:
        has = at.offer.gpu.memory_bytes
        changed = _needs(at.spec, replace(at.spec.resources, gpu_memory_bytes=has))
        return "resources.minimum_gpu_memory_gb", f"ask for {format_bytes(has)} of GPU memory", _gb(has), changed
    estimate = model_memory(at.spec)
    over = smallest_split(estimate, at.offer.gpu.memory_bytes) if isinstance(estimate, MemoryEstimate) else None
    if over is None or over.gpu_count <= at.asked.demand.gpu_count:
        return None
    words = f"set resources.gpu_count to {over.gpu_count}, if the program splits the model"
    changed = _needs(at.spec, replace(at.spec.resources, gpu_count=over.gpu_count))
    return "resources.gpu_count", words, str(over.gpu_count), changed


def _gpu_features(at: _At) -> _Made | None:
    has = at.offer.gpu.features if at.offer.gpu is not None else ()
    kept = tuple(one for one in at.spec.resources.gpu_features if one in has)
    dropped = ", ".join(one for one in at.spec.resources.gpu_features if one not in kept)
    changed = _needs(at.spec, replace(at.spec.resources, gpu_features=kept))
    return "resources.gpu_features", f"do without {dropped} in resources.gpu_features", ", ".join(kept), changed


def _capability(at: _At) -> _Made | None:
    has = at.offer.gpu.compute_capability if at.offer.gpu is not None else None
    changed = _needs(at.spec, replace(at.spec.resources, compute_capability=has))
    return "resources.minimum_compute_capability", _version_words("compute capability", has), has or "", changed


def _driver(at: _At) -> _Made | None:
    has = at.offer.gpu.driver_version if at.offer.gpu is not None else None
    changed = _needs(at.spec, replace(at.spec.resources, driver_version=has))
    return "resources.minimum_driver_version", _version_words("driver", has), has or "", changed


def _cuda(at: _At) -> _Made | None:
    has = at.offer.gpu.cuda_version if at.offer.gpu is not None else None
    changed = _needs(at.spec, replace(at.spec.resources, cuda_version=has))
    return "resources.minimum_cuda_version", _version_words("CUDA", has), has or "", changed


def _version_words(noun: str, has: str | None) -> str:
    return f"accept {noun} {has}" if has else f"drop the bound on {noun}, which what would run it does not state"


def _cpu(at: _At) -> _Made | None:
    changed = _needs(at.spec, replace(at.spec.resources, cpu_cores=at.offer.cpu_cores))
    has = f"{at.offer.cpu_cores.normalize():f}"
    return "resources.cpu_cores", f"ask for {has} CPU cores", has, changed


def _memory(at: _At) -> _Made | None:
    has = at.offer.memory_bytes
    changed = _needs(at.spec, replace(at.spec.resources, memory_bytes=has))
    return "resources.system_memory_gb", f"ask for {format_bytes(has)} of main memory", _gb(has), changed


def _disk(at: _At) -> _Made | None:
    has = at.offer.disk_bytes or 0
    changed = _needs(at.spec, replace(at.spec.resources, disk_bytes=has))
    return "resources.disk_gb", f"ask for {format_bytes(has)} of disk", _gb(has), changed


def _nodes(at: _At) -> _Made | None:
    changed = _needs(at.spec, replace(at.spec.resources, nodes=at.offer.nodes_max))
    return "resources.nodes", f"ask for {at.offer.nodes_max} node", str(at.offer.nodes_max), changed


def _cost(at: _At) -> _Made | None:
    worst = at.asked.spent_usd + worst_usd(at.asked.demand, at.offer)
    cap = worst.quantize(CENT if worst >= CENT * 10 else SMALL_CENT, rounding=ROUND_UP)
    changed = _bounds(at.spec, replace(at.spec.constraints, cost_usd=cap))
    return "constraints.maximum_estimated_cost", f"raise the cost cap to {format_money(cap)}", str(cap), changed


def _shorter(at: _At) -> _Made | None:
    """A lower limit of the run time, unless half of the equal workloads would not have ended within it."""
    bounds, price = at.spec.constraints, at.offer.price_usd_per_hour
    if bounds.runtime_s is None or bounds.cost_usd is None or price <= 0:
        return None
    left_usd = bounds.cost_usd - at.asked.spent_usd
    paid_s = left_usd * 3600 / price - at.offer.startup_s - at.offer.billing_quantum_s
    limit_s = paid_s.to_integral_value(ROUND_DOWN)
    usual = at.asked.demand.usual_s
    least_s = max(LEAST_RUN_S, Decimal(0) if usual is None else usual.likely)
    if left_usd < at.offer.minimum_charge_usd or not least_s <= limit_s < bounds.runtime_s:
        return None
    words = f"end it after {format_duration_ms(int(limit_s) * SECOND_MS)} at the latest"
    changed = _bounds(at.spec, replace(bounds, runtime_s=limit_s))
    return RUNTIME_FIELD, words, str(int(limit_s)), changed


def _deadline(at: _At) -> _Made | None:
    earliest_ms = at.asked.now_ms + int((at.offer.startup_s * SECOND_MS).to_integral_value(ROUND_UP))
    at_ms = -(-earliest_ms // MINUTE_MS) * MINUTE_MS
    told = format_instant(at_ms)
    changed = _bounds(at.spec, replace(at.spec.constraints, deadline_ms=at_ms))
    return "constraints.deadline", f"set the deadline to {told} or later", told, changed


def _gb(amount: int) -> str:
    return f"{Decimal(amount) / 10**9:f}"


CHANGERS: dict[str, Callable[[_At], _Made | None]] = {
    "provider": _provider,
    "region": _region,
    "jurisdiction": _jurisdiction,
    "compliance": _compliance,
    "capacity_type": _capacity,
    "repeat": _repeat,
    "gpu_count": _gpu_count,
    "gpu_model": _gpu_model,
    "gpu_memory": _gpu_memory,
    "gpu_features": _gpu_features,
    "compute_capability": _capability,
    "driver": _driver,
    "cuda": _cuda,
    "cpu": _cpu,
    "memory": _memory,
    "disk": _disk,
    "nodes": _nodes,
    "cost_cap": _cost,
    "deadline": _deadline,
}


def distance(filter_name: str, asked: Asked, table: OfferTable) -> Numbers | None:
    """How far each offer is from a bound that is a number, smaller is nearer; ``None`` where bounds are words."""
    demand = asked.demand
    match filter_name:
        case "gpu_count":
            return -table.gpu_count.astype(np.float64)
        case "gpu_memory" if asked.spec.resources.gpu_memory_bytes is None:  # the more in all, the fewer GPUs hold it
            return -np.nan_to_num(table.gpu_memory_bytes) * table.gpu_count
        case "gpu_memory":
            return -np.nan_to_num(table.gpu_memory_bytes)
        case "cpu":
            return -table.cpu_cores
        case "memory":
            return -table.memory_bytes
        case "disk":
            return -np.nan_to_num(table.disk_bytes)
        case "nodes":
            return -table.nodes_max.astype(np.float64)
        case "cost_cap":
            return worst_micro(demand, table)
        case "deadline":
            return table.startup_s
    return None
