"""Failure memory: which offers a tenant's workloads leave alone for a while, because they failed again and again.

A block ends by itself, and the attempt after it decides: one that gets through clears the memory, one that fails the
same way makes the next block twice as long. It says "not now" and never "never".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placet.domain.blocks import Block, Scope, Streak
from placet.domain.failures import MEANINGS, Cause, Fault
from placet.domain.lessons import Ended, Lessons
from placet.domain.units import SECOND_MS

MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
# Failures so close together are taken for one event: a machine that dies takes all that ran on it along.
ONE_EVENT_MS = 20 * SECOND_MS
# A streak that nothing was added to for so long is forgotten.
FORGOTTEN_MS = 6 * HOUR_MS
# Of so many streaks of a tenant the latest are kept.
STREAKS_MAX = 64

Streaks = Mapping[str, tuple[Streak, ...]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How far a cause reaches, how many events in a row make a block, how long its first and its longest one is."""

    scope: Scope
    after: int
    first_ms: int
    most_ms: int


# The whole list: nothing else blocks. Preemptions do not, they are what spot capacity is; they are learnt as a rate.
RULES: Mapping[Cause, Rule] = {
    Cause.NO_CAPACITY: Rule(scope=Scope.OFFER, after=2, first_ms=MINUTE_MS, most_ms=5 * MINUTE_MS),
    Cause.START_TIMEOUT: Rule(scope=Scope.OFFER, after=2, first_ms=2 * MINUTE_MS, most_ms=HOUR_MS),
    Cause.LOST: Rule(scope=Scope.OFFER, after=3, first_ms=30 * SECOND_MS, most_ms=30 * MINUTE_MS),
    Cause.QUOTA: Rule(scope=Scope.PLACE, after=1, first_ms=5 * MINUTE_MS, most_ms=HOUR_MS),
    Cause.PROVIDER_ERROR: Rule(scope=Scope.PLACE, after=3, first_ms=30 * SECOND_MS, most_ms=15 * MINUTE_MS),
    Cause.UNRESOLVED: Rule(scope=Scope.PLACE, after=3, first_ms=30 * SECOND_MS, most_ms=15 * MINUTE_MS),
    Cause.AUTH: Rule(scope=Scope.PROVIDER, after=1, first_ms=2 * MINUTE_MS, most_ms=HOUR_MS),
}


def remember_failures(streaks: Streaks, ended: Sequence[Ended]) -> Streaks:
    """The streaks of every tenant after some more attempts."""
    telling = [one for one in ended if one.cause in RULES or _got_through(one)]
    if not any(one.cause in RULES or one.tenant in streaks for one in telling):
        return streaks
    grown = dict(streaks)
    for one in sorted(telling, key=lambda one: (one.finished_ms, one.workload_id, one.epoch)):
        known = grown.get(one.tenant, ())
        kept = tuple(_failed(known, one) if one.cause in RULES else _passed(known, one))
        if kept:
            grown[one.tenant] = kept
        else:
            grown.pop(one.tenant, None)
    return grown


def _got_through(ended: Ended) -> bool:
    """Its machine was there, and nothing of infrastructure ended it."""
    if ended.permit_ms is None:
        return False
    return ended.cause is None or MEANINGS[ended.cause].fault is not Fault.INFRASTRUCTURE


def _passed(streaks: tuple[Streak, ...], ended: Ended) -> Iterator[Streak]:
    for streak in streaks:
        if not (_covers(streak, ended) and streak.last_ms < ended.finished_ms):
            yield streak


def _covers(streak: Streak, ended: Ended) -> bool:
    return _name(streak.scope, ended) == (streak.provider, streak.region, streak.offer_id)


def _name(scope: Scope, ended: Ended) -> tuple[str, str, str]:
    match scope:
        case Scope.OFFER:
            return ended.provider, ended.region, ended.offer_id
        case Scope.PLACE:
            return ended.provider, ended.region, ""
        case Scope.PROVIDER:
            return ended.provider, "", ""


def _failed(streaks: tuple[Streak, ...], ended: Ended) -> tuple[Streak, ...]:
    assert ended.cause is not None
    rule = RULES[ended.cause]
    known, others = None, []
    for streak in streaks:
        if streak.cause is ended.cause and _covers(streak, ended):
            known = streak
        elif streak.last_ms > ended.finished_ms - FORGOTTEN_MS:
            others.append(streak)
    events, event_ms = 1, ended.finished_ms
    if known is not None and known.last_ms > ended.finished_ms - FORGOTTEN_MS:
        # Counted from where the event began: else what fails every second would be one event for ever.
        same_event = ended.finished_ms - known.event_ms < ONE_EVENT_MS
        events, event_ms = (known.events, known.event_ms) if same_event else (known.events + 1, event_ms)
    provider, region, offer_id = _name(rule.scope, ended)
    streak = Streak(
        scope=rule.scope,
        provider=provider,
        region=region,
        offer_id=offer_id,
        cause=ended.cause,
        events=events,
        event_ms=event_ms,
        last_ms=ended.finished_ms if known is None else max(known.last_ms, ended.finished_ms),
        workload_id=ended.workload_id,
        epoch=ended.epoch,
    )
    return (*others, streak)[-STREAKS_MAX:]


def blocks(lessons: Lessons, tenant: str, now_ms: int) -> tuple[Block, ...]:
    """What the tenant's workloads leave alone at this moment, and until when."""
    streaks = lessons.streaks.get(tenant)
    if streaks is None:
        return ()
    found = (Block(streak=streak, until_ms=_until_ms(streak)) for streak in streaks)
    return tuple(block for block in found if block.until_ms > now_ms)


def _until_ms(streak: Streak) -> int:
    rule = RULES[streak.cause]
    if streak.events < rule.after:
        return 0
    doubled = rule.first_ms << min(streak.events - rule.after, 20)
    return streak.last_ms + min(doubled, rule.most_ms)
