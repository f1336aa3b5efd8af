"""An attempt under observations: forward only, never guessed, absence only by its rule."""

from dataclasses import replace

import pytest

from placet.domain.allocations import Handle, Observation, Phase
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, EventKind
from placet.domain.states import ATTEMPT_FINAL, AttemptState
from placet.stages.tracking import (
    ABSENT_SPAN_S,
    MASS_SPAN_S,
    absence_proven,
    absence_span_s,
    absent_again,
    moved,
    track,
)
from placet.testing.scripted import CARD
from tests.support.values import ATTEMPT, NOW_MS, SEEN

A = AttemptState
ENDED = replace(
    SEEN, phase=Phase.ENDED, exit_code=0, computed=True, collected=True, started_ms=NOW_MS, ended_ms=NOW_MS + 1000
)
DIED = replace(ENDED, cause=Cause.EXIT_CODE, message="exit code 3", exit_code=3, computed=False)


def after(attempt: Attempt, *seen: Observation, now_ms: int = NOW_MS) -> Attempt:
    for observation in seen:
        attempt = track(attempt, observation, CARD, actor="w", now_ms=now_ms).attempt
    return attempt


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.QUEUED, A.SUBMITTED),
        (Phase.AWAITING_PERMIT, A.SUBMITTED),
        (Phase.PREPARING, A.STARTING),
        (Phase.RUNNING, A.RUNNING),
        (Phase.COLLECTING, A.EXITED),
        (Phase.UNKNOWN, A.INTENDED),
    ],
)
def test_each_phase_leads_to_its_state(phase: Phase, state: AttemptState) -> None:
    assert after(ATTEMPT, replace(SEEN, phase=phase)).state is state


def test_an_earlier_phase_changes_nothing_back() -> None:
    assert after(ATTEMPT, SEEN, replace(SEEN, phase=Phase.QUEUED)).state is A.RUNNING


def test_success_needs_proof() -> None:
    assert after(ATTEMPT, ENDED).failure is None
    unproven = after(ATTEMPT, replace(ENDED, exit_code=None, computed=False))
    assert unproven.failure is not None
    assert unproven.failure.cause is Cause.LOST


def test_an_exit_code_is_kept_as_it_is() -> None:
    died = after(ATTEMPT, DIED)
    assert (died.state, died.exit_code, died.computed) == (A.COLLECTED, 3, False)
    assert died.failure == Failure(cause=Cause.EXIT_CODE, message="exit code 3", exit_code=3)


def test_cost_is_price_times_time_exactly() -> None:
    assert str(after(ATTEMPT, ENDED).cost_usd) == "0.001000"


RAN = replace(ATTEMPT, state=A.RUNNING, submitted_ms=NOW_MS, started_ms=NOW_MS + 1000)
LOST_SEEN = replace(SEEN, phase=Phase.ENDED, cause=Cause.LOST, collected=True)


@pytest.mark.parametrize(
    ("state", "seen", "ends"),
    [
        (A.RUNNING, LOST_SEEN, A.LOST),
        (A.RUNNING, replace(LOST_SEEN, created_ms=None), A.LOST),
        (A.RUNNING, replace(DIED, ended_ms=None), A.COLLECTED),
        (A.STOPPING, replace(DIED, ended_ms=None), A.STOPPED),
        (A.RUNNING, replace(SEEN, phase=Phase.GONE), A.LOST),
        (A.STOPPING, replace(SEEN, phase=Phase.GONE), A.STOPPED),
    ],
)
def test_what_ended_unseen_costs_what_it_may_have_cost_at_most(
    state: AttemptState, seen: Observation, ends: AttemptState
) -> None:
    doubted = replace(RAN, state=state, absent_reads=2, absent_since_ms=NOW_MS + 5000)
    over = after(doubted, replace(seen, observed_ms=NOW_MS + 10_000), now_ms=NOW_MS + 10_000)
    assert over.state is ends
    assert str(over.cost_usd) == str(over.wasted_usd) == "0.010000"
    assert over.cost_at_most


def test_a_loss_whose_end_is_known_costs_what_it_took() -> None:
    over = after(RAN, replace(LOST_SEEN, ended_ms=NOW_MS + 4000), now_ms=NOW_MS + 10_000)
    assert (str(over.cost_usd), str(over.wasted_usd), over.cost_at_most) == ("0.004000", "0.004000", False)


def test_what_was_refused_costs_nothing_and_what_computed_wastes_nothing() -> None:
    refused = moved(ATTEMPT, A.REFUSED, actor="w", now_ms=NOW_MS + 10_000).attempt
    assert (refused.cost_usd, refused.cost_at_most) == (0, False)
    done = after(ATTEMPT, ENDED)
    assert (str(done.cost_usd), done.wasted_usd, done.cost_at_most) == ("0.001000", 0, False)


@pytest.mark.parametrize("state", sorted(ATTEMPT_FINAL))
@pytest.mark.parametrize("seen", [SEEN, ENDED, DIED, replace(SEEN, phase=Phase.GONE)])
def test_a_final_attempt_never_changes(state: AttemptState, seen: Observation) -> None:
    final = replace(ATTEMPT, state=state)
    assert track(final, seen, CARD, actor="w", now_ms=NOW_MS).attempt == final


def test_a_late_sign_of_life_is_kept_as_an_event() -> None:
    tracked = track(replace(ATTEMPT, state=A.LOST), SEEN, CARD, actor="w", now_ms=NOW_MS)
    assert [event.kind for event in tracked.events] == [EventKind.LATE_FACT]


def test_an_observation_of_another_attempt_is_nobody_s_business() -> None:
    assert after(ATTEMPT, replace(ENDED, key="other")) == ATTEMPT


def test_one_absent_read_is_no_loss_and_a_sign_of_life_clears_it() -> None:
    running = after(ATTEMPT, SEEN)
    gone = replace(SEEN, phase=Phase.GONE)
    doubted = after(running, gone)
    assert (doubted.state, doubted.absent_reads) == (A.RUNNING, 1)
    assert after(doubted, SEEN).absent_reads == 0


def doubted(attempt: Attempt, reads: int = 3) -> Attempt:
    for _ in range(reads):
        attempt = absent_again(attempt, NOW_MS)
    return attempt


def test_absence_needs_reads_and_as_long_as_a_create_may_be_late_and_hidden() -> None:
    card = replace(CARD, late_create_s=20.0, visibility_s=5.0)
    unheard = doubted(ATTEMPT)
    assert not absence_proven(unheard, card, NOW_MS + 24_900)
    assert absence_proven(unheard, card, NOW_MS + 25_000)
    assert not absence_proven(unheard, replace(card, late_create_s=None), NOW_MS + 10**9)
    assert not absence_proven(doubted(ATTEMPT, 2), card, NOW_MS + 25_000)
    assert not absence_proven(unheard, replace(CARD, late_create_s=0.0), NOW_MS + 900), "a moment is no span"


def test_what_came_to_be_is_gone_after_it_was_not_seen_for_as_long_as_it_may_be_hidden() -> None:
    """However late creates may land: this one has. And it may be hidden at any time, not only when it is new."""
    card = replace(CARD, late_create_s=None, visibility_s=60.0)
    handle = Handle(provider="somewhere", key=ATTEMPT.key, native_id="n", created_ms=NOW_MS - 10**7)
    for known in (replace(ATTEMPT, handle=handle), replace(ATTEMPT, permit_ms=NOW_MS - 10**7)):
        assert not absence_proven(doubted(known), card, NOW_MS + 59_000)
        assert absence_proven(doubted(known), card, NOW_MS + 60_000)


def test_an_asked_stop_ends_as_stopped_and_keeps_its_reason() -> None:
    cancelled = Failure(cause=Cause.CANCELLED, message="cancelled on request")
    stopping = replace(ATTEMPT, state=A.STOPPING, failure=cancelled)
    stopped = after(stopping, replace(DIED, cause=Cause.STOPPED))
    assert (stopped.state, stopped.failure) == (A.STOPPED, cancelled)


def test_what_finished_before_the_stop_arrived_is_computed() -> None:
    stopping = replace(ATTEMPT, state=A.STOPPING, failure=Failure(cause=Cause.CANCELLED, message=""))
    assert after(stopping, ENDED).computed


def test_a_watcher_that_blinks_is_no_event_and_one_that_is_blind_is_one() -> None:
    blind = replace(SEEN, phase=Phase.UNKNOWN, message="refused")
    running = after(ATTEMPT, SEEN)
    kinds = []
    for passed_s in range(0, 200, 10):
        tracked = track(running, blind, CARD, actor="w", now_ms=NOW_MS + passed_s * 1000)
        running = tracked.attempt
        kinds += [event.kind for event in tracked.events]
    assert (running.state, running.unseen_since_ms, kinds) == (A.RUNNING, NOW_MS, [EventKind.UNREACHABLE])
    back = track(running, SEEN, CARD, actor="w", now_ms=NOW_MS + 200_000)
    assert [event.kind for event in back.events] == [EventKind.RETURNED]
    assert back.attempt.unseen_since_ms is None
    once = after(running := after(ATTEMPT, SEEN), blind)
    assert track(once, SEEN, CARD, actor="w", now_ms=NOW_MS + 10).events == ()
    assert once.unseen_since_ms == NOW_MS


def test_what_was_thought_gone_and_is_there_is_told() -> None:
    missed = after(after(ATTEMPT, SEEN), replace(SEEN, phase=Phase.GONE))
    assert missed.absent_reads == 1
    back = track(missed, SEEN, CARD, actor="w", now_ms=NOW_MS + 10)
    assert [event.kind for event in back.events] == [EventKind.RETURNED]
    assert back.attempt.absent_reads == 0


def test_what_was_there_once_can_be_proven_gone_where_nobody_knows_how_late_a_create_may_land() -> None:
    card = replace(CARD, late_create_s=None)
    gone = replace(ATTEMPT, absent_reads=9, absent_since_ms=NOW_MS)
    later_ms = NOW_MS + 10**9
    assert not absence_proven(gone, card, later_ms)
    handle = Handle(provider="somewhere", key=gone.key, native_id="n", created_ms=NOW_MS)
    assert absence_proven(replace(gone, handle=handle), card, later_ms)


@pytest.mark.parametrize(
    ("live", "absent", "span_s"),
    [
        (1, 1, ABSENT_SPAN_S),
        (2, 2, ABSENT_SPAN_S),
        (3, 3, MASS_SPAN_S),
        (200, 101, MASS_SPAN_S),
        (200, 100, ABSENT_SPAN_S),
    ],
)
def test_a_list_that_shows_nothing_at_all_is_doubted_first(live: int, absent: int, span_s: float) -> None:
    assert absence_span_s(live, absent) == span_s


def test_how_long_absence_has_to_last_is_kept_to() -> None:
    gone = replace(SEEN, phase=Phase.GONE)
    running = after(ATTEMPT, SEEN)
    for passed_s in range(0, 130, 10):
        at_ms = NOW_MS + 10_000 + passed_s * 1000
        running = track(
            running, replace(gone, observed_ms=at_ms), CARD, actor="w", now_ms=at_ms, span_s=MASS_SPAN_S
        ).attempt
        assert running.state is (A.LOST if passed_s >= MASS_SPAN_S else A.RUNNING)


def test_a_look_of_before_a_standstill_says_nothing_of_the_time_since() -> None:
    doubted = replace(RAN, absent_reads=2, absent_since_ms=NOW_MS)
    stale = after(doubted, replace(SEEN, phase=Phase.GONE, observed_ms=NOW_MS + 10), now_ms=NOW_MS + 60_000)
    assert (stale.state, stale.absent_reads) == (A.RUNNING, 3)
