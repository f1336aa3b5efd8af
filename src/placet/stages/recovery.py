"""After a failed attempt: try again, when and where - or give up, and why."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal

from placet.domain.failures import Cause, Failure, FailureClass, Fault, RetrySafety, Where
from placet.domain.records import Attempt, Workload
from placet.domain.spec import Repeat
from placet.domain.units import SECOND_MS
from placet.stages import course


@dataclass(frozen=True, kw_only=True)
class Again:
    """Try again at ``at_ms``; ``exclude_offer`` is left alone for the next choice."""

    at_ms: int
    user_failures: int
    infrastructure_failures: int
    exclude_offer: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """No further attempt; the counters as they are in the end."""

    user_failures: int
    infrastructure_failures: int
    reason: str


def recover(workload: Workload, attempt: Attempt, failure: Failure, *, now_ms: int) -> Again | GiveUp:
    """The next step after an attempt that is over and did not succeed.

    The user's failures and infrastructure's have separate budgets. Back-off doubles per failure of its kind, with a
    jitter of +-25% drawn from the workload's id and epoch, so that the same record gives the same decision.
    """
    meaning = failure.meaning
    ours = meaning.fault in (Fault.INFRASTRUCTURE, Fault.OURS)
    free = failure.cause in _FREE or (failure.cause is Cause.PREEMPTED and course.follows(workload.spec))
    counts = 0 if free else 1
    user = workload.user_failures + (0 if ours else counts)
    infrastructure = workload.infrastructure_failures + (counts if ours else 0)

    def give_up(reason: str) -> GiveUp:
        return GiveUp(user_failures=user, infrastructure_failures=infrastructure, reason=reason)

    policy = workload.spec.retry
    if meaning.retry is RetrySafety.POINTLESS:
        return give_up("trying again cannot help")
    if workload.spec.repeat is Repeat.AT_MOST_ONCE and attempt.permit_ms is not None:
        return give_up("the program may have started, and it may run at most once")
    limit, spent = _budget(workload, meaning.failure_class, ours=ours, user=user, infrastructure=infrastructure)
    if counts and spent >= limit:
        return give_up(f"{spent} of {limit} attempts used")
    moved = failure.cause is Cause.MOVED
    delay_ms = 0 if moved else _backoff_ms(workload, spent, policy.backoff_s, policy.backoff_max_s)
    deadline_ms = workload.spec.constraints.deadline_ms
    if deadline_ms is not None and now_ms + delay_ms >= deadline_ms:
        return give_up("the deadline comes before the next attempt could")
    return Again(
        at_ms=now_ms + delay_ms,
        user_failures=user,
        infrastructure_failures=infrastructure,
        exclude_offer=attempt.placement.offer_id if meaning.where in _ELSEWHERE and not moved else None,
        reason=_told(failure, spent, limit) if counts else f"{failure.cause}: {_WHY_FREE[failure.cause]}",
    )


# These spend no budget, only time. A preemption is among them where spot with a deadline was chosen with open eyes.
_WHY_FREE = {
    Cause.NO_CAPACITY: "nothing ran",
    Cause.UNRESOLVED: "nothing ran",
    Cause.MOVED: "it goes on elsewhere",
    Cause.PREEMPTED: "it goes on from its checkpoint",
}
_FREE = frozenset(_WHY_FREE) - {Cause.PREEMPTED}
# The offer that failed is left alone once; places and providers that fail again and again are blocked (``blocking``).
_ELSEWHERE = frozenset({Where.OTHER_OFFER, Where.OTHER_PLACE, Where.OTHER_PROVIDER})


def _told(failure: Failure, spent: int, limit: int) -> str:
    return f"{failure.cause}: attempt {spent + 1} of {limit}"


def _budget(
    workload: Workload, failure_class: FailureClass, *, ours: bool, user: int, infrastructure: int
) -> tuple[int, int]:
    """How many attempts this kind of failure may use, and how many it has used."""
    policy = workload.spec.retry
    overrides = dict(policy.by_class)
    general = policy.infrastructure_attempts if ours else policy.attempts
    return overrides.get(str(failure_class), general), infrastructure if ours else user


def _backoff_ms(workload: Workload, failures: int, first_s: Decimal, most_s: Decimal) -> int:
    doubled = min(first_s * 2 ** min(max(failures - 1, 0), 20), most_s)
    drawn = hashlib.sha256(f"{workload.id}/{workload.epoch}".encode()).digest()[0]
    jitter = Decimal("0.75") + Decimal(drawn) / Decimal(510)
    return int(doubled * jitter * SECOND_MS)
