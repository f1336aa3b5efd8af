"""One check each, over all offers at once: does it fit, not now, or never - and why not. It scores nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from placet.domain.blocks import Block, Scope, Streak
from placet.domain.decisions import Within
from placet.domain.experience import Experience
from placet.domain.gpus import recognise
from placet.domain.offer_table import Bits, Numbers, OfferTable, split
from placet.domain.offers import Availability, Demand, Fate, Offer
from placet.domain.quotes import Quoted
from placet.domain.spec import CapacityType, Repeat, Selection, Spec
from placet.domain.units import SECOND_MS, format_bytes, format_instant, format_money
from placet.stages import costs

NO_EXPERIENCE = Experience()
# From so many rows on, what is worked out once per snapshot pays for itself.
MANY_ROWS = costs.MANY_ROWS
SHORT_MAX = 2**15 - 1


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What offers are measured against.

    ``excluded`` offers failed this workload and are left alone for now, ``blocks`` are what failed the tenant again and
    again. ``experience`` is what attempts have taught.
    ``within`` is what a policy left of the spec's bounds; ``spec`` is drawn so narrow already.
    ``exploration`` is the share of workloads that try what little is known of.
    ``quoted`` is what is left of the quote that it was submitted with.
    ``budget_usd`` is what budgets leave for one more attempt.
    ``hypothetical`` takes what is only listed as if it were connected: for comparison, never for a dispatch.
    """

    spec: Spec
    demand: Demand
    now_ms: int
    excluded: tuple[str, ...] = ()
    spent_usd: Decimal = Decimal(0)
    quoted: Quoted | None = None
    budget_usd: Decimal | None = None
    experience: Experience = NO_EXPERIENCE
    blocks: tuple[Block, ...] = ()
    hypothetical: bool = False
    within: Within | None = None
    exploration: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A named check of one bound of the spec (``field``).

    ``passes`` is ``None`` when the spec asks nothing of the kind, else one truth value per offer; ``reason`` tells why
    an offer that does not pass does not.
    """

    name: str
    fate: Fate
    field: str
    passes: Callable[[Asked, OfferTable], Bits | None]
    reason: Callable[[Asked, Offer], str]


def _judged(column: str, accept: Callable[[str], bool], table: OfferTable) -> Bits | None:
    """``None`` also when no word of the column is refused, as then no offer is."""
    return None if all(map(accept, table.words[column].texts)) else table.judged(column, accept)


def _selected(column: str, chosen: Selection, table: OfferTable) -> Bits | None:
    if not chosen.allowed and not chosen.denied:
        return None
    return _judged(
        column, lambda name: name not in chosen.denied and (not chosen.allowed or name in chosen.allowed), table
    )


def _not_selected(chosen: Selection, value: str, noun: str) -> str:
    if value in chosen.denied:
        return f"{noun} {value!r} is denied"
    return f"{noun} {value!r} is not among the allowed {', '.join(chosen.allowed)}"


def _one_of(column: str, wanted: tuple[str, ...], table: OfferTable) -> Bits | None:
    return _judged(column, lambda word: word in wanted, table) if wanted else None


def _all_of(column: str, wanted: tuple[str, ...], table: OfferTable) -> Bits | None:
    return _judged(column, lambda words: set(wanted) <= set(split(words)), table) if wanted else None


def _lacking(wanted: tuple[str, ...], has: tuple[str, ...]) -> str:
    return ", ".join(tag for tag in wanted if tag not in has)


def _repeat(asked: Asked, table: OfferTable) -> Bits | None:
    if asked.spec.repeat is not Repeat.AT_MOST_ONCE:
        return None
    spot = table.judged("capacity_type", lambda word: word == CapacityType.SPOT)
    passed: Bits = ~(table.preemptible | table.may_rerun | spot)
    return passed


def _repeat_reason(asked: Asked, offer: Offer) -> str:
    del asked
    if offer.preemptible or offer.capacity_type is CapacityType.SPOT:
        return "may be taken back, and the program may run at most once"
    return "may start the program again by itself, and it may run at most once"


def _wanted_model(asked: Asked) -> Callable[[str], bool]:
    """Whatever way either name is written; a name that may be several models is wanted when all of them are."""
    needs = asked.spec.resources
    wanted = {text.lower() for text in needs.gpu_models}
    wanted |= {one.name.lower() for text in needs.gpu_models for one in recognise(text).models}
    families = {family.lower() for family in needs.gpu_families}

    def accept(model: str) -> bool:
        if not model:
            return False
        name = model.lower()
        if name in wanted or any(family in name for family in families):
            return True
        known = recognise(model).models
        meant = bool(known) and all(one.name.lower() in wanted for one in known)
        return meant or any(one.architecture in families for one in known)

    return accept


def _gpu_model(asked: Asked, table: OfferTable) -> Bits | None:
    needs = asked.spec.resources
    if asked.demand.gpu_count == 0 or not (needs.gpu_models or needs.gpu_families):
        return None
    return _judged("gpu_model", _wanted_model(asked), table)


def _gpu_model_reason(asked: Asked, offer: Offer) -> str:
    wanted = ", ".join((*asked.spec.resources.gpu_models, *asked.spec.resources.gpu_families))
    return f"has {offer.gpu.model if offer.gpu else 'no GPU'}, asked for {wanted}"


def _enough(column: str, table: OfferTable, wanted: Decimal | int | None, *, unknown: bool = False) -> Bits | None:
    """At least the wanted amount; ``unknown`` says whether an amount that is not known will do."""
    if wanted is None:
        return None
    if len(table) <= MANY_ROWS:
        has: Numbers = getattr(table, column)
        passed: Bits = has >= float(wanted)
        return passed | np.isnan(has) if unknown else passed
    amounts, ranks = table.ranked(column)
    passed = np.greater_equal(ranks, int(amounts.searchsorted(float(wanted))))
    if not unknown and np.isnan(amounts[-1]):
        passed &= ranks != len(amounts) - 1
    return passed


def _gpus(asked: Asked, table: OfferTable) -> Bits | None:
    if asked.demand.gpu_count == 0:
        return None
    if len(table) <= MANY_ROWS or asked.demand.gpu_count > SHORT_MAX:
        return np.greater_equal(table.gpu_count, asked.demand.gpu_count)
    # Numbers of two bytes compare several times as quickly as those of eight.
    short: NDArray[np.int16] | None = table.derived.get("gpu_count")
    if short is None:
        short = table.derived["gpu_count"] = np.minimum(table.gpu_count, SHORT_MAX).astype(np.int16)
    return np.greater_equal(short, asked.demand.gpu_count)


def version_key(version: str) -> tuple[int, ...]:
    """``"12.4"`` as ``(12, 4)``; parts that are no numbers count as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _version(column: str, wanted: str | None, table: OfferTable) -> Bits | None:
    if wanted is None:
        return None
    least = version_key(wanted)
    return _judged(column, lambda has: bool(has) and version_key(has) >= least, table)


def _version_reason(name: str, wanted: str | None, has: str | None) -> str:
    return f"{name} is {has or 'not known'}, asked for {wanted}"


def _nodes(asked: Asked, table: OfferTable) -> Bits | None:
    if asked.demand.nodes <= 1:
        return None
    passed: Bits = table.nodes_max >= asked.demand.nodes
    return passed


def _cost_cap(asked: Asked, table: OfferTable) -> Bits | None:
    cap = asked.spec.constraints.cost_usd
    if cap is None:
        return None
    # Half a millionth of a dollar is the error of the arithmetic, not money.
    return costs.within(asked.demand, table, float((cap - asked.spent_usd) * 1_000_000) + 0.5)


def _cost_cap_reason(asked: Asked, offer: Offer) -> str:
    worst = asked.spent_usd + costs.worst_usd(asked.demand, offer)
    cap = asked.spec.constraints.cost_usd or Decimal(0)
    return f"may cost {format_money(worst)}, the cap is {format_money(cap)}"


def quoted_run_s(asked: Asked) -> float:
    """The ninth decile of what one more run takes; of one that goes on, of what is left of it."""
    usual, bounds = asked.demand.usual_s, asked.demand.runtime_s
    if usual is not None:
        run_s = float(usual.high)
    elif bounds is not None:
        run_s = float(bounds.likely + (bounds.high - bounds.likely) * 4 / 5)
    else:
        run_s = costs.UNBOUNDED_RUNTIME_S
    return max(run_s - (asked.quoted.done_s if asked.quoted is not None else 0.0), 0.0)


def run_costs_micro(asked: Asked, table: OfferTable) -> Numbers:
    """What one more run costs by the measure of a quote, in millionths of a dollar, per offer."""
    price, _, least = costs.columns(table)
    return np.maximum(price * (quoted_run_s(asked) / 3600.0), least)


def within_quote(asked: Asked, table: OfferTable) -> Bits | None:
    """Where one more run stays within what is left of the quote. It is less than the forecast by which quotes are
    judged, so that what was just accepted is not kept waiting by its own quote."""
    if asked.quoted is None:
        return None
    run_micro = run_costs_micro(asked, table)
    passed: Bits = (run_micro <= float(asked.quoted.left_usd * 1_000_000) + 0.5) | (run_micro == 0.0)
    return passed


def _quote_spent(asked: Asked, table: OfferTable) -> Bits | None:
    if asked.quoted is None or asked.quoted.left_usd > 0:
        return None
    price, _, least = costs.columns(table)
    passed: Bits = (price == 0.0) & (least == 0.0)
    return passed


def _quote_reason(asked: Asked, offer: Offer) -> str:
    assert asked.quoted is not None
    hours = Decimal(repr(quoted_run_s(asked))) / 3600
    cost_usd = max(offer.price_usd_per_hour * hours, offer.minimum_charge_usd)
    left, bound = format_money(max(asked.quoted.left_usd, Decimal(0))), format_money(asked.quoted.bound_usd)
    return f"one more run may cost {format_money(cost_usd)}, of the quote of {bound} {left} is left"


def _budget(asked: Asked, table: OfferTable) -> Bits | None:
    """What costs nothing, and what is not real, is within any budget."""
    if asked.budget_usd is None:
        return None
    worst = costs.worst_micro(asked.demand, table)
    passed: Bits = (worst <= float(asked.budget_usd * 1_000_000)) | (worst == 0.0) | table.simulated
    return passed


def _budget_reason(asked: Asked, offer: Offer) -> str:
    left = format_money(max(asked.budget_usd or Decimal(0), Decimal(0)))
    return f"may cost {format_money(costs.worst_usd(asked.demand, offer))}, the budget leaves {left}"


def _deadline(asked: Asked, table: OfferTable) -> Bits | None:
    deadline_ms = asked.spec.constraints.deadline_ms
    if deadline_ms is None:
        return None
    # What equal workloads took is no bound: one of ten is quicker than even the first decile.
    if len(table) <= MANY_ROWS:
        passed: Bits = asked.now_ms + table.startup_s * SECOND_MS <= deadline_ms
        return passed
    amounts, ranks = table.ranked("startup_s")
    return np.less(ranks, int(np.count_nonzero(asked.now_ms + amounts * SECOND_MS <= deadline_ms)))


def _connected(asked: Asked, table: OfferTable) -> Bits | None:
    return None if asked.hypothetical or table.connected.all() else table.connected


def _excluded(asked: Asked, table: OfferTable) -> Bits | None:
    if not asked.excluded:
        return None
    passed = np.ones(len(table), dtype=np.bool_)
    for offer_id in asked.excluded:
        code = table.words["id"].find(offer_id)
        if code is not None:
            passed &= table.id != code
    return passed


def _blocked(asked: Asked, table: OfferTable) -> Bits | None:
    if not asked.blocks:
        return None
    passed = np.ones(len(table), dtype=np.bool_)
    for block in asked.blocks:
        streak = block.streak
        reached = table.judged("provider", streak.provider.__eq__)
        if streak.scope is not Scope.PROVIDER:
            reached &= table.judged("region", streak.region.__eq__)
        if streak.scope is Scope.OFFER:
            reached &= table.judged("id", streak.offer_id.__eq__)
        passed &= ~reached
    return passed


def _is_blocked(streak: Streak, offer: Offer) -> bool:
    if streak.provider != offer.provider:
        return False
    if streak.scope is Scope.PROVIDER:
        return True
    return streak.region == offer.region and (streak.scope is Scope.PLACE or streak.offer_id == offer.id)


def _blocked_reason(asked: Asked, offer: Offer) -> str:
    block = max((block for block in asked.blocks if _is_blocked(block.streak, offer)), key=lambda block: block.until_ms)
    streak = block.streak
    what = {
        Scope.OFFER: "it", Scope.PLACE: f"{streak.provider} in {streak.region or 'its region'}",
        Scope.PROVIDER: streak.provider,
    }  # fmt: skip
    times = "failed once" if streak.events == 1 else f"failed {streak.events} times in a row"
    return (
        f"left alone until {format_instant(block.until_ms)}: {what[streak.scope]} {times} ({streak.cause}), "
        f"the last time attempt {streak.epoch} of {streak.workload_id}"
    )


def _free(asked: Asked, table: OfferTable) -> Bits | None:
    demand = asked.demand
    wanted = {"free_slots": 1.0}
    if demand.gpu_count:
        wanted["free_gpus"] = float(demand.gpu_count)
    if demand.cpu_cores is not None:
        wanted["free_cpu_cores"] = float(demand.cpu_cores)
    if demand.memory_bytes is not None:
        wanted["free_memory_bytes"] = float(demand.memory_bytes)
    # Of a handful of offers, to look is quicker than to find out whether looking is of any use.
    known = wanted.keys() & table.free_known if len(table) > MANY_ROWS else wanted
    lacking: Bits | None = None
    for column in known:
        # What is not known is not less than anything.
        less = getattr(table, column) < wanted[column]
        lacking = less if lacking is None else lacking | less
    return None if lacking is None else np.logical_not(lacking, out=lacking)


def _free_reason(asked: Asked, offer: Offer) -> str:
    free, demand = offer.free, asked.demand
    if free.slots is not None and free.slots < 1:
        return "all slots are taken"
    if free.gpus is not None and free.gpus < demand.gpu_count:
        return f"{free.gpus} GPU free, asked for {demand.gpu_count}"
    if free.cpu_cores is not None and demand.cpu_cores is not None and free.cpu_cores < demand.cpu_cores:
        return f"{free.cpu_cores} CPU cores free, asked for {demand.cpu_cores}"
    return f"{format_bytes(free.memory_bytes or 0)} of memory free, asked for {format_bytes(demand.memory_bytes or 0)}"


def _has_gpu_memory(offer: Offer) -> str:
    return format_bytes(offer.gpu.memory_bytes) if offer.gpu else "no memory"


NEVER_FILTERS = (
    # The first: it is no bound of the spec, and nothing in it can be changed for it.
    Filter(name="quote_spent", fate=Fate.NEVER, field="quote", passes=_quote_spent, reason=_quote_reason),
    Filter(
        name="provider",
        fate=Fate.NEVER,
        field="constraints.providers",
        passes=lambda asked, table: _selected("provider", asked.spec.constraints.providers, table),
        reason=lambda asked, offer: _not_selected(asked.spec.constraints.providers, offer.provider, "provider"),
    ),
    Filter(
        name="region",
        fate=Fate.NEVER,
        field="constraints.regions",
        passes=lambda asked, table: _selected("region", asked.spec.constraints.regions, table),
        reason=lambda asked, offer: _not_selected(asked.spec.constraints.regions, offer.region, "region"),
    ),
    Filter(
        name="jurisdiction",
        fate=Fate.NEVER,
        field="constraints.jurisdictions",
        passes=lambda asked, table: _one_of("jurisdiction", asked.spec.constraints.jurisdictions, table),
        reason=lambda asked, offer: (
            f"jurisdiction {offer.jurisdiction or 'unknown'} is not among "
            f"{', '.join(asked.spec.constraints.jurisdictions)}"
        ),
    ),
    Filter(
        name="compliance",
        fate=Fate.NEVER,
        field="constraints.compliance",
        passes=lambda asked, table: _all_of("compliance", asked.spec.constraints.compliance, table),
        reason=lambda asked, offer: f"does not declare {_lacking(asked.spec.constraints.compliance, offer.compliance)}",
    ),
    Filter(
        name="capacity_type",
        fate=Fate.NEVER,
        field="constraints.capacity_types",
        passes=lambda asked, table: _one_of("capacity_type", asked.spec.constraints.capacity_types, table),
        reason=lambda asked, offer: (
            f"sold as {offer.capacity_type}, asked for {', '.join(asked.spec.constraints.capacity_types)}"
        ),
    ),
    Filter(name="repeat", fate=Fate.NEVER, field="repeat", passes=_repeat, reason=_repeat_reason),
    Filter(
        name="runtime",
        fate=Fate.NEVER,
        field="runtime.type",
        passes=lambda asked, table: _all_of("runtimes", (str(asked.spec.runtime.kind),), table),
        reason=lambda asked, offer: (
            f"cannot run a {asked.spec.runtime.kind} ({', '.join(offer.runtimes) or 'nothing'} only)"
        ),
    ),
    Filter(
        name="gpu_count",
        fate=Fate.NEVER,
        field="resources.gpu_count",
        passes=_gpus,
        reason=lambda asked, offer: (
            f"has {offer.gpu.count if offer.gpu else 0} GPU, asked for {asked.demand.gpu_count}"
        ),
    ),
    Filter(
        name="gpu_model",
        fate=Fate.NEVER,
        field="resources.gpu_models",
        passes=_gpu_model,
        reason=_gpu_model_reason,
    ),
    Filter(
        name="gpu_memory",
        fate=Fate.NEVER,
        field="resources.minimum_gpu_memory_gb",
        passes=lambda asked, table: _enough("gpu_memory_bytes", table, asked.demand.gpu_memory_bytes),
        reason=lambda asked, offer: (
            f"GPU has {_has_gpu_memory(offer)}, asked for {format_bytes(asked.demand.gpu_memory_bytes or 0)}"
        ),
    ),
    Filter(
        name="gpu_features",
        fate=Fate.NEVER,
        field="resources.gpu_features",
        passes=lambda asked, table: _all_of("gpu_features", asked.spec.resources.gpu_features, table),
        reason=lambda asked, offer: (
            f"GPU lacks {_lacking(asked.spec.resources.gpu_features, offer.gpu.features if offer.gpu else ())}"
        ),
    ),
    Filter(
        name="compute_capability",
        fate=Fate.NEVER,
        field="resources.minimum_compute_capability",
        passes=lambda asked, table: _version("gpu_capability", asked.spec.resources.compute_capability, table),
        reason=lambda asked, offer: _version_reason(
            "compute capability",
            asked.spec.resources.compute_capability,
            offer.gpu.compute_capability if offer.gpu else None,
        ),
    ),
    Filter(
        name="driver",
        fate=Fate.NEVER,
        field="resources.minimum_driver_version",
        passes=lambda asked, table: _version("gpu_driver", asked.spec.resources.driver_version, table),
        reason=lambda asked, offer: _version_reason(
            "driver", asked.spec.resources.driver_version, offer.gpu.driver_version if offer.gpu else None
        ),
    ),
    Filter(
        name="cuda",
        fate=Fate.NEVER,
        field="resources.minimum_cuda_version",
        passes=lambda asked, table: _version("gpu_cuda", asked.spec.resources.cuda_version, table),
        reason=lambda asked, offer: _version_reason(
            "CUDA", asked.spec.resources.cuda_version, offer.gpu.cuda_version if offer.gpu else None
        ),
    ),
    Filter(
        name="cpu",
        fate=Fate.NEVER,
        field="resources.cpu_cores",
        passes=lambda asked, table: _enough("cpu_cores", table, asked.demand.cpu_cores),
        reason=lambda asked, offer: f"has {offer.cpu_cores} CPU cores, asked for {asked.demand.cpu_cores}",
    ),
    Filter(
        name="memory",
        fate=Fate.NEVER,
        field="resources.system_memory_gb",
        passes=lambda asked, table: _enough("memory_bytes", table, asked.demand.memory_bytes),
        reason=lambda asked, offer: (
            f"has {format_bytes(offer.memory_bytes)} of memory, asked for "
            f"{format_bytes(asked.demand.memory_bytes or 0)}"
        ),
    ),
    Filter(
        name="disk",
        fate=Fate.NEVER,
        field="resources.disk_gb",
        passes=lambda asked, table: _enough("disk_bytes", table, asked.demand.disk_bytes, unknown=True),
        reason=lambda asked, offer: (
            f"has {format_bytes(offer.disk_bytes or 0)} of disk, asked for {format_bytes(asked.demand.disk_bytes or 0)}"
        ),
    ),
    Filter(
        name="nodes",
        fate=Fate.NEVER,
        field="resources.nodes",
        passes=_nodes,
        reason=lambda asked, offer: f"gives at most {offer.nodes_max} node, asked for {asked.demand.nodes}",
    ),
    Filter(
        name="cost_cap",
        fate=Fate.NEVER,
        field="constraints.maximum_estimated_cost",
        passes=_cost_cap,
        reason=_cost_cap_reason,
    ),
    Filter(
        name="deadline",
        fate=Fate.NEVER,
        field="constraints.deadline",
        passes=_deadline,
        reason=lambda _asked, _offer: "cannot finish before the deadline",
    ),
    # The last: what it drops would fit if only somebody connected it.
    Filter(
        name="connected",
        fate=Fate.NEVER,
        field="",
        passes=_connected,
        reason=lambda _asked, offer: f"is only listed in {offer.price_source}; no adapter here offers it",
    ),
)
NOT_NOW_FILTERS = (
    Filter(name="quote", fate=Fate.NOT_NOW, field="quote", passes=within_quote, reason=_quote_reason),
    Filter(name="budget", fate=Fate.NOT_NOW, field="", passes=_budget, reason=_budget_reason),
    Filter(
        name="failed_here",
        fate=Fate.NOT_NOW,
        field="",
        passes=_excluded,
        reason=lambda _asked, _offer: "failed this workload a moment ago",
    ),
    Filter(name="blocked", fate=Fate.NOT_NOW, field="", passes=_blocked, reason=_blocked_reason),
    Filter(
        name="availability",
        fate=Fate.NOT_NOW,
        field="",
        passes=lambda _asked, table: _judged("availability", lambda word: word != Availability.FULL, table),
        reason=lambda _asked, _offer: "the provider has none free",
    ),
    Filter(name="free_capacity", fate=Fate.NOT_NOW, field="", passes=_free, reason=_free_reason),
)
ALL_FILTERS = (*NEVER_FILTERS, *NOT_NOW_FILTERS)
FILTER_FIELDS = {check.name: check.field for check in ALL_FILTERS}
