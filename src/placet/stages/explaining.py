"""The record of a choice, the choice made again from its record, and what would have won if. Nothing is applied."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from placet.domain.decisions import Choice, Decision, Known
from placet.domain.experience import Experience
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer, Plan
from placet.domain.records import Workload
from placet.domain.spec import Objective, Spec
from placet.domain.values import evolve
from placet.stages.exploring import without
from placet.stages.filters import NO_EXPERIENCE, Asked
from placet.stages.learning import LEVELS, group_of
from placet.stages.placement import place

# Up to so many offers are kept whole. Of more, the ranked ones and the dropped ones that the plan names are: at most
# ``ranking.RANKED_MAX`` and ``placement.DROPS_SHOWN``.
KEPT_WHOLE = 25
KNOWN_OF_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A choice made again from its record; ``differences`` is empty when it came out the same."""

    plan: Plan
    differences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What would have won among the kept offers if something had been asked otherwise; ``None``: nothing fits."""

    change: str
    winner: Choice | None
    same: bool


def decision(workload: Workload, asked: Asked, table: OfferTable, plan: Plan) -> Decision:
    """The record of a plan with a best offer, for the workload's next attempt."""
    offers = _kept(table, plan)
    return Decision(
        workload_id=workload.id,
        epoch=workload.epoch + 1,
        at_ms=asked.now_ms,
        seed=workload.id,
        demand=asked.demand,
        within=asked.within,
        excluded=asked.excluded,
        spent_usd=asked.spent_usd,
        quoted=asked.quoted,
        budget_usd=asked.budget_usd,
        blocks=asked.blocks,
        exploration=asked.exploration,
        known=_known(asked.experience, offers) if asked.experience.tallies else (),
        snapshot=_digest(table),
        considered=len(table),
        whole=len(table) <= KEPT_WHOLE,
        offers=offers,
        ranked=_choices(plan),
        drop_counts=plan.drop_counts,
    )


def _kept(table: OfferTable, plan: Plan) -> tuple[Offer, ...]:
    ranked = {one.offer.id: one.offer for one in plan.ranked}
    if len(table) <= KEPT_WHOLE:
        if len(ranked) == len(table):
            return tuple(ranked.values())
        return tuple(table.offer(row) for row in range(len(table)))
    rows = (table.row_of(drop.offer_id) for drop in plan.drops)
    return (*ranked.values(), *(table.offer(row) for row in rows if row is not None))


def _known(experience: Experience, offers: tuple[Offer, ...]) -> tuple[Known, ...]:
    """What is known of the groups of some offers, each once; of one offer it is worked out once per experience."""
    kept: dict[str, dict[str, Known]] = experience.derived.setdefault("known", {})
    if len(kept) > KNOWN_OF_MAX:
        kept.clear()
    known: dict[str, Known] = {}
    for offer in offers:
        groups = kept.get(offer.id)
        if groups is None:
            groups = kept[offer.id] = _groups(experience, offer)
        known.update(groups)
    return tuple(known.values())


def _groups(experience: Experience, offer: Offer) -> dict[str, Known]:
    model, capacity = offer.gpu.model if offer.gpu else "", str(offer.capacity_type)
    groups = {}
    for level in LEVELS:
        name = group_of(level, offer.id, offer.provider, offer.region, model, capacity)
        tally = experience.tallies.get((level, name))
        if tally is not None:
            groups[f"{level} {name}"] = Known(level=level, group=name, tally=tally)
    return groups


def _choices(plan: Plan) -> tuple[Choice, ...]:
    return tuple(
        [Choice(offer_id=one.offer.id, cost_usd=one.cost_usd, score=one.score, parts=one.parts) for one in plan.ranked]
    )


def _digest(table: OfferTable) -> str:
    known: str | None = table.derived.get("digest")
    if known is None:
        hashed = hashlib.blake2b(digest_size=16)
        for column in (table.id_hash, table.price_micro, table.startup_s):
            hashed.update(column.tobytes())
        known = table.derived["digest"] = hashed.hexdigest()
    return known


def again(spec: Spec, made: Decision) -> Asked:
    """What the kept offers were measured against."""
    return Asked(
        spec=spec if made.within is None else made.within.of(spec),
        within=made.within,
        demand=made.demand,
        now_ms=made.at_ms,
        excluded=made.excluded,
        spent_usd=made.spent_usd,
        quoted=made.quoted,
        budget_usd=made.budget_usd,
        blocks=made.blocks,
        exploration=made.exploration,
        experience=Experience(tallies={(one.level, one.group): one.tally for one in made.known}),
    )


def replay(spec: Spec, made: Decision) -> Replay:
    """Choose again among the kept offers, and say what comes out otherwise than recorded."""
    plan = place(again(spec, made), OfferTable.of(made.offers), seed=made.seed)
    return Replay(plan=plan, differences=tuple(_differences(made, plan)))


def _differences(made: Decision, plan: Plan) -> Iterator[str]:
    then, now = made.ranked, _choices(plan)
    winners = [choices[0].offer_id if choices else "nothing" for choices in (then, now)]
    if winners[0] != winners[1]:
        yield f"{winners[0]} was chosen, now {winners[1]} is"
    if len(then) != len(now):
        yield f"{len(then)} offers were ranked, now {len(now)} are"
    for place_, (before, after) in enumerate(zip(then, now, strict=False), 1):
        if before.offer_id != after.offer_id:
            yield f"place {place_}: {before.offer_id} then, {after.offer_id} now"
        elif before != after:
            yield f"place {place_}, {before.offer_id}: score {before.score} then, {after.score} now"
    if made.whole and dict(made.drop_counts) != dict(plan.drop_counts):
        yield f"dropped then: {dict(made.drop_counts)}, now: {dict(plan.drop_counts)}"


def what_if(spec: Spec, made: Decision) -> tuple[WhatIf, ...]:
    """What would have won without each soft preference, for each other objective, and without what was learnt."""
    table, winner = OfferTable.of(made.offers), made.ranked[0].offer_id if made.ranked else ""
    found = []
    for change, asked in _changes(again(spec, made)):
        choices = _choices(place(asked, table, seed=made.seed))
        best = choices[0] if choices else None
        found.append(WhatIf(change=change, winner=best, same=best is not None and best.offer_id == winner))
    return tuple(found)


def _changes(asked: Asked) -> Iterator[tuple[str, Asked]]:
    bounds = asked.spec.constraints

    def bounded(**changed: object) -> Asked:
        return evolve(asked, spec=evolve(asked.spec, constraints=evolve(bounds, **changed)))

    if bounds.providers.preferred:
        yield "without preferred providers", bounded(providers=evolve(bounds.providers, preferred=()))
    if bounds.regions.preferred:
        yield "without preferred regions", bounded(regions=evolve(bounds.regions, preferred=()))
    if bounds.startup_latency_s is not None:
        yield "without the preferred start-up time", bounded(startup_latency_s=None)
    if bounds.reserved_first:
        yield "without reserved capacity first", bounded(reserved_first=False)
    yield from _memories(asked)
    for objective in Objective:
        if objective is not asked.spec.objective:
            yield f"with objective {objective}", evolve(asked, spec=evolve(asked.spec, objective=objective))


def _memories(asked: Asked) -> Iterator[tuple[str, Asked]]:
    """Without what is remembered of the past, piece by piece."""
    if asked.exploration:
        yield "without exploring", without(asked)
    if asked.excluded:
        yield "with the offers that had just failed it", evolve(asked, excluded=())
    if asked.blocks:
        yield "with the offers that are blocked", evolve(asked, blocks=())
    if asked.experience.tallies:
        yield "without what attempts have taught", evolve(asked, experience=NO_EXPERIENCE)
