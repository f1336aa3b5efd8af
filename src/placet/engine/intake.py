"""The use cases that change what is wanted: submit, cancel, retry; and the estimate. Idempotent, and quick."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Protocol

from placet.domain.budgets import Budgeted
from placet.domain.errors import StoreError
from placet.domain.failures import MEANINGS, Cause
from placet.domain.forecasts import Forecast
from placet.domain.lessons import Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Demand, Drop, Interval, Plan, Ranked
from placet.domain.problems import Problem
from placet.domain.quotes import Quote, Terms
from placet.domain.records import (
    Acceptance,
    Accepted,
    AcceptOutcome,
    Event,
    EventKind,
    Expect,
    Lease,
    Transition,
    Workload,
)
from placet.domain.relaxations import Relaxation
from placet.domain.spec import Spec
from placet.domain.states import Desired, WorkloadState
from placet.domain.units import SECOND_MS
from placet.engine.apply import apply
from placet.engine.market import LISTS_WITHIN_S, Market
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock, Ids
from placet.ports.store import Store
from placet.stages import admission, blocking, budgets, forecast, placement, quotes, refusal, relaxations, sizing
from placet.stages.disk import DiskEstimate, disk_of
from placet.stages.enlarging import enlarged
from placet.stages.filters import Asked
from placet.stages.memory.demanded import model_memory
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.measured import MeasuredMemory, measured_memory
from placet.stages.memory.values import MemoryEstimate, UnknownModel

# A cancel that loses its race to another write looks again; each loss means that the workload moved.
CANCEL_TRIES = 50
# How long a quote is valid.
QUOTE_S = 900.0
QUOTE_KEY = "quotes"

NO_MODEL = Problem(
    code="missing_field",
    field="model",
    what="`model` is not given",
    why="it says what the memory is needed for",
    fix="add for example `model: {id: meta-llama/Llama-3.1-8B, task: lora}`",
)


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request to run a spec. The same key with the same body is the same workload.

    ``body_digest`` says which bodies are the same where the spec alone cannot: ``+2h`` is another moment each time.
    ``quote`` is the text of a quote whose terms must still hold, ``token_id`` the token that it came with.
    """

    tenant: str
    spec: Spec
    key: str | None
    actor: str
    retry_of: str | None = None
    body_digest: str | None = None
    quote: str | None = None
    token_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """The workload; ``existed`` when the key was known. ``doubts`` are no ground to refuse."""

    workload: Workload
    existed: bool
    doubts: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Nothing was done, and why; and what would have to change."""

    problems: tuple[Problem, ...]
    relaxations: tuple[Relaxation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """The key belongs to a workload with another body; nothing was done."""

    workload_id: str


@dataclass(frozen=True, kw_only=True)
class NotFinal:
    """Only what has ended can be tried again."""

    workload: Workload


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What would happen: ``problems`` is empty exactly when the spec would be accepted now.

    ``forecast`` and ``quote`` are of the best offer; ``now`` is false when it has to be waited for.
    """

    demand: Demand
    plan: Plan
    cost_usd: Interval | None
    assumptions: tuple[str, ...]
    problems: tuple[Problem, ...]
    listed: tuple[Ranked, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    doubts: tuple[Problem, ...] = ()
    forecast: Forecast | None = None
    now: bool = True
    at_ms: int = 0
    quote: Quote | None = None


@dataclass(frozen=True, kw_only=True)
class Sized:
    """The GPU memory that a model needs by its shape and by what equal workloads were measured to use, and the disk."""

    estimate: MemoryEstimate | None
    measured: MeasuredMemory | None = None
    disk: DiskEstimate | None = None

    @property
    def recommended_bytes(self) -> int:
        return 0 if self.estimate is None else sizing.recommended_bytes(self.estimate, self.measured)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """All that is wrong with a spec here and now, and what offers are measured against."""

    asked: Asked
    problems: tuple[Problem, ...]
    relaxations: tuple[Relaxation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Match:
    """What became of every offer for one spec: ``plan`` over all that is known, ``listed`` what is only listed and
    would fit, ``drops`` the first so many of those that do not fit, the nearest first."""

    demand: Demand
    plan: Plan
    considered: int
    listed: tuple[Ranked, ...]
    drops: tuple[Drop, ...]
    problems: tuple[Problem, ...]
    relaxations: tuple[Relaxation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StopOutcome:
    """What a cancel did: ``changed`` when it was the one that asked; ``already_final`` when it came too late."""

    workload: Workload
    already_final: bool
    changed: bool


class Fingerprint(Protocol):
    """The canonical form of a spec, as digests."""

    def spec_digest(self, spec: Spec) -> str:
        """The digest that identifies the spec in results."""

    def body_digest(self, spec: Spec) -> str:
        """The digest that two requests with one key must share."""


def _as_it_is(spec: Spec) -> Spec:
    return spec


async def _no_secrets(_tenant: str, _spec: Spec) -> tuple[Problem, ...]:
    return ()


async def _no_budgets(_tenant: str, _token_id: str) -> Sequence[Budgeted]:
    return ()


class Owner(Protocol):
    """The worker of this process, which moves what is accepted here if it can."""

    def lease_for_new(self) -> Lease | None:
        """Ownership for a workload that is about to be accepted."""

    def first_step(self, workload: Workload) -> Transition | None:
        """What becomes of it at once if it is ours, to be written together with its acceptance."""

    def accepted(self, workload: Workload, *, stepped: bool | None) -> None:
        """It is stored; ``stepped`` if its first step is too, ``None`` when nobody can know."""

    def not_accepted(self, workload: Workload, *, in_doubt: bool) -> None:
        """It is not, or nobody can know."""

    def lessons(self) -> Lessons:
        """What it was taught by attempts."""

    def touched(self, workload_id: str) -> None:
        """Its row was written by somebody else than its owner."""


@dataclass(frozen=True, kw_only=True)
class IntakePorts:
    """What intake talks to. ``check`` finds what is wrong with a spec here and now, such as missing inputs;
    ``complete`` writes into a spec what its model says of itself and how large its inputs are, so that sizing it later
    gives the same; ``budgets`` are those that an attempt of a tenant and a token must be within; ``secrets``
    finds those that a spec names and its tenant does not have."""

    store: Store
    clock: Clock
    ids: Ids
    fingerprint: Fingerprint
    offers: Market
    check: Callable[[Spec], tuple[Problem, ...]]
    owner: Owner
    complete: Callable[[Spec], Spec] = _as_it_is
    quote_s: float = QUOTE_S
    budgets: Callable[[str, str], Awaitable[Sequence[Budgeted]]] = _no_budgets
    secrets: Callable[[str, Spec], Awaitable[tuple[Problem, ...]]] = _no_secrets


def _listed(asked: Asked, table: OfferTable) -> tuple[Ranked, ...]:
    """What is only listed and would fit if its provider were connected, best first."""
    return placement.place(replace(asked, hypothetical=True), table, seed="").ranked if len(table) else ()


class Intake:
    """The front door for changes. It decides nothing that a stage decides, and waits for nothing but the store."""

    def __init__(self, ports: IntakePorts) -> None:
        self._ports = ports
        self._key: bytes | None = None

    async def submit(self, submission: Submission) -> Submitted | Refused | Conflict:
        """Accept durably, or say why not. When this returns ``Submitted`` the workload survives a power cut.

        A known key is never refused: what was accepted stays accepted when the world has changed.
        """
        digest = submission.body_digest or self._ports.fingerprint.body_digest(submission.spec)
        submission = replace(submission, spec=await self._completed(submission.spec))
        judged = await self._judged(submission.tenant, submission.spec)
        allowed = await self._ports.budgets(submission.tenant, submission.token_id)
        over = self._over(judged.asked, allowed)
        problems = judged.problems or await self._beyond(submission, digest, judged.asked) or over
        if problems:
            known = (
                None
                if submission.key is None
                else await self._ports.store.submission(submission.tenant, submission.key)
            )
            if known is None:
                return Refused(problems=problems, relaxations=judged.relaxations)
            return await self._known(submission.tenant, known.workload_id, known.body_digest == digest)
        terms = await self._terms(submission)
        acceptance = self._acceptance(submission, digest, None if terms is None else terms.bound_usd)
        accepted = await self._accept(acceptance)
        if accepted.outcome is AcceptOutcome.CREATED:
            doubts = (*refusal.doubts(judged.asked), *self._low(judged.asked, allowed))
            return Submitted(workload=acceptance.workload, existed=False, doubts=doubts)
        existed = accepted.outcome is AcceptOutcome.EXISTED
        return await self._known(submission.tenant, accepted.workload_id, existed)

    def _over(self, asked: Asked, allowed: Sequence[Budgeted]) -> tuple[Problem, ...]:
        """Is the first attempt beyond a budget?"""
        over = budgets.exceeded(asked, self._offers(asked.spec), allowed)
        return () if over is None else (budgets.refuse(over),)

    def _low(self, asked: Asked, allowed: Sequence[Budgeted]) -> tuple[Problem, ...]:
        """Budgets of which little is left with it."""
        least = budgets.least_usd(asked, self._offers(asked.spec)) if allowed else None
        return budgets.doubts(allowed, least or Decimal(0))

    async def _accept(self, acceptance: Acceptance) -> Accepted:
        """Store it, and with it its first step: handed in one after the other, the two share a commit."""
        workload, owner = acceptance.workload, self._ports.owner
        step = owner.first_step(workload)
        try:
            accepted, stepped = await asyncio.gather(
                passing(Point.ACCEPT, self._ports.store.accept(acceptance)),
                apply(self._ports.store, [] if step is None else [step]),
                return_exceptions=True,
            )
            if isinstance(accepted, BaseException):
                raise accepted
            if isinstance(stepped, BaseException) and not isinstance(stepped, StoreError):
                raise stepped
        except BaseException:
            owner.not_accepted(workload, in_doubt=True)
            raise
        if accepted.outcome is AcceptOutcome.CREATED:
            owner.accepted(workload, stepped=None if isinstance(stepped, StoreError) else any(stepped))
        else:
            owner.not_accepted(workload, in_doubt=False)
        return accepted

    async def _known(self, tenant: str, workload_id: str, same_body: bool) -> Submitted | Conflict:
        workload = await self._ports.store.find(tenant, workload_id)
        if not same_body or workload is None:
            return Conflict(workload_id=workload_id)
        return Submitted(workload=workload, existed=True)

    def _acceptance(self, submission: Submission, digest: str, quoted_usd: Decimal | None) -> Acceptance:
        now_ms = self._ports.clock.now_ms()
        workload = Workload(
            id=self._ports.ids.workload_id(now_ms),
            tenant=submission.tenant,
            spec=submission.spec,
            spec_digest=self._ports.fingerprint.spec_digest(submission.spec),
            created_ms=now_ms,
            updated_ms=now_ms,
            state_since_ms=now_ms,
            state=WorkloadState.ACCEPTED,
            wake_ms=0,  # due whatever any clock says
            lease=self._ports.owner.lease_for_new() or Lease(),
            retry_of=submission.retry_of,
            quoted_usd=quoted_usd,
            token_id=submission.token_id,
        )
        quoted = () if submission.quote is None else (("quote", submission.quote.strip()),)
        event = Event(
            workload_id=workload.id,
            kind=EventKind.ACCEPTED,
            at_ms=now_ms,
            actor=submission.actor,
            to_state=str(workload.state),
            data=(("spec_digest", workload.spec_digest), *quoted),
        )
        return Acceptance(workload=workload, event=event, key=submission.key, body_digest=digest)

    async def estimate(
        self, tenant: str, spec: Spec, *, body_digest: str | None = None, quote: str | None = None, token_id: str = ""
    ) -> Estimate:
        """What would become of a spec now, a quote for it, and whether an earlier ``quote`` still holds; also the dry
        run of a submit."""
        digest = body_digest or self._ports.fingerprint.body_digest(spec)
        spec = await self._completed(spec)
        await self._ports.offers.settled(LISTS_WITHIN_S)
        judged = await self._judged(tenant, spec)
        asked, offers = judged.asked, self._offers(spec)
        plan = placement.place(asked, offers, seed="")
        best = relaxations.best_ever(asked, offers)
        expected = None if best is None else forecast.forecast(best.ranked, asked.demand, spec.repeat)
        submission = Submission(tenant=tenant, spec=spec, key=None, actor="", quote=quote)
        allowed = await self._ports.budgets(tenant, token_id)
        problems = judged.problems or await self._beyond(submission, digest, asked) or self._over(asked, allowed)
        return Estimate(
            demand=asked.demand,
            plan=plan,
            cost_usd=None if best is None else best.ranked.cost_usd,
            assumptions=() if best is None else forecast.assumptions(best.ranked, asked.demand, spec.repeat),
            problems=problems,
            listed=_listed(asked, self._ports.offers.listed.table),
            relaxations=judged.relaxations,
            doubts=(*refusal.doubts(asked), *self._low(asked, allowed)),
            forecast=expected,
            now=best is not None and best.now,
            at_ms=asked.now_ms,
            quote=None if problems or expected is None else await self._quote(tenant, digest, expected, asked.now_ms),
        )

    async def _quote(self, tenant: str, digest: str, expected: Forecast, now_ms: int) -> Quote:
        expires_ms = now_ms + int(self._ports.quote_s * SECOND_MS)
        return quotes.issue(await self._quote_key(), tenant, digest, expected, expires_ms)

    async def _beyond(self, submission: Submission, digest: str, asked: Asked) -> tuple[Problem, ...]:
        """How the world has moved beyond the quote of a submission, if it came with one."""
        if submission.quote is None:
            return ()
        terms = await self._terms(submission)
        best = relaxations.best_ever(asked, self._offers(asked.spec))
        expected = None if best is None else forecast.forecast(best.ranked, asked.demand, asked.spec.repeat)
        return quotes.judge(terms, digest, expected, asked.now_ms)

    async def _terms(self, submission: Submission) -> Terms | None:
        if submission.quote is None:
            return None
        return quotes.read(await self._quote_key(), submission.tenant, submission.quote)

    async def _quote_key(self) -> bytes:
        if self._key is None:
            self._key = await passing(Point.QUOTE_KEY, self._ports.store.secret(QUOTE_KEY))
        return self._key

    async def match(self, tenant: str, spec: Spec, drops_max: int) -> Match:
        """What becomes of every offer that is known, price lists included, when it is held against a spec."""
        spec = await self._completed(spec)
        market = self._ports.offers
        await market.settled(LISTS_WITHIN_S)
        judged = await self._judged(tenant, spec)
        asked, listed = judged.asked, market.listed.table
        table = market.everything().open_to(spec.constraints.providers.allowed)

        def held() -> Match:
            return Match(
                demand=asked.demand,
                plan=placement.place(asked, table, seed=""),
                considered=len(table),
                listed=_listed(asked, listed),
                drops=placement.why_not(asked, table, drops_max),
                problems=judged.problems,
                relaxations=judged.relaxations,
            )

        return await asyncio.to_thread(held)  # a sentence for each of a thousand offers takes a while

    async def measure(self, tenant: str, spec: Spec) -> Sized | Refused:
        """How much GPU memory the spec's model needs and how much disk it takes; no offer is looked at."""
        completed = await self._completed(spec)
        disk = disk_of(completed)
        if completed.model is None:
            return Refused(problems=(NO_MODEL,)) if disk is None else Sized(estimate=None, disk=disk)
        problems = await asyncio.to_thread(self._ports.check, completed)
        ours = tuple(problem for problem in problems if problem.field.startswith("model"))
        if ours:
            return Refused(problems=ours)
        match model_memory(completed) or estimate_memory(completed.model):
            case MemoryEstimate() as estimate:
                history = self._ports.owner.lessons().history(tenant, sizing.kind_of(completed))
                return Sized(estimate=estimate, measured=measured_memory(history, estimate.gpu_count), disk=disk)
            case UnknownModel() as unknown:
                return Refused(problems=(admission.unknown_model(unknown),))

    def _offers(self, spec: Spec) -> OfferTable:
        """What there is for this spec; what wants to be named, only where it is."""
        return self._ports.offers().open_to(spec.constraints.providers.allowed)

    async def _completed(self, spec: Spec) -> Spec:
        if not spec.inputs and (spec.model is None or spec.model.architecture is not None):
            return spec
        return await asyncio.to_thread(self._ports.complete, spec)

    async def _judged(self, tenant: str, spec: Spec) -> Judged:
        """Everything that is wrong with a spec here and now, told once for each field, and what would help."""
        now_ms = self._ports.clock.now_ms()
        if spec.inputs or spec.model is not None:
            problems = await asyncio.to_thread(self._ports.check, spec)
        else:
            problems = self._ports.check(spec)
        problems = (*problems, *await self._ports.secrets(tenant, spec))
        lessons = self._ports.owner.lessons()
        resize = partial(sizing.size, tenant=tenant, lessons=lessons)
        asked = Asked(
            spec=spec,
            demand=resize(spec),
            now_ms=now_ms,
            experience=lessons.experience,
            blocks=blocking.blocks(lessons, tenant, now_ms),
        )
        own, offers = (*problems, *admission.admit(spec, now_ms)), self._offers(spec)
        if not len(offers) or placement.feasible(asked, offers):
            asked = enlarged(asked, offers, history=lessons.history(tenant, asked.demand.kind))
            return Judged(asked=asked, problems=own)
        # In a thread: what would help takes a few decisions over all offers.
        listed = self._ports.offers.listed.table
        refused = await asyncio.to_thread(refusal.refuse, asked, offers, listed, resize)
        told = {problem.field for problem in own}
        more = tuple(problem for problem in refused.problems if problem.field not in told)
        return Judged(asked=asked, problems=(*own, *more), relaxations=refused.relaxations)

    async def cancel(self, tenant: str, workload_id: str, actor: str) -> StopOutcome | None:
        """Ask for an end, durably; ``None`` when there is no such workload. Repeating it changes nothing."""
        for _ in range(CANCEL_TRIES):
            workload = await self._ports.store.find(tenant, workload_id)
            if workload is None:
                return None
            if workload.final:
                return StopOutcome(workload=workload, already_final=True, changed=False)
            if workload.desired is Desired.STOP:
                return StopOutcome(workload=workload, already_final=False, changed=False)
            transition = self._stop(workload, actor)
            if (await apply(self._ports.store, [transition]))[0]:
                self._ports.owner.touched(workload_id)
                return StopOutcome(workload=transition.workload, already_final=False, changed=True)
        raise RuntimeError(f"{workload_id} was written by others {CANCEL_TRIES} times in a row")

    def _stop(self, workload: Workload, actor: str) -> Transition:
        now_ms = self._ports.clock.now_ms()
        wanted = replace(workload, desired=Desired.STOP, revision=workload.revision + 1, updated_ms=now_ms, wake_ms=0)
        event = Event(
            workload_id=workload.id,
            kind=EventKind.DESIRED,
            at_ms=now_ms,
            actor=actor,
            from_state=str(workload.desired),
            to_state=str(wanted.desired),
            cause=str(Cause.CANCELLED),
            message=MEANINGS[Cause.CANCELLED].fix,
        )
        expect = Expect(revision=workload.revision, state=workload.state, lease=None)
        return Transition(expect=expect, workload=wanted, events=(event,), flush=True)

    async def retry(
        self, tenant: str, workload_id: str, actor: str, key: str | None, token_id: str = ""
    ) -> Submitted | Refused | Conflict | NotFinal | None:
        """Submit the spec of an ended workload again, as a new workload that remembers the old one."""
        workload = await self._ports.store.find(tenant, workload_id)
        if workload is None:
            return None
        if not workload.final:
            return NotFinal(workload=workload)
        return await self.submit(
            Submission(tenant=tenant, spec=workload.spec, key=key, actor=actor, retry_of=workload_id, token_id=token_id)
        )
