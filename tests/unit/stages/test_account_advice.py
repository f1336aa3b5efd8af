"""Each row of the table of advice in docs/account.md, in its order, and that there are no others."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from placet.domain.account import Advice, Question, Truth
from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt, Record, Workload
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, DeliveryState, Desired, WorkloadState
from placet.stages.account import account
from placet.stages.doubt import NOBODY
from tests.support.values import ATTEMPT, NOW_MS, SPEC, WORKLOAD

A, W = AttemptState, WorkloadState
PAGE = Path(__file__).resolve().parents[3] / "docs" / "account.md"


def over(cause: Cause, **fields: object) -> Workload:
    failure = Failure(cause=cause, message="")
    ended = replace(WORKLOAD, state=W.FAILED, epoch=1, failure=failure, finished_ms=NOW_MS)
    return replace(ended, **fields)  # type: ignore[arg-type]  # tests name fields of Workload


GONE = replace(ATTEMPT, state=A.COLLECTED, released_ms=NOW_MS, permit_ms=1, started_ms=1, exited_ms=1)
HELD = replace(GONE, released_ms=None)
KEPT = over(Cause.DELIVERY, compute_done=True, delivery=DeliveryState.MISSING, wake_ms=NOW_MS + 1000)
ONCE = replace(SPEC, repeat=Repeat.AT_MOST_ONCE)
LIVE = replace(WORKLOAD, state=W.RUNNING, epoch=1)
RUNS = replace(ATTEMPT, state=A.RUNNING, observed_ms=NOW_MS, permit_ms=1, started_ms=1)
UNHEARD = replace(ATTEMPT, state=A.UNKNOWN)
MINUTE_MS = 60_000

ROWS: list[tuple[str, Workload, Attempt | None, Advice]] = [
    ("it succeeded", replace(WORKLOAD, state=W.SUCCEEDED, epoch=1), GONE, Advice.NOTHING),
    ("it computed, was not delivered", KEPT, HELD, Advice.REDELIVER),
    ("it is over, and an attempt that was given up", over(Cause.UNRESOLVED),
     replace(ATTEMPT, state=A.LOST, given_up_by="token:1"), Advice.WAIT),
    ("it is over, and the same request", over(Cause.INVALID_REQUEST), GONE, Advice.NOTHING),
    ("it is over, may be started only once", over(Cause.EXIT_CODE, spec=ONCE), GONE, Advice.NOTHING),
    ("it is over otherwise", over(Cause.EXIT_CODE), GONE, Advice.RESUBMIT),
    ("it waits with Placet", replace(WORKLOAD, state=W.WAITING), None, Advice.WAIT),
    ("it is being stopped", replace(LIVE, desired=Desired.STOP), replace(RUNS, stop_requested_ms=NOW_MS), Advice.WAIT),
    ("its owner was asked", replace(LIVE, reason=f"{NOBODY} 1 runs"), UNHEARD, Advice.RESOLVE),
    ("for over a quarter of an hour", LIVE, replace(UNHEARD, created_ms=NOW_MS - 17 * MINUTE_MS), Advice.RESOLVE),
    ("for over a minute", LIVE, replace(UNHEARD, created_ms=NOW_MS - 2 * MINUTE_MS), Advice.WAIT),
    ("the answer to a submit", LIVE, replace(UNHEARD, created_ms=NOW_MS), Advice.WAIT),
    ("for less than a minute", LIVE, replace(RUNS, unseen_since_ms=NOW_MS - 5000), Advice.WAIT),
    ("anything else", LIVE, RUNS, Advice.WAIT),
]  # fmt: skip


@pytest.mark.parametrize(("row", "workload", "attempt", "advice"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_of_the_table(row: str, workload: Workload, attempt: Attempt | None, advice: Advice) -> None:
    del row
    told = account(Record(workload=workload, attempts=(attempt,) if attempt else ()), (), now_ms=NOW_MS)
    assert told.advice is advice


def test_the_page_has_these_rows_and_no_others() -> None:
    table = PAGE.read_text().partition("## What to do")[2].partition("To cancel")[0]
    written = re.findall(r"^\| (?!what is so|---)(.+?) \| `(\w+)`", table, re.MULTILINE)
    assert [advice for _, advice in written] == [advice.value for *_, advice in ROWS]
    for (said, _), (row, *_) in zip(written, ROWS, strict=True):
        assert said.startswith(row)


def test_two_rows_that_fit_are_told_apart_by_the_words() -> None:
    answers = [
        account(Record(workload=workload, attempts=(attempt,) if attempt else ()), (), now_ms=NOW_MS).advice_why
        for _, workload, attempt, _ in ROWS
    ]
    assert len(set(answers)) == len(ROWS)


def test_what_is_kept_is_told_with_until_when() -> None:
    assert "until 2027-" in account(Record(workload=KEPT, attempts=(HELD,)), (), now_ms=NOW_MS).advice_why
    late = account(Record(workload=KEPT, attempts=(HELD,)), (), now_ms=NOW_MS + 2000)
    assert late.advice is not Advice.REDELIVER


def truth(question: Question, workload: Workload, *attempts: Attempt) -> Truth:
    told = account(Record(workload=workload, attempts=attempts), (), now_ms=NOW_MS)
    return next(answer.answer for answer in told.answers if answer.question is question)


def test_between_two_attempts_a_retry_would_be_a_second_one() -> None:
    waiting = replace(WORKLOAD, state=W.WAITING, epoch=1)
    assert truth(Question.RETRY_DUPLICATES, waiting, replace(GONE, exit_code=3)) is Truth.YES
    stopping = replace(waiting, desired=Desired.STOP)
    assert truth(Question.RETRY_DUPLICATES, stopping, replace(GONE, exit_code=3)) is Truth.NO


def test_what_vanished_with_its_permit_may_have_computed() -> None:
    vanished = replace(ATTEMPT, state=A.LOST, permit_ms=1, released_ms=NOW_MS)
    assert truth(Question.COMPUTED_NOT_DELIVERED, over(Cause.LOST), vanished) is Truth.UNKNOWN
    assert truth(Question.COMPUTED_NOT_DELIVERED, over(Cause.LOST), replace(vanished, permit_ms=None)) is Truth.NO


def test_what_was_given_up_is_neither_safe_nor_unsafe_and_perhaps_still_queued() -> None:
    given_up = replace(ATTEMPT, state=A.LOST, given_up_by="token:1")
    assert truth(Question.SAFE_TO_RETRY, over(Cause.UNRESOLVED), given_up) is Truth.UNKNOWN
    assert truth(Question.STILL_QUEUED, replace(LIVE, state=W.PLACING), given_up) is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("workload", "attempt", "source"),
    [
        (replace(WORKLOAD, state=W.SUCCEEDED, epoch=1), replace(GONE, exit_code=0), "somewhere"),
        (over(Cause.EXIT_CODE), replace(GONE, failure=Failure(cause=Cause.EXIT_CODE, message="")), "somewhere"),
        (over(Cause.DEADLINE), GONE, "placet"),
    ],
    ids=["success", "failure", "deadline"],
)
def test_the_final_state_says_whose_evidence_decided_it(workload: Workload, attempt: Attempt, source: str) -> None:
    told = account(Record(workload=workload, attempts=(attempt,)), (), now_ms=NOW_MS).answers[-1]
    assert (told.question, told.answer, told.source) == (Question.OWNER, Truth.YES, source)
