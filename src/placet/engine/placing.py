"""The next attempt of a workload: what it asks for, what fits, and what is waited for."""

from placet.domain.budgets import next_month_ms
from placet.domain.failures import Cause, Failure
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate, Plan
from placet.domain.records import EventKind
from placet.domain.states import WorkloadState
from placet.domain.units import SECOND_MS
from placet.domain.values import evolve
from placet.engine.draft import Draft
from placet.engine.facts import Effect, Situation, Submit, World
from placet.stages import blocking, budgets, course, dispatch, placement, quote_wait, quotes, sizing
from placet.stages.enlarging import enlarged
from placet.stages.explaining import decision
from placet.stages.filters import Asked
from placet.stages.spot import Action

WAIT_CAPACITY = "capacity"
WAIT_BACKOFF = "backoff"
WAIT_SPOT = "spot"
WAIT_BUDGET = "budget"

# How long a workload that found nothing free sleeps at most before it looks again; freed capacity wakes it earlier.
CAPACITY_RECHECK_MS = 60 * SECOND_MS
# So often a workload that no budget allows now looks whether one does.
BUDGET_RECHECK_MS = 15 * SECOND_MS


def place_next(draft: Draft, situation: Situation) -> list[Effect]:
    """The next attempt, or what is waited for, or that nothing will ever fit."""
    workload, world = draft.workload, situation.world
    waits = workload.wait_for in (WAIT_BACKOFF, WAIT_SPOT)
    if waits and workload.wake_ms is not None and workload.wake_ms > draft.now_ms:
        return []
    offers = world.offers().open_to(workload.spec.constraints.providers.allowed)
    asked = asked_of(draft, world)
    asked = enlarged(asked, offers, draft.attempts, world.lessons.history(workload.tenant, asked.demand.kind))
    if course.follows(workload.spec):
        draft.course = course.look(asked, offers, workload, draft.attempts, draft.course)
    if draft.course is not None and draft.course.decision.action is Action.WAIT:
        draft.wait_for_spot(WAIT_SPOT, draft.course.decision.reason, draft.course.look_ms)
        return []
    asked, plan = _plan(draft, asked, offers)
    if plan.fate is Fate.FITS:
        sender = dispatch.Sender(deployment=world.deployment, worker=world.worker, nonce=situation.nonce)
        sent = dispatch.dispatch(workload, asked.demand, plan, situation.inputs, sender, draft.now_ms)
        allowed = world.budgets(workload.tenant, workload.token_id)
        over = budgets.beyond(sent.attempt, allowed)
        if over is not None:
            _wait_for_budget(draft, over)
            return []
        draft.begin_attempt(sent.attempt, sent.intent, sent.events, decision(workload, asked, offers, plan))
        for told in budgets.warnings(allowed, budgets.counted(sent.attempt)[0]):
            draft.tell(EventKind.BUDGET, epoch=sent.attempt.epoch, message=told)
        return [Submit(launch=sent.launch, intended_ms=draft.now_ms)]
    _place_later(draft, world, asked, offers, plan)
    return []


def _place_later(draft: Draft, world: World, asked: Asked, offers: OfferTable, plan: Plan) -> None:
    """Nothing fits now: what is waited for and until when, or why nothing will ever fit."""
    over = budgets.exceeded(asked, offers, world.budgets(draft.workload.tenant, draft.workload.token_id))
    if over is not None:
        _wait_for_budget(draft, over)
        return
    beyond = quote_wait.beyond(asked, offers)
    if plan.fate is Fate.NOT_NOW or not len(offers):
        looks_ms = [draft.now_ms + CAPACITY_RECHECK_MS, *(block.until_ms for block in asked.blocks)]
        reason = plan.reason
        if beyond is not None:
            end_ms = quote_wait.until_ms(draft.workload, draft.now_ms, world.quote_wait_s)
            if draft.now_ms >= end_ms and not draft.hands_off:
                draft.finish(WorkloadState.EXPIRED, quote_wait.over(beyond, "it has waited as long as it may"))
                return
            reason = quote_wait.waits(beyond, end_ms)
            looks_ms += [end_ms] if end_ms > draft.now_ms else []
        draft.wait(WAIT_CAPACITY, reason, min(looks_ms))
        return
    late = quote_wait.before_deadline(asked, offers)
    if beyond is not None:
        draft.finish(WorkloadState.FAILED, quote_wait.over(beyond, "its quote is used up"))
    elif late is not None:
        draft.finish(WorkloadState.EXPIRED, quote_wait.over(late, "its deadline came before a price within its quote"))
    else:
        raised = f"; {asked.demand.raised}" if asked.demand.raised else ""
        draft.finish(WorkloadState.FAILED, Failure(cause=Cause.NO_OFFER, message=plan.reason + raised))


def _wait_for_budget(draft: Draft, over: budgets.Exceeded) -> None:
    """It waits while a budget may allow it later: money that is set aside comes free, a month ends. Else it is over."""
    if over.for_ever:
        draft.finish(WorkloadState.FAILED, budgets.failure(over))
        return
    until_ms = min(draft.now_ms + BUDGET_RECHECK_MS, next_month_ms(draft.now_ms))
    draft.wait(WAIT_BUDGET, over.told, until_ms)


def asked_of(draft: Draft, world: World) -> Asked:
    """What the workload asks of an offer now."""
    workload = draft.workload
    return Asked(
        spec=workload.spec,
        demand=sizing.size(workload.spec, tenant=workload.tenant, lessons=world.lessons),
        now_ms=draft.now_ms,
        excluded=workload.excluded_offers,
        spent_usd=draft.spent_usd(),
        quoted=quotes.left(workload, draft.attempts, draft.now_ms),
        budget_usd=budgets.left_usd(world.budgets(workload.tenant, workload.token_id)),
        experience=world.lessons.experience,
        blocks=blocking.blocks(world.lessons, workload.tenant, draft.now_ms),
        exploration=world.exploration,
    )


def _plan(draft: Draft, asked: Asked, offers: OfferTable) -> tuple[Asked, Plan]:
    """What was asked in the end, and what came out: wishes that cannot be had are better dropped than waited for.

    First the lesser one, to stay away from the offer that has just failed; then what was decided about spot.
    """
    wishes = [asked] if draft.course is None else [course.narrowed(asked, draft.course), asked]
    if asked.excluded:
        wishes = [each for wish in wishes for each in (wish, evolve(wish, excluded=()))]
    for wish in wishes[:-1]:
        plan = placement.place(wish, offers, seed=draft.workload.id)
        if plan.fate is Fate.FITS:
            return wish, plan
    return wishes[-1], placement.place(wishes[-1], offers, seed=draft.workload.id)
