"""The tables of moves: closed, connected, and final where they say so."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from placet.domain.errors import ForbiddenMove
from placet.domain.states import (
    ATTEMPT_FINAL,
    ATTEMPT_LIVE,
    ATTEMPT_MOVES,
    INTENT_MOVES,
    WORKLOAD_FINAL,
    WORKLOAD_MOVES,
    AttemptState,
    IntentState,
    WorkloadState,
    advance,
)

TABLES: list[tuple[type[StrEnum], Mapping[Any, frozenset[Any]], StrEnum]] = [
    (WorkloadState, WORKLOAD_MOVES, WorkloadState.ACCEPTED),
    (AttemptState, ATTEMPT_MOVES, AttemptState.INTENDED),
    (IntentState, INTENT_MOVES, IntentState.SENT),
]


@pytest.mark.parametrize(("states", "table", "first"), TABLES)
def test_every_state_is_in_the_table_can_be_reached_and_can_end(
    states: type[StrEnum], table: Mapping[Any, frozenset[Any]], first: StrEnum
) -> None:
    assert set(table) == set(states)
    assert _reachable(table, first) == set(states)
    final = {state for state, targets in table.items() if not targets}
    assert all(_reachable(table, state) & final for state in states)


def _reachable(table: Mapping[Any, frozenset[Any]], start: Any) -> set[Any]:
    seen, todo = {start}, [start]
    while todo:
        for target in table[todo.pop()] - seen:
            seen.add(target)
            todo.append(target)
    return seen


@pytest.mark.parametrize(("states", "table", "first"), TABLES)
def test_advance_is_the_table(states: type[StrEnum], table: Mapping[Any, frozenset[Any]], first: StrEnum) -> None:
    del first
    for source in states:
        for target in states:
            if target in table[source]:
                assert advance(table, source, target) is target
            else:
                with pytest.raises(ForbiddenMove):
                    advance(table, source, target)


def test_final_and_live_are_told_apart() -> None:
    assert {state for state in WorkloadState if state.final} == WORKLOAD_FINAL
    assert set(AttemptState) == ATTEMPT_LIVE | ATTEMPT_FINAL
    assert not ATTEMPT_LIVE & ATTEMPT_FINAL
