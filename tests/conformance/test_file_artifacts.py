"""The artifact store on the file system keeps the contract, and what only files have besides."""

import os
from pathlib import Path

import pytest

from placet.adapters.artifacts.files import FileArtifacts
from placet.ports.artifacts import Artifacts
from placet.testing.conformance.artifacts import ArtifactsContract, content, pieces, sha256


class TestFileArtifacts(ArtifactsContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Artifacts:
        return FileArtifacts(tmp_path / "artifacts")


@pytest.fixture
def files(tmp_path: Path) -> FileArtifacts:
    return FileArtifacts(tmp_path / "artifacts")


async def test_adopting_makes_no_second_copy(files: FileArtifacts, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    location = files.location("t", "w", 1, "a")
    await files.adopt(location, str(source), size_bytes=1, sha256=sha256(b"x"))
    assert (tmp_path / "artifacts" / location).stat().st_ino == source.stat().st_ino


async def test_a_copy_is_checked(files: FileArtifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*names: object, **options: object) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", no_links)
    source = tmp_path / "source"
    source.write_bytes(b"xy")
    location = files.location("t", "w", 1, "a")
    with pytest.raises(ValueError, match="announced"):
        await files.adopt(location, str(source), size_bytes=2, sha256=sha256(b"other"))
    assert await files.stat(location) is None
    await files.adopt(location, str(source), size_bytes=2, sha256=sha256(b"xy"))
    assert await content(files, location) == b"xy"


async def test_modes_are_private_whatever_the_mask(files: FileArtifacts, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        location = files.location("t", "w", 1, "deep/a")
        await files.write(location, pieces(b"x"))
    finally:
        os.umask(mask)
    path = tmp_path / "artifacts" / location
    assert path.stat().st_mode & 0o777 == 0o600
    for parent in path.parents:
        if parent == tmp_path:
            break
        assert parent.stat().st_mode & 0o777 == 0o700
