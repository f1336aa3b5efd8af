"""The engine in the simulated world: seeds, that they can be repeated, and the worlds that are kept for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from placet.testing.world.options import draw
from placet.testing.world.saved import read
from placet.testing.world.seeds import run
from placet.testing.world.simulate import simulate

SAVED = sorted((Path(__file__).parent / "seeds").glob("*.json"))
AT_A_TIME = 6

DIGESTS = (
    "from placet.testing.world.options import draw;"
    "from placet.testing.world.simulate import simulate;"
    "print(*(simulate(draw(seed)).digest for seed in range(4)))"
)


def test_worlds_without_faults_come_to_a_good_end() -> None:
    for seed in range(8):
        report = simulate(draw(seed, faults=False))
        assert not report.violations, (report.options.lines(), report.violations)


def test_a_seed_is_the_same_world_in_every_process() -> None:
    """Nothing may depend on addresses, the order of sets, threads or the time of day."""
    told = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hashed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split())) == 4


@pytest.mark.parametrize("path", SAVED, ids=[path.stem for path in SAVED])
def test_a_world_that_once_found_a_fault_holds(path: Path) -> None:
    saved = read(path)
    report = simulate(saved.options)
    assert not report.violations, (saved.reason, report.options.lines(), report.violations)


@pytest.mark.parametrize("first", range(1000, 1000 + int(os.environ.get("SIM_SEEDS", "120")), AT_A_TIME))
def test_new_worlds_hold(first: int) -> None:
    """A few for every change; as many as there is time for are lived through by ``make sim``."""
    tally = run(range(first, first + AT_A_TIME))
    assert not tally.failing, [(each.options.lines(), each.violations) for each in tally.failing]
