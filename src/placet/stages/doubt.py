"""An attempt of which nobody can tell whether it runs: waited for, asked about, or given up at a bounded cost.

Going on is the only way to run a program twice, and is never chosen here unless its owner said so, for all attempts or
for this one.
"""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.records import Attempt, Workload
from placet.domain.spec import WhenUnknown
from placet.domain.states import AttemptState
from placet.domain.units import SECOND_MS, format_duration_ms, format_money
from placet.stages.billing import begun_ms, charge_usd, price_usd_per_hour

# An attempt that was looked for in vain for so long is in doubt, not merely unheard of for a moment.
DOUBT_MS = 60 * SECOND_MS
ITS_OWNER = "retry.when_unknown"
NOBODY = "nobody can tell whether attempt"


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Nothing is decided: it is looked for again."""


@dataclass(frozen=True, kw_only=True)
class Asks:
    """Its owner is to say whether to go on; the question."""

    question: str


@dataclass(frozen=True, kw_only=True)
class GivesUp:
    """It counts as lost. It may go on costing up to ``cost_usd``; ``None``: without a bound that is known."""

    by: str
    cost_usd: Decimal | None
    reason: str


def since_ms(attempt: Attempt) -> int | None:
    """Since when nobody can tell whether it runs, if that is so."""
    if attempt.final or attempt.state is AttemptState.EXITED:
        return None
    if attempt.state is AttemptState.UNKNOWN:
        return attempt.created_ms
    return min(
        (at_ms for at_ms in (attempt.unseen_since_ms, attempt.absent_since_ms) if at_ms is not None), default=None
    )


def in_doubt(attempt: Attempt, now_ms: int) -> bool:
    """Is it in doubt, for longer than a moment?"""
    since = since_ms(attempt)
    return since is not None and now_ms - since >= DOUBT_MS


def exposure_usd(workload: Workload, attempt: Attempt, now_ms: int) -> Decimal | None:
    """The most that it may have cost and go on to cost; ``None`` where no runtime limit bounds it."""
    runtime_s = workload.spec.constraints.runtime_s
    if not price_usd_per_hour(attempt) and not attempt.placement.minimum_charge_usd:
        return Decimal(0)
    if runtime_s is None:
        return None
    return charge_usd(attempt, now_ms - begun_ms(attempt) + int(runtime_s * SECOND_MS))


def settle(workload: Workload, attempt: Attempt, now_ms: int) -> Waits | Asks | GivesUp:
    """What is done about a live attempt, by what its owner said."""
    since = since_ms(attempt)
    if since is None:
        return Waits()
    cost = exposure_usd(workload, attempt, now_ms)
    told = _told(attempt, since, now_ms)
    if attempt.given_up_by:
        return GivesUp(by=attempt.given_up_by, cost_usd=cost, reason=f"{told}; {_spent(cost)}")
    if now_ms - since < DOUBT_MS:
        return Waits()
    policy = workload.spec.retry
    match policy.when_unknown:
        case WhenUnknown.WAIT:
            return Waits()
        case WhenUnknown.ASK:
            return Asks(question=_question(attempt, ""))
        case WhenUnknown.MAY_DUPLICATE:
            most = policy.duplicate_usd or Decimal(0)
            if cost is None or cost > most:
                return Asks(
                    question=_question(attempt, f", and is more than the {format_money(most)} that were allowed")
                )
            return GivesUp(by=ITS_OWNER, cost_usd=cost, reason=f"{told}; {_spent(cost)}")


def _told(attempt: Attempt, since: int, now_ms: int) -> str:
    return f"given up: for {format_duration_ms(now_ms - since)} nobody could tell whether attempt {attempt.epoch} runs"


def _spent(cost: Decimal | None) -> str:
    return "it may go on costing" if cost is None else f"it may cost up to {format_money(cost)} beside the next one"


def _question(attempt: Attempt, beyond: str) -> str:
    """The same words at every look: what going on may cost grows by the second, and is told to who asks."""
    return (
        f"{NOBODY} {attempt.epoch} runs: wait, or go on without it by `placet resolve --go-on`; what that may cost "
        f"`placet resolve` says{beyond}"
    )
