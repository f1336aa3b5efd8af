"""From finished attempts to what later decisions are told of them. It decides nothing."""

from collections.abc import Sequence

from placet.domain.experience import Evidence, Experience, Level, Tally
from placet.domain.failures import MEANINGS, Cause, Fault
from placet.domain.lessons import Ended, Lessons
from placet.stages.blocking import remember_failures
from placet.stages.groups import HALF_LIFE_MS
from placet.stages.histories import remember_kinds
from placet.stages.learning import learn

# What is older than this counts for less than a hundredth of what is new, and is not read.
REMEMBERED_MS = 7 * HALF_LIFE_MS
# No more groups of offers than this are kept in mind; those that were tried last are.
GROUPS_MAX = 20_000
HOUR_MS = 3_600_000
TAKEN_AWAY = frozenset({Cause.PREEMPTED, Cause.LOST})


def remember(lessons: Lessons, ended: Sequence[Ended]) -> Lessons:
    """What is known after some more attempts are over. Simulated ones say nothing of the world, only what to avoid."""
    real = [attempt for attempt in ended if not attempt.simulated]
    evidence = [one for attempt in real if (one := evidence_of(attempt)) is not None]
    experience = learn(lessons.experience, evidence) if evidence else lessons.experience
    return Lessons(
        experience=_bounded(experience),
        histories=remember_kinds(lessons.histories, real),
        streaks=remember_failures(lessons.streaks, ended),
    )


def evidence_of(ended: Ended) -> Evidence | None:
    """What an attempt says about its offer; ``None`` when it was over for another reason before it could say anything.

    It has started when its runner asked for the permit. One that did not start speaks against the offer only where
    infrastructure was at fault.
    """
    begun_ms = ended.started_ms if ended.started_ms is not None else ended.permit_ms
    if begun_ms is None:
        cause = ended.cause
        if cause is None or cause is Cause.STALE_PERMIT or MEANINGS[cause].fault is not Fault.INFRASTRUCTURE:
            return None
        return _evidence(ended, started=False)
    over_ms = ended.exited_ms if ended.exited_ms is not None else ended.finished_ms
    hours = max(over_ms - begun_ms, 0) / HOUR_MS if ended.started_ms is not None else 0.0
    startup_s = max(begun_ms - ended.created_ms, 0) / 1000
    return _evidence(ended, started=True, startup_s=startup_s, hours=hours, taken_away=ended.cause in TAKEN_AWAY)


def _evidence(
    ended: Ended, *, started: bool, startup_s: float | None = None, hours: float = 0.0, taken_away: bool = False
) -> Evidence:
    return Evidence(
        offer_id=ended.offer_id,
        provider=ended.provider,
        region=ended.region,
        gpu_model=ended.gpu_model,
        capacity_type=ended.capacity_type,
        at_ms=ended.finished_ms,
        started=started,
        startup_s=startup_s,
        hours=hours,
        taken_away=taken_away,
    )


def _bounded(experience: Experience) -> Experience:
    if len(experience.tallies) <= GROUPS_MAX:
        return experience

    def last_tried(item: tuple[tuple[Level, str], Tally]) -> tuple[bool, int]:
        (level, _), tally = item
        return level is not Level.OFFER, tally.at_ms  # coarse groups are few, and every offer leans on them

    kept = sorted(experience.tallies.items(), key=last_tried, reverse=True)[: GROUPS_MAX * 3 // 4]
    return Experience(tallies=dict(kept))
