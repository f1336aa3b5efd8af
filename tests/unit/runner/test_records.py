"""Records are there whole or not at all, spares hold nothing old, trees are deleted without following links."""

import os
from pathlib import Path

from placet.runner.records import read_record, remove_tree, write_record
from placet.runner.spares import Spares


def test_a_record_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    write_record(path, {"a": "ü", "b": [1, None]})
    assert read_record(path) == {"a": "ü", "b": [1, None]}


def test_a_shorter_record_over_a_longer_spare_leaves_no_rest(tmp_path: Path) -> None:
    (tmp_path / "r.json.new").write_text("x" * 1000)
    write_record(str(tmp_path / "r.json"), {"a": 1})
    assert (tmp_path / "r.json").read_text() == '{"a":1}'


def test_what_is_torn_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for text in ("", '{"a":', "[]", "\0\0\0\0"):
        path.write_text(text)
        assert read_record(str(path)) is None
    assert read_record(str(tmp_path / "none")) is None


def test_deleting_a_tree_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "link").symlink_to(tmp_path / "kept")
    remove_tree(str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()
    assert (tmp_path / "kept" / "file").exists()
    remove_tree(str(tmp_path / "tree"))


def plain_attempt(folder: Path) -> None:
    (folder / "work").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "logs" / "stdout").write_text("old secret")
    (folder / "launch.json").write_text("{}")
    (folder / "exit.json").write_text("{}")


def test_a_spare_holds_no_record_and_no_log(tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()
    spares = Spares(str(tmp_path / "stock"))
    plain_attempt(tmp_path / "old")
    assert spares.put(str(tmp_path / "old"))
    assert spares.take(str(tmp_path / "fresh"))
    fresh = tmp_path / "fresh"
    assert sorted(os.listdir(fresh)) == ["exit.json.new", "launch.json.new", "logs", "work"]
    assert (fresh / "logs" / "stdout.new").read_text() == ""
    assert not spares.take(str(tmp_path / "other"))


def test_what_a_program_left_behind_is_no_spare(tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()
    spares = Spares(str(tmp_path / "stock"))
    plain_attempt(tmp_path / "a")
    (tmp_path / "a" / "work" / "left").write_text("x")
    assert not spares.put(str(tmp_path / "a"))
    plain_attempt(tmp_path / "b")
    (tmp_path / "b" / "extra").mkdir()
    assert not spares.put(str(tmp_path / "b"))
    assert not spares.put(str(tmp_path / "none"))
