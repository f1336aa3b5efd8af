"""How soon what is unclear is looked at again: at once at first, then less and less often. Nobody is hammered."""

from placet.domain.records import Attempt
from placet.domain.states import AttemptState

# While an answer is outstanding (an unclear submit, a vanished allocation) the first looks come quickly.
LOOK_AGAIN_MS = 400
# After that each pause is so long a part of the time that it has been unclear.
PART = 4


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
