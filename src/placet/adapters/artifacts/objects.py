"""Artifacts in a bucket of S3, GCS or Azure, whole or not at all. It knows nothing of what they mean.

The key is the location, below the prefix of the store's URL. What is small is one request; what is large goes up in
parts and becomes visible with the last of them.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from obstore import exceptions

from placet.adapters.objects.naming import location_of, parts_of
from placet.adapters.objects.opening import first_line, open_store, s3_client
from placet.adapters.objects.places import Access, Place
from placet.failpoints import Point, around
from placet.ports.artifacts import STORED, ObjectStat

PIECE_BYTES = 1024 * 1024
AT_ONCE_BYTES = 8 * 1024 * 1024
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 3  # so many parts of one object are in memory
DELETED_AT_ONCE = 500
# Of a store that does not know conditional writes two writers of the same name are told apart by looking first.
PROBE = ".placet/create-only"


class ObjectArtifacts:
    """One bucket and prefix. Constructing sends nothing. What the store refuses becomes ``OSError``."""

    def __init__(self, place: Place, access: Access) -> None:
        self._place, self._access = place, access
        self._store = open_store(place, access)
        self._prefix = place.key.strip("/")
        self._signer: Any = None
        self._creates_only: bool | None = None

    def location(self, tenant: str, workload_id: str, epoch: int, name: str) -> str:
        return location_of(tenant, workload_id, epoch, name)

    async def adopt(self, location: str, source: str, *, size_bytes: int, sha256: str | None) -> None:
        if source.startswith(STORED):
            await self._check_stored(location, source.removeprefix(STORED), size_bytes)
            return
        path = Path(source)
        facts = await asyncio.to_thread(_facts, path)
        if facts is None:
            await self._check_stored(location, location, size_bytes)
            return
        if not stat.S_ISREG(facts[0]):
            raise ValueError(f"{location}: its source is no regular file")
        if facts[1] != size_bytes:
            raise ValueError(f"{location}: {facts[1]} bytes, announced were {size_bytes}")
        with await asyncio.to_thread(_open, path) as file:
            await self._put(location, _announced(file, location, size_bytes, sha256), size_bytes)

    async def write(self, location: str, pieces: AsyncIterator[bytes]) -> ObjectStat:
        digest, size_bytes = hashlib.sha256(), 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size_bytes
            async for piece in pieces:
                digest.update(piece)
                size_bytes += len(piece)
                yield piece

        await self._put(location, counted(), None)
        return ObjectStat(size_bytes=size_bytes, sha256=digest.hexdigest())

    async def commit(self, location: str, data: bytes) -> bool:
        key = "/".join(parts_of(location))
        if self._creates_only is None:
            self._creates_only = await self._probed()
        if not self._creates_only and await self.stat(location) is not None:
            return False
        with _told(location), around(Point.ARTIFACT_NAME):
            try:
                await self._store.put_async(key, data, mode="create" if self._creates_only else "overwrite")
            except exceptions.AlreadyExistsError:
                return False
        return True

    async def stat(self, location: str) -> ObjectStat | None:
        key = "/".join(parts_of(location))
        try:
            with _told(location):
                found = await self._store.head_async(key)
        except FileNotFoundError:
            return None
        return ObjectStat(size_bytes=found["size"], sha256=None)

    async def read(self, location: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        key = "/".join(parts_of(location))
        kept = await self.stat(location)
        if kept is None:
            raise FileNotFoundError(location)
        end = kept.size_bytes if length is None else min(kept.size_bytes, offset + length)
        if offset >= end:
            return
        with _told(location):
            async for piece in self._ranged(key, offset, end, whole=end - offset == kept.size_bytes):
                yield piece

    async def link(self, location: str, *, within_s: int, filename: str, media_type: str) -> str | None:
        key = "/".join(parts_of(location))
        if self._place.scheme != "s3":
            # Only S3 lets the address say that the reply is a download, and no page of the bucket's origin.
            return None
        if self._signer is None:
            self._signer = await asyncio.to_thread(s3_client, self._access, public=True)
        asked = {
            "Bucket": self._place.bucket,
            "Key": f"{self._prefix}/{key}" if self._prefix else key,
            "ResponseContentDisposition": f"attachment; filename*=UTF-8''{quote(filename, safe='')}",
            "ResponseContentType": media_type,
        }
        link: str = await asyncio.to_thread(
            self._signer.generate_presigned_url, "get_object", Params=asked, ExpiresIn=within_s
        )
        return link

    async def delete_workload(self, tenant: str, workload_id: str) -> None:
        prefix = "/".join(parts_of(f"{tenant}/{workload_id}"))
        with _told(prefix):
            async for found in self._store.list(prefix=prefix, chunk_size=DELETED_AT_ONCE):
                await self._store.delete_async([one["path"] for one in found])

    async def _check_stored(self, location: str, stored: str, size_bytes: int) -> None:
        if stored != location:
            raise ValueError(f"{location}: {stored} is another object")
        kept = await self.stat(location)
        if kept is None:
            raise FileNotFoundError(location)
        if kept.size_bytes != size_bytes:
            raise ValueError(f"{location}: {kept.size_bytes} bytes, announced were {size_bytes}")

    async def _put(self, location: str, pieces: AsyncIterator[bytes], size_bytes: int | None) -> None:
        """In one request if it fits into memory easily, else in parts; a source that fails leaves nothing visible."""
        key = "/".join(parts_of(location))
        begun = bytearray()
        ended = False
        while len(begun) <= AT_ONCE_BYTES and not ended:
            piece = await anext(pieces, None)
            ended = piece is None
            begun += piece or b""
        with _told(location), around(Point.ARTIFACT_NAME):
            if ended:
                await self._store.put_async(key, bytes(begun), use_multipart=False)
                return
            await self._store.put_async(
                key,
                _joined(bytes(begun), pieces),
                chunk_size=_part_bytes(size_bytes),
                max_concurrency=PARTS_AT_ONCE,
            )

    async def _ranged(self, key: str, start: int, end: int, *, whole: bool) -> AsyncIterator[bytes]:
        skipped = 0
        options: Any = {} if whole else {"range": (start, end)}
        try:
            found = await self._store.get_async(key, options=options)
        except exceptions.GenericError as error:
            if whole or "non-partial" not in str(error):
                raise
            found, skipped = await self._store.get_async(key), start  # some stores send a range, but do not say so
        left = end - start
        async for piece in found.stream(min_chunk_size=PIECE_BYTES):
            data = memoryview(piece)
            if skipped:
                dropped = min(skipped, len(data))
                skipped, data = skipped - dropped, data[dropped:]
            while data and left > 0:
                taken = bytes(data[: min(PIECE_BYTES, left)])
                left, data = left - len(taken), data[len(taken) :]
                yield taken
            if left <= 0:
                return

    async def _probed(self) -> bool:
        """Does the store keep a second writer out? Asked with an object of our own, once in a process."""
        with _told(PROBE):
            await self._store.put_async(PROBE, b"")
            try:
                await self._store.put_async(PROBE, b"", mode="create")
            except exceptions.AlreadyExistsError:
                return True
            except (exceptions.NotSupportedError, exceptions.GenericError):
                return False
        return False


@contextlib.contextmanager
def _told(location: str) -> Iterator[None]:
    """The library's errors as ours: an ``OSError`` says what is wrong, and nothing that was signed."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "the object store has no such object or bucket", location) from error
    except exceptions.BaseError as error:
        # What the store was asked and refused is final; a store that does not answer may answer again.
        passes = isinstance(error, exceptions.GenericError)
        what = f"the object store answered: {type(error).__name__}: {first_line(error)}"
        raise OSError(errno.EAGAIN if passes else errno.EACCES, what, location) from error


def _part_bytes(size_bytes: int | None) -> int:
    """At most 10,000 parts; an unknown size may grow to 640 GB."""
    if size_bytes is None:
        return 8 * PART_BYTES
    return max(PART_BYTES, -(-size_bytes // 9_000))


def _facts(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_mode, found.st_size


def _open(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


async def _joined(begun: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begun
    async for piece in pieces:
        yield piece


async def _announced(file: BinaryIO, location: str, size_bytes: int, sha256: str | None) -> AsyncIterator[bytes]:
    """The file's bytes; it fails before the last of them if they are not those that were announced."""
    digest, sent = hashlib.sha256(), 0
    held = b""
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        digest.update(piece)
        sent += len(piece)
        if held:
            yield held
        held = piece
    if sent != size_bytes or (sha256 is not None and digest.hexdigest() != sha256):
        raise ValueError(f"{location}: the bytes are not those that were announced")
    if held:
        yield held
