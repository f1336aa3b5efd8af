"""The account against what really is: never contradicted, and each situation of the table met often enough."""

import json
import os
from pathlib import Path

import pytest

from placet.testing.world.answers import ROWS, rare, wanted
from placet.testing.world.options import draw
from placet.testing.world.seeds import run
from placet.testing.world.simulate import simulate

# Worlds that together meet every situation, so that continuous integration does not search for long.
KNOWN: dict[str, int] = json.loads((Path(__file__).parent / "situations.json").read_text())
FIRST, AT_A_TIME = 20_000, 4
WORLDS = int(os.environ.get("ACCOUNT_WORLDS", "12"))
SEARCHED = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + WORLDS, AT_A_TIME))
def test_no_answer_is_contradicted_and_what_is_common_is_met(first: int) -> None:
    tally = run(range(first, first + AT_A_TIME))
    assert not tally.failing, [(each.options.lines(), each.violations) for each in tally.failing]
    assert not rare(tally.met, tally.seeds)


@pytest.mark.timeout(180)  # a world in which an outcome is never known is a long one
@pytest.mark.parametrize("seed", sorted(set(KNOWN.values())))
def test_every_situation_is_met(seed: int) -> None:
    """What a known world does not meet any more is searched for in others."""
    missing = {situation for situation, known in KNOWN.items() if known == seed}
    for world in (seed, *range(30_000, 30_000 + SEARCHED)):
        report = simulate(draw(world))
        assert not report.violations, (report.options.lines(), report.violations)
        missing -= set(report.met)
        if not missing:
            break
    assert not missing


def test_situations_are_those_of_the_table() -> None:
    assert set(KNOWN) == set(wanted())
    assert len({(row.question, row.is_so) for row in ROWS}) == len(ROWS)
    assert {row.question for row in ROWS} == {row.question for row in ROWS if any(row.least.values())}


def test_too_few_of_many_is_told_and_luck_is_left_to_few() -> None:
    name = wanted()[0]
    plenty = dict.fromkeys(wanted(), 1000)
    assert rare(plenty, 1000) == ()
    assert [told.partition(": in ")[0] for told in rare({**plenty, name: 1}, 1000)] == [name]
    assert rare({}, 1) == ()
