"""Adding up what an attempt wrote, and finding what a bound cut, against real folders."""

import os
from pathlib import Path

from placet.runner.disk import CutFiles, Tally


def cut(folder: Path, length_bytes: int, since_s: float = 0.0, entries_left: int = 1000) -> int:
    search = CutFiles([str(folder)], length_bytes, since_s, entries_left)
    assert search.step() is not None
    return search.count


def test_a_cut_file_is_exactly_as_long_as_its_bound_and_new(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(bytes(300))
    os.utime(tmp_path / "old", (1000, 1000))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "new").write_bytes(bytes(300))
    (tmp_path / "longer").write_bytes(bytes(301))
    assert cut(tmp_path, 300, since_s=2000.0) == 1
    assert cut(tmp_path, 300) == 2
    assert cut(tmp_path, 299) == 0


def test_holes_count_for_the_length_and_links_and_pipes_do_not(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**7)
    (tmp_path / "link").symlink_to(tmp_path / "sparse")
    os.mkfifo(tmp_path / "pipe")
    assert cut(tmp_path, 10**7) == 1
    assert cut(tmp_path, 0) == 0
    total = Tally([str(tmp_path)]).step()
    assert total is not None
    assert total < 10**6


def test_a_bounded_pass_ends_early(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(bytes(7))
    assert cut(tmp_path, 7, entries_left=5) == 5


def test_a_huge_tree_takes_several_steps(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").write_bytes(bytes(10))
    tally = Tally([str(tmp_path)])
    assert tally.step(1) is None
    assert tally.step(100) is not None
    assert tally.total_bytes > 0
