"""The nine answers over the states a workload can be in."""

from dataclasses import replace

import pytest

from placet.domain.account import Account, Advice, Question, Truth
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, Event, EventKind, Record, Workload
from placet.domain.states import AttemptState, WorkloadState
from placet.stages.account import account
from tests.support.values import ATTEMPT, NOW_MS, WORKLOAD

A, W = AttemptState, WorkloadState
ACCEPTED = Event(workload_id=WORKLOAD.id, kind=EventKind.ACCEPTED, at_ms=NOW_MS - 500, actor="t", seq=7)


def ask(workload: Workload, *attempts: Attempt) -> Account:
    return account(Record(workload=workload, attempts=attempts), (ACCEPTED,), now_ms=NOW_MS)


def truth(told: Account, question: Question) -> Truth:
    return next(answer.answer for answer in told.answers if answer.question is question)


def test_all_nine_are_answered_once_and_in_order() -> None:
    assert [answer.question for answer in ask(WORKLOAD).answers] == list(Question)


def test_acceptance_has_evidence_and_age() -> None:
    answer = ask(WORKLOAD).answers[0]
    assert (answer.answer, answer.events, answer.age_ms) == (Truth.YES, (7,), 500)


@pytest.mark.parametrize(
    ("state", "permit", "started", "secured", "was_started"),
    [
        (A.INTENDED, None, None, Truth.UNKNOWN, Truth.NO),
        (A.UNKNOWN, None, None, Truth.UNKNOWN, Truth.UNKNOWN),
        (A.SUBMITTED, None, None, Truth.UNKNOWN, Truth.NO),
        (A.STARTING, 1, None, Truth.YES, Truth.UNKNOWN),
        (A.RUNNING, 1, 2, Truth.YES, Truth.YES),
        (A.REFUSED, None, None, Truth.NO, Truth.NO),
        (A.LOST, 1, None, Truth.YES, Truth.UNKNOWN),
        (A.STOPPED, 1, None, Truth.YES, Truth.UNKNOWN),  # it was to stop, and is gone: nobody saw how far it came
    ],
)
def test_secured_and_started_follow_the_evidence(
    state: AttemptState, permit: int | None, started: int | None, secured: Truth, was_started: Truth
) -> None:
    attempt = replace(ATTEMPT, state=state, permit_ms=permit, started_ms=started, observed_ms=NOW_MS - 1000)
    told = ask(replace(WORKLOAD, state=W.PLACING, epoch=1), attempt)
    assert truth(told, Question.CAPACITY_SECURED) is secured
    assert truth(told, Question.STARTED) is was_started


@pytest.mark.parametrize("state", [A.INTENDED, A.UNKNOWN, A.SUBMITTED, A.STARTING, A.RUNNING, A.STOPPING, A.EXITED])
def test_nothing_is_safe_to_retry_while_something_may_live(state: AttemptState) -> None:
    told = ask(replace(WORKLOAD, state=W.PLACING, epoch=1), replace(ATTEMPT, state=state))
    assert truth(told, Question.SAFE_TO_RETRY) is Truth.NO
    assert truth(told, Question.RETRY_DUPLICATES) is Truth.YES
    assert told.advice is Advice.WAIT


def test_a_waiting_workload_is_queued_with_us() -> None:
    told = ask(replace(WORKLOAD, state=W.WAITING, reason="all slots are taken"))
    assert truth(told, Question.STILL_QUEUED) is Truth.YES
    assert "all slots are taken" in told.advice_why


def test_absence_is_told_as_doubt_not_as_loss() -> None:
    doubted = replace(ATTEMPT, state=A.SUBMITTED, absent_reads=2, observed_ms=NOW_MS)
    told = ask(replace(WORKLOAD, state=W.PLACING, epoch=1), doubted)
    assert truth(told, Question.STILL_QUEUED) is Truth.UNKNOWN


@pytest.mark.parametrize(
    "doubt",
    [
        {"absent_reads": 1},
        {"observed_ms": NOW_MS - 91_000, "permit_ms": NOW_MS - 10**6},
        {"unseen_since_ms": NOW_MS - 91_000, "permit_ms": 1},
    ],
    ids=["absent", "old", "unreachable"],
)
def test_capacity_that_was_not_seen_lately_is_not_called_secured(doubt: dict[str, int]) -> None:
    attempt = replace(ATTEMPT, state=A.RUNNING, observed_ms=NOW_MS, permit_ms=NOW_MS, started_ms=NOW_MS)
    running = replace(WORKLOAD, state=W.RUNNING, epoch=1)
    assert truth(ask(running, attempt), Question.CAPACITY_SECURED) is Truth.YES
    assert truth(ask(running, replace(attempt, **doubt)), Question.CAPACITY_SECURED) is Truth.UNKNOWN


def test_while_the_next_attempt_is_waited_for_nothing_is_secured() -> None:
    over = replace(ATTEMPT, state=A.COLLECTED, permit_ms=NOW_MS, started_ms=NOW_MS, observed_ms=NOW_MS)
    told = ask(replace(WORKLOAD, state=W.WAITING, epoch=1), over)
    assert truth(told, Question.CAPACITY_SECURED) is Truth.NO
    assert truth(told, Question.STARTED) is Truth.YES


def test_computed_but_not_delivered_is_told() -> None:
    collected = replace(ATTEMPT, state=A.COLLECTED, computed=True)
    told = ask(replace(WORKLOAD, state=W.DELIVERING, epoch=1, compute_done=True), collected)
    assert truth(told, Question.COMPUTED_NOT_DELIVERED) is Truth.YES


@pytest.mark.parametrize(
    ("cause", "advice"), [(Cause.EXIT_CODE, Advice.RESUBMIT), (Cause.INVALID_REQUEST, Advice.NOTHING)]
)
def test_after_the_end_the_advice_depends_on_the_cause(cause: Cause, advice: Advice) -> None:
    failed = replace(WORKLOAD, state=W.FAILED, failure=Failure(cause=cause, message=""), finished_ms=NOW_MS)
    told = ask(failed)
    assert told.advice is advice
    assert told.check_again_ms is None
    assert truth(told, Question.SAFE_TO_RETRY) is Truth.YES


def test_what_is_looked_for_in_vain_is_told_from_the_first_look_on() -> None:
    unseen = replace(ATTEMPT, state=A.RUNNING, permit_ms=1, unseen_since_ms=NOW_MS - 20_000)
    told = ask(replace(WORKLOAD, state=W.RUNNING, epoch=1), unseen)
    assert (told.advice, told.advice_why) == (
        Advice.WAIT,
        "it was looked for in vain since 20.0 s ago; after 1m 00s that is a doubt",
    )
    later = ask(replace(WORKLOAD, state=W.RUNNING, epoch=1), replace(unseen, unseen_since_ms=NOW_MS - 60_000))
    assert later.advice_why.startswith("nobody can tell")
