"""Collection of outputs from a folder that a hostile program has prepared."""

import errno
import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.runner.collect import collect
from placet.runner.launch import Output
from placet.runner.walk import TooMuch, Walk
from tests.support.missing import missing


def attempt(tmp_path: Path, **files: str) -> Path:
    for root in ("work", "outputs"):
        (tmp_path / root).mkdir(exist_ok=True)
    for name, text in files.items():
        path = tmp_path / "work" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def output(path: str, name: str = "x") -> Output:
    return Output({"name": name, "path": path})


def paths(folder: Path, pattern: str) -> list[str]:
    return [found.path for found in Walk(str(folder / "work"), pattern, 1000).files]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", ["a"]),
        ("d", ["d/b", "d/e/c"]),
        ("*", ["a"]),
        ("d/*", ["d/b"]),
        ("**", ["a", "d/b", "d/e/c"]),
        ("**/c", ["d/e/c"]),
        ("**/a", ["a"]),
        ("d/**/*", ["d/b", "d/e/c"]),
        ("[ab]", ["a"]),
        ("d/[!a]", ["d/b"]),
        ("?", ["a"]),
        ("a.", []),
        ("", ["a", "d/b", "d/e/c"]),
        ("nothing/here", []),
        ("a/below", []),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    assert paths(attempt(tmp_path, a="1", d__b="2", d__e__c="3"), pattern) == expected


def test_files_move_out_whole_with_their_digest(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content")
    inode = (folder / "work" / "a").stat().st_ino
    manifest = collect(str(folder), [output("a")], 100, 2**62)
    (entry,) = manifest["outputs"]
    assert os.stat(entry["file"]).st_ino == inode
    assert entry["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert entry["size_bytes"] == 7
    assert (folder / "outputs.json").exists()


def test_collecting_again_after_a_crash_gives_the_same(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content", b="more")
    first = collect(str(folder), [output("*")], 100, 2**62)
    (folder / "outputs.json").unlink()
    assert collect(str(folder), [output("*")], 100, 2**62) == first


def test_one_path_below_two_folders_is_one_artifact(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content")
    (folder / "outputs" / "a").write_text("other")
    manifest = collect(str(folder), [output("a", "one"), output("/outputs/a", "two")], 100, 2**62)
    assert [entry["name"] for entry in manifest["outputs"]] == ["one"]
    assert manifest["missing"] == ["two"]
    assert "same path" in manifest["skipped"][0]["reason"]


def test_a_file_with_two_names_is_copied(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content")
    outside = tmp_path / "outside"
    os.link(folder / "work" / "a", outside)
    (entry,) = collect(str(folder), [output("a")], 100, 2**62)["outputs"]
    outside.write_text("changed afterwards")
    assert Path(entry["file"]).read_text() == "content"


def test_one_file_may_belong_to_two_outputs(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content")
    manifest = collect(str(folder), [output("a", "one"), output("*", "two")], 100, 2**62)
    assert [entry["name"] for entry in manifest["outputs"]] == ["one", "two"]
    assert len({entry["file"] for entry in manifest["outputs"]}) == 1


def test_bounds_are_kept_before_anything_is_touched(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="12345", b="12345")
    with pytest.raises(TooMuch):
        collect(str(folder), [output("*")], 100, 9)
    with pytest.raises(TooMuch):
        collect(str(folder), [output("*")], 1, 100)
    assert sorted(os.listdir(folder / "work")) == ["a", "b"]
    assert not (folder / "outputs.json").exists()


def test_a_work_folder_that_was_replaced_by_a_link_gives_nothing(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="1")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("canary")
    (folder / "work" / "d").symlink_to(secret)
    manifest = collect(str(folder), [output("d"), output("d/file", "y"), output("**/file", "z")], 100, 2**62)
    assert manifest["outputs"] == []
    assert manifest["missing"] == ["x", "y", "z"]


def test_deep_nests_end(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    deep = folder / "work"
    for _ in range(60):
        deep = deep / "n"
        deep.mkdir()
    (deep / "file").write_text("x")
    walk = Walk(str(folder / "work"), "", 1000)
    assert walk.files == []
    assert "deeply" in walk.skipped[0]["reason"]


@example(["[?--]"])
@example(["[?-.]"])
@example(["a[.-0]b"])
@example(["a[!x]b"])
@given(st.lists(st.text(alphabet="ab*?[]!-/.\\^", min_size=1, max_size=6), min_size=1, max_size=3))
def test_no_pattern_breaks_the_walk(parts: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a").mkdir()
        (root / "a" / "b").write_text("x")
        pattern = "/".join(part for part in "/".join(parts).split("/") if part not in ("", ".", ".."))
        for found in Walk(folder, pattern, 100).files:
            assert found.path == "a/b"


def test_holes_beyond_what_the_disk_could_hold_are_not_hashed(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    facts = os.statvfs(tmp_path)
    path = folder / "work" / "holes"
    path.touch()
    try:
        os.truncate(path, facts.f_bavail * facts.f_frsize * 2)
    except OSError as error:
        missing(f"this file system has no files so long: {error}")
    manifest = collect(str(folder), [output("holes")], 100, 2**62)
    assert "holes counted" in manifest["problem"]
    assert "the disk could hold" in manifest["problem"]
    assert (manifest["outputs"], manifest["missing"]) == ([], ["x"])
    assert path.exists()


def test_the_limit_of_the_settings_holds(tmp_path: Path) -> None:
    folder = attempt(tmp_path, a="content")
    assert "local.output_limit" in collect(str(folder), [output("a")], 100, 2**62, 6)["problem"]
    (folder / "outputs.json").unlink()
    assert "problem" not in collect(str(folder), [output("a")], 100, 2**62, 7)


def test_a_full_disk_is_no_missing_output(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=False).returncode != 0:
        missing("only root may mount a small disk")
    try:
        folder = attempt(disk, a="x" * 150_000)
        # A second name asks for a copy, for which there is no room.
        os.link(folder / "work" / "a", folder / "work" / "b")
        with pytest.raises(OSError, match="No space left") as caught:
            collect(str(folder), [output("a")], 100, 2**62)
        assert caught.value.errno == errno.ENOSPC
        assert (folder / "work" / "a").stat().st_size == 150_000
        assert not list((folder / "collected").iterdir()), "half a copy is in nobody's way"
        assert not (folder / "outputs.json").exists()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
