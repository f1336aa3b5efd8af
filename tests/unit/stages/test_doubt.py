"""An attempt of which nobody can tell whether it runs: by whose word is it given up, and at what cost?"""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.records import Attempt, Workload
from placet.domain.spec import Constraints, RetryPolicy, WhenUnknown
from placet.domain.states import AttemptState
from placet.stages.doubt import DOUBT_MS, Asks, GivesUp, Waits, exposure_usd, in_doubt, settle, since_ms
from tests.support.values import ATTEMPT, NOW_MS, SPEC, WORKLOAD

A = AttemptState
UNKNOWN = replace(ATTEMPT, state=A.UNKNOWN)
LATER_MS = NOW_MS + DOUBT_MS
HOUR_S = Decimal(3600)


def owner_says(policy: WhenUnknown, most: str | None = None, runtime_s: Decimal | None = HOUR_S) -> Workload:
    retry = RetryPolicy(when_unknown=policy, duplicate_usd=None if most is None else Decimal(most))
    return replace(WORKLOAD, spec=replace(SPEC, retry=retry, constraints=Constraints(runtime_s=runtime_s)))


@pytest.mark.parametrize(
    ("attempt", "since"),
    [
        (UNKNOWN, NOW_MS),
        (replace(ATTEMPT, state=A.RUNNING), None),
        (replace(ATTEMPT, state=A.RUNNING, unseen_since_ms=NOW_MS + 1), NOW_MS + 1),
        (replace(ATTEMPT, state=A.STOPPING, absent_since_ms=NOW_MS + 2, absent_reads=1), NOW_MS + 2),
        (replace(ATTEMPT, state=A.EXITED, unseen_since_ms=NOW_MS + 1), None),
        (replace(ATTEMPT, state=A.LOST, absent_since_ms=NOW_MS + 2), None),
    ],
)
def test_what_is_unclear_and_since_when(attempt: Attempt, since: int | None) -> None:
    assert since_ms(attempt) == since
    assert in_doubt(attempt, NOW_MS + 2 + DOUBT_MS) == (since is not None)


@pytest.mark.parametrize("policy", [WhenUnknown.WAIT, WhenUnknown.ASK, WhenUnknown.MAY_DUPLICATE])
def test_nothing_is_decided_in_the_first_moment(policy: WhenUnknown) -> None:
    assert settle(owner_says(policy, "100"), UNKNOWN, LATER_MS - 1) == Waits()


def test_the_default_waits_for_ever() -> None:
    assert settle(WORKLOAD, UNKNOWN, NOW_MS + 10**12) == Waits()


def test_the_owner_is_asked_in_the_same_words_at_every_look() -> None:
    asks = settle(owner_says(WhenUnknown.ASK), UNKNOWN, LATER_MS)
    assert isinstance(asks, Asks)
    assert asks.question.startswith("nobody can tell whether attempt 1 runs")
    assert "--go-on" in asks.question
    assert settle(owner_says(WhenUnknown.ASK), UNKNOWN, LATER_MS + 5000) == asks, "or each look would be an event"
    assert exposure_usd(owner_says(WhenUnknown.ASK), UNKNOWN, LATER_MS) == Decimal("3.66"), "an hour and a minute"


def test_a_duplicate_is_risked_within_its_cost_only() -> None:
    given_up = settle(owner_says(WhenUnknown.MAY_DUPLICATE, "3.66"), UNKNOWN, LATER_MS)
    assert isinstance(given_up, GivesUp)
    assert given_up.cost_usd == Decimal("3.66")
    dear = settle(owner_says(WhenUnknown.MAY_DUPLICATE, "3.65"), UNKNOWN, LATER_MS)
    assert isinstance(dear, Asks)
    assert "more than the $3.65" in dear.question


def test_what_has_no_bound_is_never_given_up_without_a_word() -> None:
    unbounded = owner_says(WhenUnknown.MAY_DUPLICATE, "1000", runtime_s=None)
    assert exposure_usd(unbounded, UNKNOWN, LATER_MS) is None
    assert isinstance(settle(unbounded, UNKNOWN, LATER_MS), Asks)
    free = replace(UNKNOWN, placement=replace(UNKNOWN.placement, price_usd_per_hour=Decimal(0)))
    assert isinstance(settle(unbounded, free, LATER_MS), GivesUp)


def test_the_word_of_its_owner_counts_at_once_and_only_while_it_is_unclear() -> None:
    told = replace(UNKNOWN, given_up_by="token:1")
    given_up = settle(WORKLOAD, told, NOW_MS + 1)
    assert isinstance(given_up, GivesUp)
    assert (given_up.by, given_up.cost_usd) == ("token:1", None)
    assert settle(WORKLOAD, replace(told, state=A.RUNNING), NOW_MS + 1) == Waits()
