"""Inputs as seen from this machine: what is missing, out of bounds, or no file at all is found at the door."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.inputs import LocalInputs, size_of
from placet.adapters.objects.places import parse_place
from placet.adapters.objects.sources import Readable
from placet.domain.spec import Input, InputKind
from tests.support.values import SPEC


def codes(inputs: LocalInputs, kind: InputKind, source: str) -> list[str]:
    spec = replace(SPEC, inputs=(Input(name="a", kind=kind, source=source),))
    return [problem.code for problem in inputs.check(spec)]


@pytest.fixture
def inputs(tmp_path: Path) -> LocalInputs:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "here").write_text("x")
    (tmp_path / "outside").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    storage = {"data": str(tmp_path / "store"), "web": "https://example.com/base"}
    return LocalInputs(storage, private=(tmp_path / "own",))


def test_files_and_folders_are_fine(inputs: LocalInputs, tmp_path: Path) -> None:
    for source in (str(tmp_path / "outside"), str(tmp_path / "store"), f"file://{tmp_path}/outside"):
        assert codes(inputs, InputKind.PATH, source) == []
    assert codes(inputs, InputKind.STORAGE, "storage://data/here") == []


@pytest.mark.parametrize("name", ["nothing", "pipe"])
def test_what_is_not_there_or_could_block_is_refused(inputs: LocalInputs, tmp_path: Path, name: str) -> None:
    assert codes(inputs, InputKind.PATH, str(tmp_path / name)) == ["missing_input"]


def test_devices_are_no_inputs(inputs: LocalInputs) -> None:
    assert codes(inputs, InputKind.PATH, "/dev/zero") == ["missing_input"]


def test_aliases_are_known_and_stay_inside_their_folder(inputs: LocalInputs) -> None:
    assert codes(inputs, InputKind.STORAGE, "storage://other/x") == ["missing_input"]
    assert codes(inputs, InputKind.STORAGE, "storage://data/../outside") == ["bad_source"]


def test_an_alias_of_a_url_is_fetched(inputs: LocalInputs) -> None:
    spec = replace(SPEC, inputs=(Input(name="a", kind=InputKind.STORAGE, source="storage://web/set/1"),))
    assert [(one.kind, one.source) for one in inputs.resolve(spec)] == [("http", "https://example.com/base/set/1")]


def test_sizes_of_what_is_here_are_written_down_and_others_stay_as_stated(inputs: LocalInputs, tmp_path: Path) -> None:
    (tmp_path / "store" / "deep").mkdir()
    (tmp_path / "store" / "deep" / "more").write_bytes(b"x" * 99)
    os.symlink(tmp_path / "outside", tmp_path / "store" / "link")
    link = os.lstat(tmp_path / "store" / "link").st_size
    given = {
        ("path", str(tmp_path / "outside")): 1,
        ("path", str(tmp_path / "store")): 100 + link,
        ("storage", "storage://data/here"): 1,
        ("storage", "storage://data/../outside"): 7,
        ("storage", "storage://other/x"): 7,
        ("storage", "storage://web/set/1"): 7,
        ("http", "https://example.com/x"): 7,
        ("path", str(tmp_path / "nothing")): 7,
    }
    wanted = tuple(
        Input(name=f"i{number}", kind=InputKind(kind), source=source, size_bytes=7)
        for number, (kind, source) in enumerate(given)
    )
    completed = inputs.complete(replace(SPEC, inputs=wanted))
    assert [one.size_bytes for one in completed.inputs] == list(given.values())
    assert inputs.complete(SPEC) is SPEC


def test_what_takes_too_long_to_add_up_has_no_known_size(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"xx")
    assert size_of(str(tmp_path)) == 10
    assert size_of(str(tmp_path), entries_max=4) is None
    assert size_of(str(tmp_path), within_s=-1.0) is None


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("s3://open/a", ""),
        ("s3://shared/set/a", ""),
        ("s3://shared/set-of-others/a", "the operator"),
        ("s3://shared-too/set/a", "the operator"),
        ("gs://any/a/b", ""),
        ("az://account/container/a", "the operator"),
        ("s3://open/kept/local/wl_1/1/outputs/a", "those of others"),
        ("s3://open/kept-not/a", ""),
        ("s3://open", "no object"),
        ("s3://open/a/", "folder"),
        ("s3://open/*.txt", "pattern"),
        ("s3://open/../a", "no object is named by"),
    ],
)
def test_which_objects_may_be_read(source: str, why: str) -> None:
    own = parse_place("s3://open/kept")
    readable = Readable(prefixes=("s3://open", "s3://shared/set/", "gs://"), own=own)
    told = readable.why_not(source)
    assert (told == "") if not why else why in told


@pytest.mark.parametrize("way", ["plain", "link", "proc", "dots", "file-url"])
def test_the_servers_own_folder_is_no_input_by_whatever_way(inputs: LocalInputs, tmp_path: Path, way: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "token").write_text("secret")
    (tmp_path / "link").symlink_to(own)
    path = {
        "plain": str(own / "token"),
        "link": str(tmp_path / "link" / "token"),
        "proc": f"/proc/self/root{own}/token",
        "dots": f"{tmp_path}/own/../own/token",
        "file-url": f"file://{own}/token",
    }[way]
    assert codes(inputs, InputKind.PATH, path) == ["private_folder"]


def test_what_holds_the_servers_own_folder_may_only_be_worked_in(inputs: LocalInputs, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    assert codes(inputs, InputKind.PATH, str(tmp_path)) == ["private_folder"]
    for folder, found in ((tmp_path, []), (tmp_path / "own", ["private_folder"])):
        spec = replace(SPEC, inputs=(), runtime=replace(SPEC.runtime, working_directory=str(folder), script=None))
        assert [problem.code for problem in inputs.check(spec)] == found
