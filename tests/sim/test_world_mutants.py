"""Each mutant of the engine is noticed: a simulation that does not see a rule missing proves nothing about it."""

import json
from itertools import chain
from pathlib import Path

import pytest

from placet.testing.world.hunting import hunt
from placet.testing.world.mutants import MUTANTS

# Worlds that caught each, so that continuous integration does not search for long.
KNOWN: dict[str, list[int]] = json.loads((Path(__file__).parent / "mutants.json").read_text())
SEARCHED = 60


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_rule_is_noticed(name: str) -> None:
    known = KNOWN.get(name, [])
    found = hunt(MUTANTS[name], chain(known, (seed for seed in range(SEARCHED) if seed not in known)))
    assert found.caught, f"{name} survives: nobody would notice that this rule is gone: {MUTANTS[name].removed}"
    assert not found.crashed, f"worlds {found.crashed}: the mutant does not run, which proves nothing"
    assert not found.unsound, f"worlds {found.unsound} violate something with the engine as it is"


def test_every_known_catch_is_of_a_mutant_that_there_is() -> None:
    assert set(KNOWN) == set(MUTANTS)
