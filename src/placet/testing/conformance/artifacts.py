"""What a store of artifacts must keep to, one test each: inherit ``ArtifactsContract`` and supply ``store``."""

import asyncio
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.ports.artifacts import STORED, Artifacts

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
    """Inherit, and supply the fixture ``store``. ``creates_only`` is false for a store without conditional creates."""

    creates_only = True

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

    async def test_what_is_stored_already_is_only_looked_at(self, store: Artifacts) -> None:
        location, other = store.location("t", "wl_1", 1, "outputs/a"), store.location("t", "wl_1", 2, "outputs/a")
        with pytest.raises(FileNotFoundError):
            await store.adopt(location, STORED + location, size_bytes=5, sha256=None)
        await store.write(location, pieces(b"12345"))
        await store.adopt(location, STORED + location, size_bytes=5, sha256=None)
        with pytest.raises(ValueError, match="announced"):
            await store.adopt(location, STORED + location, size_bytes=4, sha256=None)
        with pytest.raises(ValueError, match="another"):
            await store.adopt(other, STORED + location, size_bytes=5, sha256=None)
        assert await content(store, location) == b"12345"

    async def test_what_is_committed_is_committed_once(self, store: Artifacts) -> None:
        location = store.location("t", "wl_1", 1, "manifest.json")
        assert await store.commit(location, b"first")
        assert not await store.commit(location, b"second")
        assert await content(store, location) == b"first"

    async def test_of_many_that_commit_one_does(self, store: Artifacts) -> None:
        if not self.creates_only:
            pytest.skip("the store has no conditional create")
        location = store.location("t", "wl_1", 1, "manifest.json")
        bodies = [str(number).encode() for number in range(8)]
        created = await asyncio.gather(*(store.commit(location, body) for body in bodies))
        assert created.count(True) == 1
        assert await content(store, location) == bodies[created.index(True)]

    async def test_a_large_file_is_there_whole(self, store: Artifacts, tmp_path: Path) -> None:
        path, location = tmp_path / "large", store.location("t", "wl_1", 1, "outputs/large")
        body = b"0123456789abcdef" * (20 * 1024 * 1024 // 16)
        path.write_bytes(body)
        await store.adopt(location, str(path), size_bytes=len(body), sha256=sha256(body))
        assert sha256(await content(store, location)) == sha256(body)
        assert await content(store, location, 10_000_001, 17) == body[10_000_001:10_000_018]

    @pytest.mark.parametrize("name", ["a b/ü#%20%.txt", "t~{x}?&=+.bin", "emoji😀/[x]*", "a:b\\c|d'<>", "%2e%2e/%2f"])
    async def test_odd_names_are_names(self, store: Artifacts, name: str) -> None:
        location = store.location("t", "wl_1", 1, f"outputs/{name}")
        await store.write(location, pieces(name.encode()))
        assert await content(store, location) == name.encode()
        await store.delete_workload("t", "wl_1")
        assert await store.stat(location) is None

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
