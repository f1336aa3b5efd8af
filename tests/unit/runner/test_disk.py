"""Adding up what an attempt wrote, against real folders."""

import os
from pathlib import Path

from placet.runner.disk import Tally


def test_the_longest_file_written_since(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(bytes(5000))
    os.utime(tmp_path / "old", (1000, 1000))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "new").write_bytes(bytes(300))
    tally = Tally([str(tmp_path)], since_s=2000.0)
    assert tally.step() is not None
    assert tally.longest_bytes == 300
    everything = Tally([str(tmp_path)])
    everything.step()
    assert everything.longest_bytes == 5000


def test_the_length_of_a_file_counts_its_holes_and_its_links_do_not_count(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**7)
    (tmp_path / "link").symlink_to(tmp_path / "sparse")
    os.mkfifo(tmp_path / "pipe")
    tally = Tally([str(tmp_path)])
    assert tally.step() < 10**6  # type: ignore[operator]  # one step sees so few
    assert tally.longest_bytes == 10**7


def test_a_bounded_pass_ends_early(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
    assert Tally([str(tmp_path)], entries_left=5).step() is not None


def test_a_huge_tree_takes_several_steps(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").write_bytes(bytes(10))
    tally = Tally([str(tmp_path)])
    assert tally.step(1) is None
    assert tally.step(100) is not None
    assert tally.longest_bytes == 10
