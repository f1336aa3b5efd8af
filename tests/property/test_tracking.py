"""Any order and any number of repeats of the same observations end in the same final attempt."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.allocations import Observation, Phase
from placet.domain.failures import Cause
from placet.domain.records import Attempt
from placet.domain.states import ATTEMPT_MOVES, AttemptState
from placet.stages.tracking import track
from placet.testing.scripted import CARD
from tests.support.values import ATTEMPT, NOW_MS, SEEN

ENDS = (
    replace(SEEN, phase=Phase.ENDED, exit_code=0, computed=True, collected=True, ended_ms=NOW_MS + 5),
    replace(SEEN, phase=Phase.ENDED, cause=Cause.EXIT_CODE, exit_code=1, collected=True, ended_ms=NOW_MS + 5),
    replace(SEEN, phase=Phase.ENDED, cause=Cause.LOST, collected=True, ended_ms=NOW_MS + 5),
)
EARLIER = tuple(
    replace(SEEN, phase=phase)
    for phase in (Phase.QUEUED, Phase.AWAITING_PERMIT, Phase.PREPARING, Phase.RUNNING, Phase.COLLECTING, Phase.UNKNOWN)
)


def run(attempt: Attempt, seen: list[Observation]) -> Attempt:
    for observation in seen:
        before = attempt
        tracked = track(attempt, observation, CARD, actor="w", now_ms=NOW_MS)
        attempt = tracked.attempt
        states = [event.to_state for event in tracked.events if event.from_state is not None]
        path = [before.state, *(AttemptState(state) for state in states if state is not None)]
        for source, target in pairwise(path):
            assert target in ATTEMPT_MOVES[source]
        assert path[-1] is attempt.state
    return attempt


@given(st.data(), st.sampled_from(ENDS), st.lists(st.sampled_from(EARLIER), max_size=12))
def test_the_end_does_not_depend_on_what_came_before_it(
    data: st.DataObject, end: Observation, earlier: list[Observation]
) -> None:
    shuffled = data.draw(st.permutations([end, *earlier, *earlier[:3], end]))
    final = run(ATTEMPT, list(shuffled))
    plain = run(ATTEMPT, [end])
    assert final.state is plain.state
    assert (final.exit_code, final.computed) == (plain.exit_code, plain.computed)
    assert (final.failure is None) == (plain.failure is None)


@given(st.lists(st.sampled_from((*EARLIER, *ENDS)), max_size=20))
def test_success_is_only_ever_believed_from_a_proof(seen: list[Observation]) -> None:
    final = run(ATTEMPT, seen)
    if final.computed:
        assert any(observation.computed for observation in seen)
    if final.state is AttemptState.COLLECTED and not final.computed:
        assert final.failure is not None
