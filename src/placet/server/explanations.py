"""The route that explains why attempts run where they run."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import explanations as views
from placet.domain.blocks import Block
from placet.domain.decisions import Choice, Known
from placet.domain.offers import Offer
from placet.engine.queries import Explained, Explanation
from placet.server import forecasts, mapping, problems
from placet.server.asking import Asked, asked
from placet.server.doors import Doors, no_workload, reply, workload_id_of
from placet.server.table import Door, Route, principal_of
from placet.server.tokens import Scope
from placet.stages.explaining import WhatIf
from placet.stages.filters import FILTER_FIELDS
from placet.stages.learning import BETWEEN


class ExplainAsked(Asked):
    """How much is done."""

    replay: bool = Field(False, description="Make each choice again from its record, and say what differs.")


class Explanations:
    """The handler over queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What this handler answers to."""
        return (Route(door=EXPLANATION, endpoint=self.explanation),)

    async def explanation(self, request: Request) -> Response:
        """For each attempt: the choice, what it was made from, and what would have won if."""
        wanted = asked(request, ExplainAsked)
        tenant, workload_id = principal_of(request).tenant, workload_id_of(request)
        found = await self._doors.queries.explanation(tenant, workload_id, replay=wanted.replay)
        if found is None:
            raise no_workload()
        return reply(_explanation(found))


def _explanation(held: Explanation) -> views.ExplanationView:
    workload = held.record.workload
    told = {one.decision.epoch for one in held.explained}
    return views.ExplanationView(
        workload_id=workload.id,
        state=workload.state.value,
        reason="" if workload.final else workload.reason,
        decisions=[_decision(one) for one in held.explained],
        unrecorded=[attempt.epoch for attempt in held.record.attempts if attempt.epoch not in told],
    )


def _decision(held: Explained) -> views.DecisionView:
    made, offers = held.decision, {offer.id: offer for offer in held.decision.offers}
    return views.DecisionView(
        epoch=made.epoch,
        at=mapping.format_instant(made.at_ms),
        seed=made.seed,
        snapshot=made.snapshot,
        considered=made.considered,
        kept=len(made.offers),
        whole=made.whole,
        demand=mapping.demand(made.demand),
        spent_usd=mapping.money(made.spent_usd),
        quoted_usd=None if made.quoted is None else mapping.money(made.quoted.bound_usd),
        quote_left_usd=None if made.quoted is None else mapping.money(made.quoted.left_usd),
        exploration=made.exploration,
        excluded=list(made.excluded),
        ranked=[_choice(one, offers[one.offer_id]) for one in made.ranked],
        dropped=dict(made.drop_counts),
        filter_fields={name: FILTER_FIELDS.get(name, "") for name, _ in made.drop_counts},
        drops=[mapping.drop(one) for one in held.drops],
        blocks=[_block(one) for one in made.blocks],
        learnt=[_learnt(one) for one in made.known],
        what_if=[_what_if(one) for one in held.what_if],
        replay=None
        if held.replay is None
        else views.ReplayView(equal=not held.replay.differences, differences=list(held.replay.differences)),
    )


def _choice(held: Choice, offer: Offer) -> views.ChoiceView:
    return views.ChoiceView(
        offer=mapping.offer(offer),
        cost_usd=forecasts.bracket(held.cost_usd),
        score=str(held.score),
        parts=dict(held.parts),
    )


def _block(held: Block) -> views.BlockView:
    streak = held.streak
    return views.BlockView(
        scope=streak.scope.value,
        provider=streak.provider,
        region=streak.region,
        offer_id=streak.offer_id,
        cause=streak.cause.value,
        events=streak.events,
        until=mapping.format_instant(held.until_ms),
        workload_id=streak.workload_id,
        epoch=streak.epoch,
    )


def _learnt(held: Known) -> views.LearntView:
    tally = held.tally
    return views.LearntView(
        level=held.level.value,
        group=held.group.split(BETWEEN),
        starts=round(tally.starts, 3),
        failed_starts=round(tally.failed_starts, 3),
        hours=round(tally.hours, 3),
        losses=round(tally.losses, 3),
    )


def _what_if(held: WhatIf) -> views.WhatIfView:
    best = held.winner
    return views.WhatIfView(
        change=held.change,
        offer_id=None if best is None else best.offer_id,
        cost_usd=None if best is None else forecasts.bracket(best.cost_usd),
        same=held.same,
    )


EXPLANATION = Door(
    method="GET",
    path="/v1/workloads/{workload_id}/explanation",
    summary="Why attempts run where they run.",
    scope=Scope.READ,
    asked=ExplainAsked,
    reply=views.ExplanationView,
    refusals=(problems.BAD_REQUEST, problems.NOT_FOUND),
)
DOORS = (EXPLANATION,)
