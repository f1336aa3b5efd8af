"""After a failure: whose budget, how soon, where, and when to stop."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.failures import MEANINGS, Cause, Failure, FailureClass, Fault, RetrySafety
from placet.domain.records import Workload
from placet.domain.spec import Constraints, Repeat, RetryPolicy
from placet.stages.recovery import Again, GiveUp, recover
from tests.support.values import ATTEMPT, NOW_MS, SPEC, WORKLOAD

POLICY = RetryPolicy(attempts=3, infrastructure_attempts=4, backoff_s=Decimal(8), backoff_max_s=Decimal(20))
BUSY = replace(WORKLOAD, spec=replace(SPEC, retry=POLICY), epoch=1)


def after(cause: Cause, workload: Workload = BUSY) -> Again | GiveUp:
    return recover(workload, ATTEMPT, Failure(cause=cause, message=""), now_ms=NOW_MS)


def test_the_budgets_of_user_and_infrastructure_are_separate() -> None:
    program = after(Cause.EXIT_CODE)
    assert (program.user_failures, program.infrastructure_failures) == (1, 0)
    lost = after(Cause.LOST)
    assert (lost.user_failures, lost.infrastructure_failures) == (0, 1)


def test_a_spent_budget_ends_it() -> None:
    assert isinstance(after(Cause.EXIT_CODE, replace(BUSY, user_failures=1)), Again)
    assert isinstance(after(Cause.EXIT_CODE, replace(BUSY, user_failures=2)), GiveUp)
    assert isinstance(after(Cause.LOST, replace(BUSY, user_failures=2)), Again)
    assert isinstance(after(Cause.LOST, replace(BUSY, infrastructure_failures=3)), GiveUp)


@pytest.mark.parametrize("cause", [Cause.NO_CAPACITY, Cause.UNRESOLVED])
def test_what_never_existed_spends_no_budget(cause: Cause) -> None:
    step = after(cause, replace(BUSY, infrastructure_failures=4))
    assert isinstance(step, Again)
    assert step.infrastructure_failures == 4


def test_one_class_can_have_its_own_budget() -> None:
    policy = replace(POLICY, by_class=(("program", 1),))
    assert isinstance(after(Cause.EXIT_CODE, replace(BUSY, spec=replace(SPEC, retry=policy))), GiveUp)


@pytest.mark.parametrize("cause", [cause for cause in Cause if MEANINGS[cause].retry is RetrySafety.POINTLESS])
def test_what_cannot_get_better_is_not_repeated(cause: Cause) -> None:
    assert isinstance(after(cause), GiveUp)


def test_at_most_once_ends_with_the_permit() -> None:
    workload = replace(BUSY, spec=replace(BUSY.spec, repeat=Repeat.AT_MOST_ONCE))
    lost = Failure(cause=Cause.LOST, message="")
    assert isinstance(recover(workload, replace(ATTEMPT, permit_ms=NOW_MS), lost, now_ms=NOW_MS), GiveUp)
    assert isinstance(recover(workload, ATTEMPT, lost, now_ms=NOW_MS), Again)


def test_back_off_doubles_is_capped_and_jitters_by_a_quarter() -> None:
    delays = []
    for failures in range(3):
        step = after(Cause.LOST, replace(BUSY, infrastructure_failures=failures))
        assert isinstance(step, Again)
        delays.append(step.at_ms - NOW_MS)
    for delay_ms, nominal_s in zip(delays, (8, 16, 20), strict=True):
        assert 0.75 * nominal_s * 1000 <= delay_ms <= 1.25 * nominal_s * 1000


def test_an_attempt_that_would_start_after_the_deadline_is_not_planned() -> None:
    bounds = Constraints(deadline_ms=NOW_MS + 100)
    assert isinstance(after(Cause.LOST, replace(BUSY, spec=replace(BUSY.spec, constraints=bounds))), GiveUp)


def test_infrastructure_failures_go_elsewhere_and_program_failures_do_not() -> None:
    lost, program = after(Cause.LOST), after(Cause.EXIT_CODE)
    assert isinstance(lost, Again)
    assert isinstance(program, Again)
    assert (lost.exclude_offer, program.exclude_offer) == ("small", None)


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_meaning_and_a_way_out(cause: Cause) -> None:
    meaning = MEANINGS[cause]
    assert meaning.fix
    assert meaning.fault in Fault


@pytest.mark.parametrize("failure_class", list(FailureClass))
def test_every_class_has_a_policy_and_what_is_tried_again_can_be_bounded_by_its_class(
    failure_class: FailureClass,
) -> None:
    causes = [cause for cause in Cause if MEANINGS[cause].failure_class is failure_class]
    assert causes, "a class that nothing belongs to"
    policy = replace(SPEC.retry, attempts=9, infrastructure_attempts=9, by_class=((str(failure_class), 1),))
    once = replace(WORKLOAD, spec=replace(SPEC, retry=policy), epoch=1)
    often = replace(once, spec=replace(SPEC, retry=replace(policy, by_class=())))
    for cause in causes:
        failure = Failure(cause=cause, message="")
        free = MEANINGS[cause].retry is not RetrySafety.POINTLESS and cause in (
            Cause.NO_CAPACITY,
            Cause.UNRESOLVED,
            Cause.MOVED,
        )
        assert isinstance(recover(once, ATTEMPT, failure, now_ms=NOW_MS), Again) is free
        pointless = MEANINGS[cause].retry is RetrySafety.POINTLESS
        assert isinstance(recover(often, ATTEMPT, failure, now_ms=NOW_MS), GiveUp) is pointless
