"""The artifact store of the world: what was taken over, and an upload that breaks off when that is drawn."""

import errno
from collections.abc import AsyncIterator

from placet.ports.artifacts import ObjectStat
from placet.testing.world.cloud import Cloud
from placet.testing.world.faults import Faults
from placet.testing.world.process import Process


class Kept:
    """The objects, shared by all servers."""

    def __init__(self, faults: Faults, faults_s: float) -> None:
        self.objects: dict[str, ObjectStat] = {}
        self.small: dict[str, bytes] = {}
        self.faults = faults
        self._full_s = (0.0, 0.0)
        if faults.hit("disk_full"):
            begin_s = faults.between("disk_full", 0, faults_s)
            self._full_s = (begin_s, begin_s + faults.between("disk_full", 10, 300))

    def full(self, now_s: float) -> bool:
        """Is there no room at this moment?"""
        return self.faults.on and self._full_s[0] <= now_s < self._full_s[1]


class WorldArtifacts:
    """The Artifacts port of one process."""

    def __init__(self, kept: Kept, cloud: Cloud, process: Process) -> None:
        self._kept = kept
        self._cloud = cloud
        self._process = process

    def location(self, tenant: str, workload_id: str, epoch: int, name: str) -> str:
        return f"{tenant}/{workload_id}/{epoch}/{name}"

    async def adopt(self, location: str, source: str, *, size_bytes: int, sha256: str | None) -> None:
        await self._process.turn("before an upload")
        self._check_room()
        if self._kept.faults.hit("upload_cut"):
            raise OSError(errno.EIO, "the upload broke off")
        if self._kept.faults.hit("digest_mismatch"):
            raise ValueError("the bytes are not those that were announced")
        machine = self._cloud.machines.get(source.split("/")[0])
        if location not in self._kept.objects:
            if machine is None or machine.deleted_s is not None:
                raise FileNotFoundError(source)
            self._kept.objects[location] = ObjectStat(size_bytes=size_bytes, sha256=sha256)
        await self._process.turn("after an upload")

    async def write(self, location: str, pieces: AsyncIterator[bytes]) -> ObjectStat:
        size_bytes = 0
        async for piece in pieces:
            size_bytes += len(piece)
        await self._process.turn("before a log is kept")
        self._check_room()
        if self._kept.faults.hit("upload_cut"):
            raise OSError(errno.EIO, "the upload broke off")
        stat = self._kept.objects[location] = ObjectStat(size_bytes=size_bytes, sha256=None)
        return stat

    async def commit(self, location: str, data: bytes) -> bool:
        await self._process.turn("before a manifest")
        self._check_room()
        created = location not in self._kept.small
        self._kept.small.setdefault(location, data)
        await self._process.turn("after a manifest")
        return created

    async def link(self, location: str, *, within_s: int, filename: str, media_type: str) -> str | None:
        del location, within_s, filename, media_type
        return None

    async def stat(self, location: str) -> ObjectStat | None:
        await self._process.turn("before a look at what is kept")
        return self._kept.objects.get(location)

    async def read(self, location: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        del offset, length
        if location in self._kept.small:
            yield self._kept.small[location]
            return
        if location not in self._kept.objects:
            raise FileNotFoundError(location)
        yield b""

    async def delete_workload(self, tenant: str, workload_id: str) -> None:
        for location in [each for each in self._kept.objects if each.startswith(f"{tenant}/{workload_id}/")]:
            del self._kept.objects[location]

    def _check_room(self) -> None:
        if self._kept.full(self._process.loop.time()):
            raise OSError(errno.ENOSPC, "no space left")
