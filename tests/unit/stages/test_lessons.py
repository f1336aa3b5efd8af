"""What later decisions are told of attempts that are over."""

from dataclasses import replace

import pytest

from placet.domain.experience import Evidence, Level
from placet.domain.failures import MEANINGS, Cause, Fault
from placet.domain.lessons import NO_LESSONS, Ended
from placet.stages import lessons
from placet.stages.lessons import evidence_of, remember
from tests.support.values import NOW_MS

MINUTE_MS = 60_000
WHERE = {"offer_id": "a", "provider": "p", "region": "r", "gpu_model": "L4", "capacity_type": "spot"}
RAN = Ended(
    tenant="t",
    workload_id="wl_1",
    epoch=1,
    kind="k",
    created_ms=NOW_MS,
    permit_ms=NOW_MS + 2 * MINUTE_MS,
    started_ms=NOW_MS + 3 * MINUTE_MS,
    exited_ms=NOW_MS + 33 * MINUTE_MS,
    finished_ms=NOW_MS + 40 * MINUTE_MS,
    computed=True,
    **WHERE,
)
UNSTARTED = replace(RAN, permit_ms=None, started_ms=None, exited_ms=None, computed=False)


def test_an_attempt_that_ran_tells_of_its_start_and_its_hours() -> None:
    at_ms = NOW_MS + 40 * MINUTE_MS
    assert evidence_of(RAN) == Evidence(at_ms=at_ms, started=True, startup_s=180.0, hours=0.5, **WHERE)


@pytest.mark.parametrize("cause", [Cause.PREEMPTED, Cause.LOST])
def test_a_machine_that_went_away_is_a_loss(cause: Cause) -> None:
    told = evidence_of(replace(RAN, computed=False, cause=cause, exited_ms=None))
    assert told is not None
    assert told.taken_away
    assert told.hours == pytest.approx(37 / 60)


def test_a_machine_that_was_there_has_started_whatever_the_program_did() -> None:
    told = evidence_of(replace(RAN, started_ms=None, exited_ms=None, computed=False, cause=Cause.ENVIRONMENT))
    assert told is not None
    assert told.started
    assert (told.startup_s, told.hours) == (120.0, 0.0)


@pytest.mark.parametrize("cause", list(Cause))
def test_only_infrastructure_is_blamed_for_what_never_started(cause: Cause) -> None:
    told = evidence_of(replace(UNSTARTED, cause=cause))
    blamed = MEANINGS[cause].fault is Fault.INFRASTRUCTURE and cause is not Cause.STALE_PERMIT
    assert (told is not None) == blamed
    assert told is None or not told.started


def test_what_was_stopped_before_it_began_says_nothing() -> None:
    assert evidence_of(UNSTARTED) is None


def test_lessons_add_up_in_whatever_pieces_they_come() -> None:
    attempts = [replace(RAN, epoch=number, finished_ms=RAN.finished_ms + number * MINUTE_MS) for number in range(9)]
    at_once = remember(NO_LESSONS, attempts).experience.tallies
    apart = NO_LESSONS
    for attempt in reversed(attempts):
        apart = remember(apart, [attempt])
    assert at_once.keys() == apart.experience.tallies.keys()
    for key, tally in at_once.items():
        other = apart.experience.tallies[key]
        assert (tally.at_ms, tally.starts) == (other.at_ms, pytest.approx(other.starts))
        assert (tally.hours, tally.log_startup) == (pytest.approx(other.hours), pytest.approx(other.log_startup))


def test_the_number_of_groups_is_bounded_and_coarse_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "GROUPS_MAX", 40)
    attempts = [replace(RAN, offer_id=f"offer-{number}", finished_ms=NOW_MS + number) for number in range(100)]
    known = NO_LESSONS
    for attempt in attempts:
        known = remember(known, [attempt])
    tallies = known.experience.tallies
    assert len(tallies) <= 40
    assert {level for level, _ in tallies} == set(Level)
    assert (Level.OFFER, "offer-99") in tallies
    assert (Level.OFFER, "offer-0") not in tallies
