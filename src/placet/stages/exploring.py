"""Now and then an offer that is nearly as good is chosen because little is known of it: what is never tried is never
known to be better. Bounded in share and in price, and the same for the same seed."""

import hashlib

import numpy as np

from placet.domain.spec import Repeat
from placet.domain.values import evolve
from placet.stages.filters import Asked
from placet.stages.learning import times_tried
from placet.stages.ranking import Best, Rows, tie_breaks
from placet.stages.scores import SCORE_FLOOR

# An offer that is explored scores at most this share worse than the best.
WORSE_AT_MOST = 0.10
# Of an offer that was tried so many times lately enough is known.
TRIED_ENOUGH = 3.0


def explored(asked: Asked, best: Best, seed: str) -> tuple[Best, bool]:
    """The best offers with one to be explored in front, if it is this workload's turn; else as they are.

    Not for what may run only once, has a deadline or has just failed: these get the best that is known.
    """
    row = _row(asked, best, seed)
    if row is None:
        return best, False
    order = np.concatenate([[row], np.delete(np.arange(len(best.scores.total)), row)])
    return Best(offers=best.offers.take(order), scores=best.scores.take(order)), True


def _row(asked: Asked, best: Best, seed: str) -> int | None:
    if asked.exploration <= 0 or len(best.scores.total) < 2:
        return None
    careful = asked.spec.repeat is Repeat.AT_MOST_ONCE or asked.spec.constraints.deadline_ms is not None
    if careful or asked.excluded or _drawn(seed) >= asked.exploration:
        return None
    candidates = _candidates(asked, best)
    if not len(candidates):
        return None
    return int(candidates[np.argmin(tie_breaks(best.offers, candidates, seed))])


def _candidates(asked: Asked, best: Best) -> Rows:
    totals = best.scores.total
    first = totals.item(0)
    near = np.flatnonzero(totals <= first + WORSE_AT_MOST * max(abs(first), SCORE_FLOOR))
    tried = [times_tried(asked.experience, best.offers.text("id", row), now_ms=asked.now_ms) for row in near.tolist()]
    enough = min(TRIED_ENOUGH, tried[0])
    return near[[count < enough for count in tried]]


def _drawn(seed: str) -> float:
    """A number from 0 to below 1 that the seed alone decides."""
    return int.from_bytes(hashlib.sha256(f"explore {seed}".encode()).digest()[:7], "big") / 2.0**56


def without(asked: Asked) -> Asked:
    """The same request, always with the best that is known."""
    return evolve(asked, exploration=0.0)
