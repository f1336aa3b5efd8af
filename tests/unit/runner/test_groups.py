"""Which control groups are strays: all of dead makers, none recent, and nothing that looks otherwise."""

import os
import time
from pathlib import Path

import pytest

from placet.runner.groups import STRAY_AGE_S, _is_stray

DEAD = 2**22 + 1  # above the largest process number


def folder(tmp_path: Path, *names: str, age_s: float = STRAY_AGE_S + 60) -> str:
    place = tmp_path / "placet-x"
    place.mkdir()
    for name in names:
        (place / name).mkdir()
    moment = time.time() - age_s
    os.utime(place, (moment, moment))
    return str(place)


def test_groups_of_the_dead_are_strays(tmp_path: Path) -> None:
    assert _is_stray(folder(tmp_path, f"g{DEAD}-5f-1", f"g{DEAD}-5f-2"))


def test_an_empty_old_place_is_a_stray(tmp_path: Path) -> None:
    assert _is_stray(folder(tmp_path))


@pytest.mark.parametrize(
    ("names", "age_s"),
    [
        ([f"g{os.getpid()}-5f-1", f"g{DEAD}-5f-1"], STRAY_AGE_S + 60),
        ([f"g{DEAD}-5f-1"], STRAY_AGE_S - 30),
        (["something-else"], STRAY_AGE_S + 60),
    ],
)
def test_anything_else_is_left_alone(tmp_path: Path, names: list[str], age_s: float) -> None:
    assert not _is_stray(folder(tmp_path, *names, age_s=age_s))


def test_what_is_not_there_is_no_stray(tmp_path: Path) -> None:
    assert not _is_stray(str(tmp_path / "none"))
