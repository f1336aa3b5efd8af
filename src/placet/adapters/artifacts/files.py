"""Artifacts as files below one folder, whole or not at all. It knows nothing of what they mean."""

import asyncio
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from placet.adapters.objects.naming import location_of
from placet.failpoints import Point, around
from placet.ports.artifacts import STORED, ObjectStat

PIECE_BYTES = 1024 * 1024


class FileArtifacts:
    """``<root>/<tenant>/<workload>/<epoch>/<name>``; folders are 0700, files 0600. Blocking calls run in threads.

    An object is on the disk before it is visible: the record that says it was delivered outlives a power loss.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def location(self, tenant: str, workload_id: str, epoch: int, name: str) -> str:
        return location_of(tenant, workload_id, epoch, name)

    async def adopt(self, location: str, source: str, *, size_bytes: int, sha256: str | None) -> None:
        if source.startswith(STORED):
            if source.removeprefix(STORED) != location:
                raise ValueError(f"{location}: {source.removeprefix(STORED)} is another object")
            source = str(self._path(location))
        await asyncio.to_thread(self._adopt, location, Path(source), size_bytes, sha256)

    async def write(self, location: str, pieces: AsyncIterator[bytes]) -> ObjectStat:
        target = self._path(location)
        part = await asyncio.to_thread(self._part, target)
        digest, size_bytes = hashlib.sha256(), 0
        try:
            with part.open("wb") as file:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
                    digest.update(piece)
                    size_bytes += len(piece)
            await asyncio.to_thread(_publish, part, target)
        finally:
            part.unlink(missing_ok=True)
        return ObjectStat(size_bytes=size_bytes, sha256=digest.hexdigest())

    async def commit(self, location: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._commit, self._path(location), data)

    async def stat(self, location: str) -> ObjectStat | None:
        try:
            size_bytes = self._path(location).stat().st_size
        except FileNotFoundError:
            return None
        return ObjectStat(size_bytes=size_bytes, sha256=None)

    async def read(self, location: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        with self._path(location).open("rb") as file:
            file.seek(offset)
            left = length if length is not None else os.fstat(file.fileno()).st_size - offset
            while left > 0:
                piece = await asyncio.to_thread(file.read, min(PIECE_BYTES, left))
                if not piece:
                    return
                left -= len(piece)
                yield piece

    async def link(self, location: str, *, within_s: int, filename: str, media_type: str) -> str | None:
        del location, within_s, filename, media_type
        return None

    async def delete_workload(self, tenant: str, workload_id: str) -> None:
        folder = self._path(f"{tenant}/{workload_id}")
        await asyncio.to_thread(shutil.rmtree, folder, True)

    def _path(self, location: str) -> Path:
        path = self._root.joinpath(*location.split("/"))
        if ".." in path.parts:
            raise ValueError(f"{location!r} leaves the artifact store")
        return path

    def _part(self, target: Path) -> Path:
        _make_folders(target.parent)
        return target.with_name(f".part-{secrets.token_hex(8)}")

    def _commit(self, target: Path, data: bytes) -> bool:
        """A second name is refused where there is one already: that is what makes the first writer the only one."""
        part = self._part(target)
        try:
            part.write_bytes(data)
            part.chmod(0o600)
            _force(part, os.O_RDONLY)
            with around(Point.ARTIFACT_NAME):
                os.link(part, target, follow_symlinks=False)
                _force(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def _adopt(self, location: str, source: Path, size_bytes: int, sha256: str | None) -> None:
        """Link where the file system can, copy where it cannot; a copy is checked against the announced digest."""
        target = self._path(location)
        part = self._part(target)
        try:
            if not source.exists() and target.exists():
                source = target
            if not stat.S_ISREG(source.lstat().st_mode):
                raise ValueError(f"{location}: its source is no regular file")
            try:
                os.link(source, part, follow_symlinks=False)
            except OSError:
                shutil.copyfile(source, part, follow_symlinks=False)
                if sha256 is not None and _sha256(part) != sha256:
                    raise ValueError(f"{location}: the bytes are not those that were announced") from None
            if part.stat().st_size != size_bytes:
                raise ValueError(f"{location}: {part.stat().st_size} bytes, announced were {size_bytes}")
            _publish(part, target)
        finally:
            part.unlink(missing_ok=True)


def _publish(part: Path, target: Path) -> None:
    """Force the bytes to the disk, then give them their name, then force the name."""
    with around(Point.ARTIFACT_PART):
        part.chmod(0o600)
        _force(part, os.O_RDONLY)
    with around(Point.ARTIFACT_NAME):
        part.replace(target)
        _force(target.parent, os.O_RDONLY | os.O_DIRECTORY)


def _make_folders(folder: Path) -> None:
    """Every missing folder is private, whatever the process's mask."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _force(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
