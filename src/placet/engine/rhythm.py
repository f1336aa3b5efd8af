"""When a workload is looked at again if nothing is heard of it. What stays unclear is looked at less and less often."""

from placet.domain.records import Attempt
from placet.domain.states import AttemptState
from placet.domain.units import SECOND_MS
from placet.engine.draft import Draft
from placet.engine.facts import World
from placet.stages import limits

# How often something that should be moving is looked at when nobody tells of it.
OBSERVE_EVERY_MS = 10 * SECOND_MS
# While an answer is outstanding (an unclear submit, a vanished allocation) the first looks come quickly.
LOOK_AGAIN_MS = 400
# After that each pause is so long a part of the time that it has been unclear.
PART = 4
RELEASE_AGAIN_MS, RELEASE_MOST_MS = 2 * SECOND_MS, 60 * SECOND_MS


def again_ms(attempt: Attempt | None, at_ms: int, every_ms: int) -> int:
    """The pause after a look at this moment; what is clear is looked at as often as anything, every ``every_ms``."""
    if attempt is None:
        return LOOK_AGAIN_MS
    since_ms = _unclear_since_ms(attempt)
    if since_ms is None:
        return every_ms
    return max(LOOK_AGAIN_MS, min((at_ms - since_ms) // PART, every_ms))


def _unclear_since_ms(attempt: Attempt) -> int | None:
    """Since when something has been waited for that should show at any moment."""
    if attempt.final:
        return attempt.finished_ms
    if attempt.absent_since_ms is not None:
        return attempt.absent_since_ms
    if attempt.state is AttemptState.STOPPING:
        return attempt.stop_requested_ms
    if attempt.handle is None or attempt.observed_ms is None:
        return attempt.created_ms
    return None


def observe_due(attempt: Attempt, world: World) -> bool:
    """Is it time to look at an attempt, though nobody told of it?"""
    seen_ms = attempt.created_ms if attempt.observed_ms is None else attempt.observed_ms
    return world.now_ms - seen_ms >= again_ms(attempt, seen_ms, world.observe_every_ms)


def look_ms(draft: Draft, world: World) -> int | None:
    """When this workload is to be looked at again if nothing is heard of it."""
    workload, attempt, now_ms = draft.workload, draft.attempt, draft.now_ms
    if workload.final:
        pause_ms = max(again_ms(attempt, now_ms, RELEASE_MOST_MS), RELEASE_AGAIN_MS)
        return now_ms + pause_ms if draft.unreleased() else None
    times = []
    if workload.spec.constraints.deadline_ms is not None:
        times.append(moment_ms(workload.spec.constraints.deadline_ms, now_ms, world.observe_every_ms))
    if attempt is None or attempt.final:
        # A wake time that has passed has just been dealt with; looking at once again would be a busy loop.
        wake_ms = workload.wake_ms or 0
        times.append(wake_ms if wake_ms > now_ms else now_ms + LOOK_AGAIN_MS)
        return min(times)
    if draft.unreleased():
        times.append(now_ms + world.observe_every_ms)
    times.append(now_ms + again_ms(attempt, now_ms, world.observe_every_ms))
    if draft.course is not None:
        times.append(moment_ms(draft.course.look_ms, now_ms, world.observe_every_ms))
    for at_ms in limits.look_ms(attempt, workload.spec, draft.spent_usd() - attempt.cost_usd):
        times.append(moment_ms(at_ms, now_ms, world.observe_every_ms))
    return min(times)


def moment_ms(at_ms: int, now_ms: int, every_ms: int) -> int:
    """When to look because of a limit; what could not be done about one that has passed is tried less and less often.

    Nothing can be stopped of which nobody knows whether it exists, and that may stay so for ever.
    """
    late_ms = max(now_ms - at_ms, 0)
    return max(at_ms, now_ms + max(LOOK_AGAIN_MS, min(late_ms // PART, every_ms)))
