"""Why no offer can ever run a request, told by the bounds that bind, with the smallest changes that would help.

It explains; it never refuses what some offer could run. Whether the spec contradicts itself is ``admission``'s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations

from placet.domain.offer_table import OfferTable
from placet.domain.problems import Problem
from placet.domain.relaxations import Relaxation
from placet.domain.units import SECOND_MS, format_duration_ms, format_instant, format_money
from placet.stages import placement
from placet.stages.costs import worst_micro
from placet.stages.filters import FILTER_FIELDS, Asked
from placet.stages.relaxations import BIT, PAIR, Broken, Sizer, broken, relaxations, unconnected

PAIRS_TOLD = 3
# Money and time bind differently for each offer; they are told by their own figures.
NO_PAIRS = frozenset({"connected", "cost_cap", "deadline", "quote_spent"})
PAIR_CODES = {
    ("region", "jurisdiction"): "region_outside_jurisdiction",
    ("provider", "repeat"): "only_preemptible",
    ("region", "repeat"): "only_preemptible",
    ("capacity_type", "repeat"): "only_preemptible",
}
NOUNS = {
    "provider": "a provider that is allowed",
    "region": "a region that is allowed",
    "jurisdiction": "an allowed jurisdiction",
    "compliance": "the asked compliance",
    "capacity_type": "an allowed kind of capacity",
    "repeat": "a promise to start the program at most once",
    "runtime": "this kind of runtime",
    "gpu_count": "so many GPUs",
    "gpu_model": "an allowed GPU model",
    "gpu_memory": "so much GPU memory",
    "gpu_features": "the asked GPU features",
    "compute_capability": "the asked compute capability",
    "driver": "the asked driver",
    "cuda": "the asked CUDA version",
    "cpu": "so many CPU cores",
    "memory": "so much main memory",
    "disk": "so much disk",
    "nodes": "so many nodes",
}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What is wrong, and the ways out: over what can be dispatched to, then over what is only listed."""

    problems: tuple[Problem, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()


ACCEPTED = Refusal()


def refuse(asked: Asked, table: OfferTable, listed: OfferTable, resize: Sizer) -> Refusal:
    """Why nothing in ``table`` can ever run the request; ``ACCEPTED`` when something can.

    ``listed`` is what would have to be connected first: it is no ground to accept, but it may show a way out.
    """
    marked = broken(asked, table)
    if marked.feasible:
        return ACCEPTED
    ways = relaxations(asked, table, resize)
    elsewhere = unconnected(asked, listed, resize) if len(listed) else ()
    pairs = tuple(_pairs(marked))
    covered = {field for _, fields in pairs for field in fields}
    nearest = [
        _named(one, asked, table, marked) for one in placement.refusals(asked, table) if one.field not in covered
    ]
    problems = [problem for problem, _ in pairs] + nearest
    return Refusal(
        problems=tuple(replace(problem, fix=_fix(problem, ways, elsewhere)) for problem in problems),
        relaxations=(*ways, *elsewhere),
    )


def doubts(asked: Asked) -> tuple[Problem, ...]:
    """What makes success unlikely and is no ground to refuse: a deadline before nine of ten equal workloads ended."""
    deadline_ms, usual_s = asked.spec.constraints.deadline_ms, asked.demand.usual_s
    if deadline_ms is None or usual_s is None or deadline_ms <= asked.now_ms:
        return ()
    left_ms, least_ms = deadline_ms - asked.now_ms, int(usual_s.low * SECOND_MS)
    if least_ms <= left_ms:
        return ()
    return (
        Problem(
            code="deadline_unlikely",
            field="constraints.deadline",
            what=f"the deadline is in {format_duration_ms(left_ms)}, "
            f"and nine of ten equal workloads ran for more than {format_duration_ms(least_ms)}",
            why=usual_s.reason,
            fix=f"give a deadline after {format_instant(asked.now_ms + int(usual_s.high * SECOND_MS))}",
        ),
    )


def _pairs(marked: Broken) -> Iterable[tuple[Problem, tuple[str, str]]]:
    """Pairs of bounds each of which some offer meets, and no offer both."""
    names = [name for name in BIT if name not in NO_PAIRS and any(kind & BIT[name] for kind in marked.kinds)]
    met = [name for name in names if any(not kind & BIT[name] for kind in marked.kinds)]
    told = 0
    for one, other in combinations(met, 2):
        if told < PAIRS_TOLD and all(kind & (BIT[one] | BIT[other]) for kind in marked.kinds):
            told += 1
            yield _pair(one, other, len(marked.masks)), (FILTER_FIELDS[one], FILTER_FIELDS[other])


def _pair(one: str, other: str, count: int) -> Problem:
    fields = FILTER_FIELDS[one], FILTER_FIELDS[other]
    return Problem(
        code=PAIR_CODES.get((one, other), "bounds_never_meet"),
        field=fields[0],
        what=f"of {count} offers none has {NOUNS[one]} and {NOUNS[other]} as well; each of the two is met by some",
        why=f"{fields[0]} and {fields[1]} are strict bounds and are never relaxed silently",
        fix=f"relax {fields[0]} or {fields[1]}",
    )


def _named(problem: Problem, asked: Asked, table: OfferTable, marked: Broken) -> Problem:
    """A bound that alone keeps everything else out, under its own name and with its figures."""
    bounds = asked.spec.constraints
    if problem.field == FILTER_FIELDS["cost_cap"] and marked.alone("cost_cap").any() and bounds.cost_usd is not None:
        least = worst_micro(asked.demand, table)[marked.alone("cost_cap")].min() / 1e6
        most = format_money(asked.spent_usd + Decimal(repr(round(float(least), 6))))
        return replace(
            problem,
            code="over_budget",
            what=f"the cheapest offer that fits otherwise may cost {most}, the cap is {format_money(bounds.cost_usd)}",
            why="the cap bounds what the workload costs at worst: "
            + (asked.demand.runtime_s.reason if asked.demand.runtime_s else "no bound on the run time, so one hour"),
        )
    if problem.field == FILTER_FIELDS["deadline"] and marked.alone("deadline").any() and bounds.deadline_ms is not None:
        start_s = float(table.startup_s[marked.alone("deadline")].min())
        return replace(
            problem,
            code="deadline_too_soon",
            what=f"the deadline is in {format_duration_ms(bounds.deadline_ms - asked.now_ms)}, "
            f"and what would start soonest takes {format_duration_ms(int(start_s * SECOND_MS))} to start",
            why="nothing could run before it has started",
        )
    if problem.field == FILTER_FIELDS["repeat"] and marked.alone("repeat").any():
        return replace(
            problem, code="only_preemptible", why="a program that may run at most once is never started again"
        )
    return problem


def _fix(problem: Problem, ways: Sequence[Relaxation], elsewhere: Sequence[Relaxation]) -> str:
    """The ways out with their price; what was said before where there is none."""
    if not ways:
        return f"{problem.fix}; only listed: {said(elsewhere[0])}" if elsewhere else problem.fix
    count = len(ways[0].changes)
    if count > 1:
        whole = "both" if count == PAIR else f"all {count}"
        return f"change {whole}: " + f"; or {whole}: ".join(said(way) for way in ways[:3])
    ours = [way for way in ways if way.changes[0].field == problem.field]
    others = [way for way in ways if way not in ours]
    return "; or ".join(said(way) for way in [*ours, *others][:4])


def said(way: Relaxation) -> str:
    """``allow spot: $1.12/h, starts in about 3m 00s``, for a sentence."""
    words = [change.words for change in way.changes]
    changes = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    if not way.offer.connected:
        changes = f"{changes} and connect {way.offer.provider}" if changes else f"connect {way.offer.provider}"
    start = format_duration_ms(int(way.start_s * SECOND_MS)) if way.now else "when it is free again"
    about = "starts in about " if way.now else "starts "
    return f"{changes}: {format_money(way.offer.price_usd_per_hour)}/h, {about}{start}"
