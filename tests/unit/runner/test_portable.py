"""The runner for machines of others: it is one file for any Python from 3.8 on, and a claim is held by one alone."""

import ast
import io
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from placet.runner.ambient import Ambient
from placet.runner.portable import hardware
from placet.runner.portable.build import build
from placet.runner.portable.drop import CLAIM, SECRETS, Taken, claim, take_secrets
from placet.runner.records import read_record

OLDEST = (3, 8)


def sources() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(build().data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_every_part_of_it_is_python_3_8() -> None:
    for name, text in sources().items():
        ast.parse(text, filename=name, feature_version=OLDEST)


def test_annotations_are_never_evaluated_by_an_old_python() -> None:
    """``list[str]`` is no error in 3.8 only where annotations are not evaluated."""
    for name, text in sources().items():
        tree = ast.parse(text)
        given = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.AnnAssign | ast.arg)]
        given += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        new = [
            part
            for annotation in given
            if annotation is not None
            for part in ast.walk(annotation)
            if isinstance(part, ast.Subscript) or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr))
        ]
        assert not new or "from __future__ import annotations" in text, name


def test_it_imports_the_standard_library_alone() -> None:
    known = sys.stdlib_module_names | {"placet"}
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert all(each.partition(".")[0] in known for each in names), f"{name}: {names}"


def test_the_same_sources_give_the_same_file() -> None:
    first = build()
    build.cache_clear()
    assert build().sha256 == first.sha256


def test_without_an_order_it_does_nothing(tmp_path: Path) -> None:
    runner = tmp_path / "runner.pyz"
    runner.write_bytes(build().data)
    folder = tmp_path / "attempt"
    folder.mkdir()
    line = [sys.executable, "-I", "-S", "-B", str(runner), str(folder)]
    done = subprocess.run(line, capture_output=True, timeout=30, check=False)
    assert done.returncode == 96, done.stderr
    assert list(folder.iterdir()) == []


def test_of_many_claims_one_is_held(tmp_path: Path) -> None:
    held: list[str] = []

    def try_to(identity: str) -> None:
        try:
            claim(str(tmp_path), identity, {})
        except Taken:
            return
        held.append(identity)

    threads = [threading.Thread(target=try_to, args=(f"one-{number}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    assert (read_record(str(tmp_path / CLAIM)) or {})["identity"] == held[0]
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM]


def test_a_claim_whose_answer_was_lost_is_still_ones_own(tmp_path: Path) -> None:
    claim(str(tmp_path), "first", {})
    claim(str(tmp_path), "first", {})
    with pytest.raises(Taken, match="first"):
        claim(str(tmp_path), "second", {})


def test_without_hard_links_one_claim_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", refuse)
    claim(str(tmp_path), "first", {})
    with pytest.raises(Taken):
        claim(str(tmp_path), "second", {})


def test_secrets_are_gone_from_the_disk_once_they_are_read(tmp_path: Path) -> None:
    (tmp_path / SECRETS).write_text('{"TOKEN": "hush"}')
    assert take_secrets(str(tmp_path)) == {"TOKEN": "hush"}
    assert not (tmp_path / SECRETS).exists()
    assert take_secrets(str(tmp_path)) == {}


def test_a_machine_that_is_less_than_offered_is_told() -> None:
    gpu = {"name": "Tesla T4", "memory_bytes": 16 * 10**9, "driver": "550"}
    found = {"cpus": 8, "memory_bytes": 32 * 10**9, "disk_free_bytes": 10**9, "gpus": [gpu]}
    assert hardware.shortfall({"gpus": 1, "gpu_memory_bytes": 16 * 10**9, "memory_bytes": 32 * 10**9}, found) == ""
    assert "0 GPUs" not in hardware.shortfall({"gpus": 1}, {"cpus": 8}), "what cannot be asked is not held against it"
    assert "1 GPUs instead of 2" in hardware.shortfall({"gpus": 2}, found)
    assert "Tesla T4" in hardware.shortfall({"gpus": 1, "gpu_memory_bytes": 80 * 10**9}, found)
    assert "bytes of memory" in hardware.shortfall({"memory_bytes": 64 * 10**9}, found)
    assert "free bytes" in hardware.shortfall({"disk_free_bytes": 2 * 10**9}, found)


def test_gpus_are_read_from_what_the_driver_says() -> None:
    text = "NVIDIA A100-SXM4-80GB, 81920, 550.54.15\nnot a line\nNVIDIA H100, [N/A], 550\n"
    assert hardware.parsed(text) == [
        {"name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 81920 * 1024 * 1024, "driver": "550.54.15"}
    ]


@pytest.mark.parametrize(
    ("mount", "own", "file"),
    [
        ("31 24 0:27 / {root} rw - cgroup2 cgroup2 rw", "0::/job/step", "job/step/memory.events"),
        ("31 24 0:27 / {root} rw - cgroup cgroup rw,memory", "4:memory:/job/step", "job/step/memory.oom_control"),
        ("31 24 0:27 /job {root} rw - cgroup2 cgroup2 rw", "0::/job/step", "step/memory.events"),
    ],
    ids=["version-2", "version-1", "seen-from-inside"],
)
def test_kills_for_lack_of_memory_are_counted_where_the_process_is(
    tmp_path: Path, mount: str, own: str, file: str
) -> None:
    mounts, group, count = tmp_path / "mountinfo", tmp_path / "cgroup", tmp_path / "root" / file
    count.parent.mkdir(parents=True)
    count.write_text("low 0\noom_kill 2\n")
    mounts.write_text(mount.format(root=tmp_path / "root") + "\n")
    group.write_text(own + "\n")
    ambient = Ambient(str(mounts), str(group))
    assert ambient.known
    assert ambient.oom_kills_since_start() == 0
    count.write_text("low 0\noom_kill 3\n")
    assert ambient.oom_kills_since_start() == 1


def test_where_no_group_counts_nothing_is_known(tmp_path: Path) -> None:
    ambient = Ambient(str(tmp_path / "no"), str(tmp_path / "no"))
    assert not ambient.known
    assert ambient.oom_kills_since_start() == 0
