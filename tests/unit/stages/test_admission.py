"""What a spec says against itself, and what helps."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.spec import CapacityType, Constraints, Repeat, RetryPolicy, Selection, Spec
from placet.domain.units import HOUR_MS
from placet.stages.admission import admit
from tests.support.values import NOW_MS, SPEC

BOTH = Selection(allowed=("a", "b"), denied=("b",))


def test_a_plain_spec_has_no_problem() -> None:
    assert admit(SPEC, NOW_MS) == ()
    assert admit(replace(SPEC, constraints=Constraints(deadline_ms=NOW_MS + HOUR_MS)), NOW_MS) == ()


@pytest.mark.parametrize(
    ("spec", "code", "field"),
    [
        (replace(SPEC, constraints=Constraints(deadline_ms=NOW_MS)), "deadline_passed", "constraints.deadline"),
        (replace(SPEC, constraints=Constraints(providers=BOTH)), "contradiction", "constraints.providers"),
        (replace(SPEC, constraints=Constraints(regions=BOTH)), "contradiction", "constraints.regions"),
        (
            replace(
                SPEC,
                repeat=Repeat.AT_MOST_ONCE,
                constraints=Constraints(capacity_types=(CapacityType.SPOT,)),
            ),
            "contradiction",
            "constraints.capacity_types",
        ),
        (
            replace(SPEC, repeat=Repeat.AT_MOST_ONCE, retry=RetryPolicy(attempts=2)),
            "contradiction",
            "retry.attempts",
        ),
        (
            replace(SPEC, constraints=Constraints(runtime_s=Decimal(0))),
            "out_of_range",
            "constraints.maximum_runtime_seconds",
        ),
        (
            replace(SPEC, constraints=Constraints(deadline_ms=NOW_MS + HOUR_MS, start_within_s=Decimal(7200))),
            "contradiction",
            "constraints.start_within_seconds",
        ),
    ],
)
def test_each_contradiction_is_named_with_a_way_out(spec: Spec, code: str, field: str) -> None:
    problems = admit(spec, NOW_MS)
    assert [(problem.code, problem.field) for problem in problems] == [(code, field)]
    assert all(problem.what and problem.why and problem.fix for problem in problems)


def test_all_problems_are_told_at_once() -> None:
    bounds = Constraints(deadline_ms=NOW_MS - 1, providers=BOTH, regions=BOTH)
    assert len(admit(replace(SPEC, constraints=bounds), NOW_MS)) == 3
