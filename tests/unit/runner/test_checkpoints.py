"""Which checkpoint folders are let go, and how many at once."""

import os
from pathlib import Path

import pytest

from placet.runner import checkpoints
from placet.runner.checkpoints import DAY_S

NOW_S = 1_700_000_000.0


def folder(place: Path, name: str, days: float, inside_days: float | None = None) -> Path:
    made = place / name
    made.mkdir()
    if inside_days is not None:
        (made / "file").write_text("x")
        os.utime(made / "file", (NOW_S - inside_days * DAY_S,) * 2)
    os.utime(made, (NOW_S - days * DAY_S,) * 2)
    return made


@pytest.fixture
def gone() -> list[str]:
    """What was given to be discarded, by name."""
    return []


def pruned(place: Path, gone: list[str], known: tuple[str, ...] = (), days: float = 30.0) -> int:
    def discard(path: str) -> bool:
        gone.append(os.path.basename(path))
        return True

    return checkpoints.prune(str(place), NOW_S - days * DAY_S, known, discard)


def test_only_what_is_old_and_unknown_goes(tmp_path: Path, gone: list[str]) -> None:
    folder(tmp_path, "old", 31)
    folder(tmp_path, "old-inside", 31, 31)
    folder(tmp_path, "written", 31, 29)
    folder(tmp_path, "young", 29)
    folder(tmp_path, "known", 99)
    (tmp_path / "stray").write_text("x")
    os.utime(tmp_path / "stray", (NOW_S - 40 * DAY_S,) * 2)
    assert pruned(tmp_path, gone, known=("known",)) == 3
    assert sorted(gone) == ["old", "old-inside", "stray"]


def test_a_shorter_time_takes_more(tmp_path: Path, gone: list[str]) -> None:
    folder(tmp_path, "young", 2)
    assert pruned(tmp_path, gone, days=3) == 0
    assert pruned(tmp_path, gone, days=1) == 1


def test_a_link_is_judged_by_itself(tmp_path: Path, gone: list[str]) -> None:
    outside = folder(tmp_path, "outside", 0)
    place = tmp_path / "place"
    place.mkdir()
    (place / "link").symlink_to(outside)
    os.utime(place / "link", (NOW_S - 40 * DAY_S,) * 2, follow_symlinks=False)
    assert pruned(place, gone) == 1


def test_many_take_several_times_and_nothing_there_is_no_error(
    tmp_path: Path, gone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PRUNED_AT_ONCE", 2)
    for number in range(5):
        folder(tmp_path, f"{number}", 40)
    assert pruned(tmp_path, gone) == 2
    assert pruned(tmp_path / "none", gone) == 0


def test_what_cannot_be_moved_does_not_count(tmp_path: Path) -> None:
    folder(tmp_path, "old", 40)
    assert checkpoints.prune(str(tmp_path), NOW_S, (), lambda _path: False) == 0


def test_use_counts_from_now(tmp_path: Path) -> None:
    made = folder(tmp_path, "w", 40)
    before_s = made.stat().st_mtime
    checkpoints.used(str(tmp_path), "w")
    checkpoints.used(str(tmp_path), "none")
    assert made.stat().st_mtime > before_s
