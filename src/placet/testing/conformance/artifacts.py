"""What a store of artifacts must keep to, one test each: inherit ``ArtifactsContract`` and supply ``store``."""

import asyncio
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.ports.artifacts import Artifacts

PIECE = b"0123456789" * 1000


def sha256(data: bytes) -> str:
    """The digest as it is announced."""
    return hashlib.sha256(data).hexdigest()


async def content(store: Artifacts, location: str, offset: int = 0, length: int | None = None) -> bytes:
    """All that a read yields."""
    return b"".join([piece async for piece in store.read(location, offset, length)])


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A source for ``write``."""
    for part in parts:
        yield part


async def broken() -> AsyncIterator[bytes]:
    """A source that fails in the middle."""
    yield b"half"
    raise ConnectionError("the source broke off")


class ArtifactsContract(ABC):
    """Inherit, and supply the fixture ``store``."""

    @pytest.fixture
    @abstractmethod
    def store(self, tmp_path: Path) -> Artifacts:
        """The adapter under test, empty."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        """A file to be adopted."""
        path = tmp_path / "source"
        path.write_bytes(PIECE)
        return path

    async def test_an_adopted_file_is_there_with_its_bytes(self, store: Artifacts, source: Path) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a/b.bin")
        await store.adopt(location, str(source), size_bytes=len(PIECE), sha256=sha256(PIECE))
        seen = await store.stat(location)
        assert seen is not None and seen.size_bytes == len(PIECE)
        assert await content(store, location) == PIECE

    async def test_adopting_again_is_no_error(self, store: Artifacts, source: Path) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a")
        for _ in range(2):
            await store.adopt(location, str(source), size_bytes=len(PIECE), sha256=sha256(PIECE))
        os.unlink(source)
        await store.adopt(location, str(source), size_bytes=len(PIECE), sha256=sha256(PIECE))
        assert await content(store, location) == PIECE

    async def test_adopting_what_is_nowhere_says_so(self, store: Artifacts, tmp_path: Path) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a")
        with pytest.raises(FileNotFoundError):
            await store.adopt(location, str(tmp_path / "none"), size_bytes=1, sha256=None)
        assert await store.stat(location) is None

    async def test_another_size_is_refused_and_nothing_is_visible(self, store: Artifacts, source: Path) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a")
        with pytest.raises(ValueError, match="announced"):
            await store.adopt(location, str(source), size_bytes=len(PIECE) - 1, sha256=None)
        assert await store.stat(location) is None

    async def test_a_link_is_never_adopted(self, store: Artifacts, source: Path, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(source)
        location = store.location("t", "wl_1", 1, "outputs/a")
        with pytest.raises(ValueError, match="regular"):
            await store.adopt(location, str(link), size_bytes=len(PIECE), sha256=sha256(PIECE))
        assert await store.stat(location) is None

    async def test_a_written_object_is_whole_or_absent(self, store: Artifacts) -> None:
        location = store.location("t", "wl_1", 1, "logs/stdout")
        seen = await store.write(location, pieces(b"one ", b"", b"two"))
        assert (seen.size_bytes, seen.sha256) == (7, sha256(b"one two"))
        with pytest.raises(ConnectionError):
            await store.write(location, broken())
        assert await content(store, location) == b"one two"
        other = store.location("t", "wl_1", 1, "logs/stderr")
        with pytest.raises(ConnectionError):
            await store.write(other, broken())
        assert await store.stat(other) is None

    async def test_ranges(self, store: Artifacts, source: Path) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a")
        await store.adopt(location, str(source), size_bytes=len(PIECE), sha256=None)
        for offset, length in ((0, 0), (0, 1), (5, None), (9_999, 10), (10_000, None), (20_000, 5), (3, 4_000)):
            end = None if length is None else offset + length
            assert await content(store, location, offset, length) == PIECE[offset:end]

    async def test_reading_what_is_not_there_says_so(self, store: Artifacts) -> None:
        with pytest.raises(FileNotFoundError):
            await content(store, store.location("t", "wl_1", 1, "outputs/none"))

    async def test_epochs_and_tenants_are_apart(self, store: Artifacts) -> None:
        locations = [store.location(*who, "x") for who in (("t", "w", 1), ("t", "w", 2), ("u", "w", 1), ("t", "v", 1))]
        assert len(set(locations)) == 4
        for number, location in enumerate(locations):
            await store.write(location, pieces(str(number).encode()))
        for number, location in enumerate(locations):
            assert await content(store, location) == str(number).encode()
        await store.delete_workload("t", "w")
        await store.delete_workload("t", "w")
        assert [await store.stat(location) is None for location in locations] == [True, True, False, False]

    @pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\0b"])
    async def test_no_name_leaves_its_place(self, store: Artifacts, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            store.location("t", "wl_1", 1, name)

    @pytest.mark.parametrize("location", ["../../etc/passwd", "t/../../x", "t/w/1/../../../../x"])
    async def test_no_made_up_location_leaves_the_store(self, store: Artifacts, location: str) -> None:
        with pytest.raises((ValueError, FileNotFoundError)):
            await content(store, location)
        with pytest.raises(ValueError, match="store"):
            await store.write(location, pieces(b"x"))

    async def test_concurrent_writers_leave_one_whole_object(self, store: Artifacts) -> None:
        location = store.location("t", "wl_1", 1, "outputs/a")
        bodies = [bytes([65 + number]) * 50_000 for number in range(5)]
        await asyncio.gather(*(store.write(location, pieces(body[:25_000], body[25_000:])) for body in bodies))
        assert await content(store, location) in bodies
