"""One attempt's account of its phases, also by a supervisor that did not see them begin."""

from pathlib import Path

from placet.runner.attempt import Attempt, wall_ms
from placet.runner.launch import Launch
from tests.unit.runner.test_launch import document


def test_a_phase_that_another_supervisor_began_is_as_long_as_the_wall_clock_says(tmp_path: Path) -> None:
    attempt = Attempt(Launch(document()), str(tmp_path), "boot")
    attempt.phases = [{"phase": "running", "began_ms": wall_ms() - 5_000}]
    attempt.enter("exited")
    assert 5_000 <= attempt.phases[0]["duration_ms"] < 65_000
    attempt.enter("collected")
    assert 0 <= attempt.phases[1]["duration_ms"] < 60_000
