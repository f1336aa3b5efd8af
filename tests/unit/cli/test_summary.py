"""The few lines at the end of a run."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.cli.summary import show_result
from placet.contract.api import ResultView
from placet.domain.failures import Cause, Failure
from placet.domain.states import AttemptState, WorkloadState
from placet.stages.result import conclude
from tests.support.values import ATTEMPT, NOW_MS, WORKLOAD

LOST = Failure(cause=Cause.LOST, message="its supervisor ended")


@pytest.mark.parametrize(
    ("exited_ms", "shown"), [(None, "cost     at most $4.00, of which $4.00 for"), (NOW_MS, "cost     $4.00, of which")]
)
def test_the_most_it_may_have_cost_is_told_as_such(exited_ms: int | None, shown: str) -> None:
    lost = replace(ATTEMPT, state=AttemptState.LOST, failure=LOST, cost_usd=Decimal(4), exited_ms=exited_ms)
    failed = replace(WORKLOAD, state=WorkloadState.FAILED, failure=LOST, epoch=1, finished_ms=NOW_MS)
    lines: list[str] = []
    show_result(ResultView.model_validate_json(conclude(failed, (lost,), ())), lines.append)
    assert shown in "\n".join(lines)
