"""When a workload is looked at again if nothing is heard of it."""

from placet.domain.records import Attempt
from placet.domain.states import AttemptState, Desired
from placet.domain.units import SECOND_MS
from placet.engine.draft import Draft
from placet.engine.facts import World

# How often something that should be moving is looked at when nobody tells of it.
OBSERVE_EVERY_MS = 10 * SECOND_MS
# While an answer is outstanding (an unclear submit, a vanished allocation) looks come quickly.
LOOK_AGAIN_MS = 400
RELEASE_AGAIN_MS = 2 * SECOND_MS


def observe_due(attempt: Attempt, world: World) -> bool:
    """Is it time to look at an attempt, though nobody told of it?"""
    if attempt.observed_ms is None:
        return world.now_ms - attempt.created_ms >= LOOK_AGAIN_MS
    quick = attempt.absent_reads or attempt.state is AttemptState.STOPPING
    return world.now_ms - attempt.observed_ms >= (LOOK_AGAIN_MS if quick else world.observe_every_ms)


def look_ms(draft: Draft, world: World) -> int | None:
    """When this workload is to be looked at again if nothing is heard of it."""
    workload, attempt, now_ms = draft.workload, draft.attempt, draft.now_ms
    if workload.final:
        return now_ms + RELEASE_AGAIN_MS if draft.unreleased() else None
    times = []
    if workload.spec.constraints.deadline_ms is not None:
        times.append(max(workload.spec.constraints.deadline_ms, now_ms + LOOK_AGAIN_MS))
    if attempt is None or attempt.final:
        # A wake time that has passed has just been dealt with; looking at once again would be a busy loop.
        wake_ms = workload.wake_ms or 0
        times.append(wake_ms if wake_ms > now_ms else now_ms + LOOK_AGAIN_MS)
        return min(times)
    if draft.unreleased():
        times.append(now_ms + world.observe_every_ms)
    quick = attempt.state in (AttemptState.UNKNOWN, AttemptState.STOPPING, AttemptState.INTENDED)
    times.append(now_ms + (LOOK_AGAIN_MS if quick or attempt.absent_reads else world.observe_every_ms))
    if attempt.handle is None or attempt.desired is Desired.STOP:
        times.append(now_ms + LOOK_AGAIN_MS)
    if draft.course is not None:
        times.append(max(draft.course.look_ms, now_ms + LOOK_AGAIN_MS))
    start_s = workload.spec.constraints.start_within_s
    if start_s is not None and attempt.started_ms is None:
        times.append(max(attempt.created_ms + int(start_s * SECOND_MS) + 1, now_ms + LOOK_AGAIN_MS))
    return min(times)
