"""Design mutants: the real engine with one rule of safety taken out. A world that does not notice is blind."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from placet.adapters.store import items, memory
from placet.adapters.store.sql import MOVABLE, Statement, Statements
from placet.adapters.store.sqlite import Sqlite
from placet.domain.account import Truth
from placet.domain.allocations import ContractCard, Observation, Phase
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, Expect, Transition
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, WorkloadState
from placet.domain.values import evolve
from placet.engine import decide, draft, effects, intake, reaper, reconcile, timekeeping
from placet.engine.facts import AnswerPermit, Cancel, Submit, SubmitAnswer
from placet.stages import account, limits, recovery, tracking

Patch: TypeAlias = tuple[object, str, object]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One rule removed; ``faults`` of that strength bring it to light, providers with one of ``cards``, and so many
    ``workers``, where it takes more than one.
    """

    name: str
    removed: str
    patches: Callable[[], Sequence[Patch]]
    faults: tuple[str, ...] = ()
    strength: float = 2.0
    faults_s: float | None = None
    cards: tuple[str, ...] = ()
    workers: int | None = None


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The engine is so for as long as the context lasts."""
    with ExitStack() as undo:
        for where, name, value in mutant.patches():
            known = getattr(where, name)
            setattr(where, name, value)
            undo.callback(setattr, where, name, known)
        yield


def _after(where: object, name: str, change: Callable[..., Any]) -> Sequence[Patch]:
    """The function, with its outcome changed; ``change`` gets the outcome and the arguments."""
    real = getattr(where, name)

    def changed(*arguments: Any, **named: Any) -> Any:
        return change(real(*arguments, **named), *arguments, **named)

    return [(where, name, changed)]


def _instead(where: object, name: str, value: object) -> Sequence[Patch]:
    return [(where, name, value)]


def _nothing(*asked: object) -> None:
    del asked


def _zero(*asked: object) -> Decimal:
    del asked
    return Decimal(0)


# The rules, by what is done in their place


def _unclear_is_refused() -> Sequence[Patch]:
    async def taken_for_refused(told: Awaitable[SubmitAnswer], *rest: object) -> SubmitAnswer:
        del rest
        return replace(await told, unclear=False)

    return _after(effects.Effects, "_submit", taken_for_refused)


def _one_look() -> Sequence[Patch]:
    def proven(told: bool, attempt: Attempt, *rest: object) -> bool:
        del rest
        return told or (attempt.handle is None and attempt.permit_ms is None and attempt.absent_reads >= 1)

    return _after(tracking, "absence_proven", proven)


def _no_window() -> Sequence[Patch]:
    real = tracking.absence_proven

    def proven(attempt: Attempt, card: ContractCard, now_ms: int, *rest: float) -> bool:
        return real(attempt, evolve(card, late_create_s=0.0, visibility_s=0.0), now_ms, *rest)

    return _instead(tracking, "absence_proven", proven)


def _gone_at_once() -> Sequence[Patch]:
    def proven(told: bool, attempt: Attempt, *rest: object) -> bool:
        del rest
        return told or (attempt.handle is not None and attempt.absent_reads >= 1)

    return _after(tracking, "absence_proven", proven)


def _send_first() -> Sequence[Patch]:
    real = reconcile.Reconciler._step

    def step(self: Any, owned: Any, facts: Any, world: Any) -> Any:
        decided = real(self, owned, facts, world)
        for effect in decided.effects:
            if isinstance(effect, Submit):
                self._begin(owned, effect)
        left = tuple(effect for effect in decided.effects if not isinstance(effect, Submit))
        return replace(decided, effects=left)

    return _instead(reconcile.Reconciler, "_step", step)


def _stop_believed() -> Sequence[Patch]:
    real = effects.Effects.perform

    async def perform(self: Any, workload: Any, effect: Any) -> Any:
        facts = await real(self, workload, effect)
        if not isinstance(effect, Cancel):
            return facts
        stopped = Observation(
            key=effect.handle.key,
            phase=Phase.ENDED,
            observed_ms=self._clock.now_ms(),
            source="belief",
            cause=Cause.STOPPED,
            collected=True,
        )
        return (*facts, stopped)

    return _instead(effects.Effects, "perform", perform)


def _no_sweep() -> Sequence[Patch]:
    async def nothing(self: object, deployment: str) -> Sequence[object]:
        del self, deployment
        return ()

    return _instead(reaper.Reaper, "sweep", nothing)


def _every_permit() -> Sequence[Patch]:
    def granted(told: Sequence[AnswerPermit], *rest: object) -> Sequence[AnswerPermit]:
        del rest
        return tuple(replace(one, granted=True, reason="") for one in told)

    return _after(decide, "_permit", granted)


class _Unguarded(Statements):
    """The store's own rule that an ended workload stays as it ended is out too."""

    @cached_property
    def end(self) -> Statement:
        return self._compiled(self._guarded(), MOVABLE)


class _Unconditional(Statements):
    """A row is written whatever became of it since it was read."""

    def _expected(self) -> tuple[()]:
        return ()


def _stale_writes() -> Sequence[Patch]:
    unconditional = _Unconditional(Sqlite(Path(":memory:")))
    return _instead(memory, "_statements", lambda: unconditional)


def _second_verdict() -> Sequence[Patch]:
    real = intake.Intake.cancel

    async def cancel(self: Any, tenant: str, workload_id: str, actor: str) -> Any:
        outcome = await real(self, tenant, workload_id, actor)
        if outcome is not None and outcome.already_final:
            before = outcome.workload
            after = replace(before, state=WorkloadState.CANCELLED, revision=before.revision + 1)
            expect = Expect(revision=before.revision, state=before.state, lease=None)
            await self._ports.store.apply([Transition(expect=expect, workload=after)])
        return outcome

    unguarded = _Unguarded(Sqlite(Path(":memory:")))
    return [
        *_instead(intake.Intake, "cancel", cancel),
        *_instead(memory, "_statements", lambda: unguarded),
    ]


def _unflushed_intents() -> Sequence[Patch]:
    real = draft.Draft.begin_attempt

    def begin(self: Any, *rest: Any) -> None:
        real(self, *rest)
        self._flush = False

    return _instead(draft.Draft, "begin_attempt", begin)


def _unflushed_acceptance() -> Sequence[Patch]:
    def unflushed(item: Any, *rest: object) -> Any:
        del rest
        item.flush = False
        return item

    return _after(items, "admission", unflushed)


def _unflushed_verdicts() -> Sequence[Patch]:
    def unflushed(told: Transition | None, *rest: object) -> Transition | None:
        del rest
        return None if told is None else replace(told, flush=told.flush and told.result is None)

    return _after(draft.Draft, "transition", unflushed)


def _run_again() -> Sequence[Patch]:
    real = recovery.recover

    def recover(workload: Any, *rest: Any, **named: Any) -> Any:
        return real(replace(workload, spec=replace(workload.spec, repeat=Repeat.SAFE)), *rest, **named)

    return _instead(recovery, "recover", recover)


def _unhurried_sends() -> Sequence[Patch]:
    return _instead(effects, "SEND_WITHIN_MS", 10**9)


class _Trusting:
    """An artifact store whose failures nobody hears of."""

    def __init__(self, real: Any) -> None:
        self._real = real

    async def adopt(self, location: str, source: str, **what: Any) -> None:
        try:
            await self._real.adopt(location, source, **what)
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _outputs_believed() -> Sequence[Patch]:
    real = effects.Effects.__init__

    def made(self: Any, providers: Any, artifacts: Any, *rest: Any) -> None:
        real(self, providers, _Trusting(artifacts), *rest)

    return _instead(effects.Effects, "__init__", made)


def _ended_is_done() -> Sequence[Patch]:
    real = tracking.track

    def track(attempt: Any, seen: Observation, *rest: Any, **named: Any) -> Any:
        done = seen.phase is Phase.ENDED and seen.cause in (Cause.PREEMPTED, Cause.STOPPED, Cause.TIMEOUT)
        return real(attempt, evolve(seen, computed=True, cause=None) if done else seen, *rest, **named)

    return _instead(tracking, "track", track)


def _no_cap() -> Sequence[Patch]:
    return _instead(limits, "_at_most_usd", _zero)


def _no_call_home() -> Sequence[Patch]:
    return _instead(limits, "CALL_HOME_MS", 10**15)


def _found_ignored() -> Sequence[Patch]:
    real = decide._found

    def found(draft_: Any, attempt: Any, told: Any, world: Any) -> None:
        real(draft_, attempt, replace(told, handles=()), world)

    return _instead(decide, "_found", found)


def _released_at_once() -> Sequence[Patch]:
    return _instead(draft, "kept", _nothing)


def _own_clocks() -> Sequence[Patch]:
    return _instead(timekeeping.StoreClock, "set", _nothing)


def _keys_ignored() -> Sequence[Patch]:
    def unkeyed(told: Any, *rest: object) -> Any:
        del rest
        return replace(told, key=None)

    return _after(intake.Intake, "_acceptance", unkeyed)


def _safe_too_soon() -> Sequence[Patch]:
    def safe(told: Any, view: Any) -> Any:
        seen = any(attempt.state is AttemptState.RUNNING for attempt in view.live)
        return told if seen else replace(told, answer=Truth.YES)

    return _after(account, "_safe_to_retry", safe)


def _secured_for_ever() -> Sequence[Patch]:
    def fresh(*asked: object) -> bool:
        return bool(asked)

    return _instead(account, "_fresh", fresh)


def _resent() -> Sequence[Patch]:
    """An intent whose sender is gone is sent once more."""
    real = decide._live

    def live(draft_: Any, attempt: Any, situation: Any) -> Any:
        orphaned = attempt.state is AttemptState.INTENDED and "Submit" not in situation.under_way
        if not orphaned:
            return real(draft_, attempt, situation)
        failure = Failure(cause=Cause.UNRESOLVED, message="again")
        draft_.move_attempt(evolve(attempt, failure=failure), AttemptState.REFUSED)
        return []

    return _instead(decide, "_live", live)


MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            name="unclear-is-refused",
            removed="an unclear create is looked for before the next one",
            patches=_unclear_is_refused,
            faults=("lost_reply", "late_create"),
        ),
        Mutant(
            name="one-look",
            removed="what was not found is waited for as long as it may be late and hidden",
            patches=_one_look,
            faults=("late_create", "lag", "lost_reply"),
        ),
        Mutant(
            name="no-intent",
            removed="the intent is committed before the create leaves",
            patches=_send_first,
            faults=("store_busy", "crash"),
        ),
        Mutant(
            name="no-window",
            removed="absence is believed only after the windows of the card",
            patches=_no_window,
            faults=("lag", "stale_read", "late_create", "lost_reply"),
            cards=("keyed_slow", "keyless_slow"),
        ),
        Mutant(
            name="gone-at-once",
            removed="one 404 is no proof",
            patches=_gone_at_once,
            faults=("stale_read", "lag"),
            cards=("keyed_slow", "keyless_slow"),
        ),
        Mutant(
            name="stop-believed",
            removed="a stop is believed only from what is observed",
            patches=_stop_believed,
            faults=("stop_ignored", "stop_refused"),
        ),
        Mutant(
            name="no-sweep",
            removed="the provider's own list is searched",
            patches=_no_sweep,
            faults=("held_send",),
            cards=("keyless", "keyed"),
        ),
        Mutant(
            name="every-permit",
            removed="a permit is for the current epoch of what is still wanted",
            patches=_every_permit,
            faults=("pause", "late_create", "permit_unheard", "slow_boot"),
        ),
        Mutant(
            name="stale-writes",
            removed="a write changes only the row that its writer had read, under the lease that it holds",
            patches=_stale_writes,
            faults=("held_write",),
            strength=10.0,
            faults_s=900.0,
            workers=2,
        ),
        Mutant(name="second-verdict", removed="a final state is never left", patches=_second_verdict),
        Mutant(
            name="unflushed-intents",
            removed="an intent survives a power cut before its create leaves",
            patches=_unflushed_intents,
            faults=("power_cut",),
            strength=40.0,
        ),
        Mutant(
            name="unflushed-acceptance",
            removed="what is accepted survives a power cut before its client hears of it",
            patches=_unflushed_acceptance,
            faults=("power_cut",),
            strength=40.0,
        ),
        Mutant(
            name="unflushed-verdicts",
            removed="a verdict survives a power cut before anybody reads it",
            patches=_unflushed_verdicts,
            faults=("power_cut",),
            strength=40.0,
        ),
        Mutant(
            name="run-again",
            removed="what may run once is not tried again once it may have started",
            patches=_run_again,
            faults=("preempted", "vanished"),
        ),
        Mutant(
            name="unhurried-sends",
            removed="a create leaves soon after its intent or not at all",
            patches=_unhurried_sends,
            faults=("pause",),
            strength=10.0,
        ),
        Mutant(
            name="outputs-believed",
            removed="success needs every required output in the store",
            patches=_outputs_believed,
            faults=("upload_cut", "digest_mismatch"),
        ),
        Mutant(
            name="ended-is-done",
            removed="success needs an exit status of 0",
            patches=_ended_is_done,
            faults=("preempted",),
        ),
        Mutant(
            name="no-cap",
            removed="the cost cap holds while an attempt runs",
            patches=_no_cap,
            faults=("slow_boot", "never_boots"),
            strength=10.0,
        ),
        Mutant(
            name="no-call-home",
            removed="a machine that is never made is given up",
            patches=_no_call_home,
            faults=("never_boots",),
        ),
        Mutant(
            name="found-ignored",
            removed="what a look finds is adopted",
            patches=_found_ignored,
            faults=("lost_reply",),
        ),
        Mutant(
            name="released-at-once",
            removed="what was computed and not delivered is kept",
            patches=_released_at_once,
            faults=("upload_cut", "digest_mismatch"),
        ),
        Mutant(
            name="own-clocks",
            removed="all servers of a store use its clock",
            patches=_own_clocks,
            faults=("clock_offset", "crash"),
        ),
        Mutant(name="keys-ignored", removed="one key is one workload", patches=_keys_ignored),
        Mutant(
            name="safe-too-soon",
            removed="safe to retry is said only of what is over",
            patches=_safe_too_soon,
            faults=("report_lost", "report_delayed"),
        ),
        Mutant(
            name="secured-for-ever",
            removed="capacity is called secured only while it was seen lately",
            patches=_secured_for_ever,
            faults=("dark", "vanished"),
            strength=20.0,
            faults_s=900.0,
        ),
        Mutant(
            name="resent",
            removed="an intent whose sender is gone is looked for before the next create",
            patches=_resent,
            faults=("crash",),
        ),
    )
}
