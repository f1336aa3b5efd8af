"""Where outputs and sealed logs are kept. Nothing written by one epoch changes what another wrote."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# In place of a local path: the object is in this store already, put there by a machine with signed addresses.
STORED = "stored:"


@dataclass(frozen=True, kw_only=True)
class ObjectStat:
    """Size and digest of a kept object."""

    size_bytes: int
    sha256: str | None


class Artifacts(Protocol):
    """Objects addressed by a location made from tenant, workload, epoch and a name."""

    def location(self, tenant: str, workload_id: str, epoch: int, name: str) -> str:
        """The address an object of that name will have; never leaves its root whatever the name."""

    async def adopt(self, location: str, source: str, *, size_bytes: int, sha256: str | None) -> None:
        """Take over a local file as this object, without a second copy where that can be done. Idempotent.

        A source of ``stored:`` and this very location is only looked at. Raises ``FileNotFoundError`` when neither the
        source nor the object is there, ``ValueError`` when the bytes are not those that were announced, ``OSError``
        when the store cannot be used.
        """

    async def write(self, location: str, pieces: AsyncIterator[bytes]) -> ObjectStat:
        """Write an object atomically from pieces: it is there whole or not at all; an earlier one is replaced."""

    async def commit(self, location: str, data: bytes) -> bool:
        """Create a small object if there is none of that name: was it created? One that is there is never changed."""

    async def stat(self, location: str) -> ObjectStat | None:
        """What is kept there."""

    def read(self, location: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The bytes, in pieces of bounded size. Raises ``FileNotFoundError``."""

    async def link(self, location: str, *, within_s: int, filename: str, media_type: str) -> str | None:
        """An address from which anyone may download the object for so long; ``None`` where there is no such thing."""

    async def delete_workload(self, tenant: str, workload_id: str) -> None:
        """Remove everything of one workload. Idempotent."""


@dataclass(frozen=True, kw_only=True)
class PartDigest:
    """A part of an object as its sender announces it. Digests are lower-case hex; ``md5`` may be empty.

    ``etag`` is the store's own name for what it has of it."""

    number: int
    size_bytes: int
    sha256: str
    md5: str = ""
    etag: str = ""

    def same_as(self, stored: "PartDigest | None") -> bool:
        """Has the store what is announced here? The strongest digest that it tells decides; none tells nothing."""
        if stored is None or stored.size_bytes != self.size_bytes:
            return False
        if stored.sha256:
            return stored.sha256 == self.sha256
        return not (self.md5 and stored.md5) or stored.md5 == self.md5


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a sender says of a whole object, in each form in which a store may tell it. Only the first two are sure.

    ``etag`` is the MD5, or that of the parts' and their number; ``parts_sha256`` the same of the parts' SHA-256.
    """

    size_bytes: int
    sha256: str
    etag: str = ""
    parts_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class SignedPut:
    """Where to send bytes, and the headers that must go with them; it is good for the announced bytes alone."""

    url: str
    headers: Mapping[str, str]


class PartUploads(Protocol):
    """Objects that machines write themselves, in parts, with addresses signed for them. Locations are of ``Artifacts``.

    Everything may raise ``OSError`` where the store cannot be used.
    """

    async def begin(self, location: str) -> str:
        """The id of a new upload in parts."""

    async def put_links(
        self, location: str, upload_id: str | None, parts: Sequence[PartDigest], within_s: int
    ) -> Sequence[SignedPut]:
        """An address for each part; without an upload's id, for the whole object, which then is the one part."""

    async def stored_parts(self, location: str, upload_id: str) -> Mapping[int, PartDigest] | None:
        """The parts that the store has, digests as far as it tells them; ``None`` for an upload it does not know."""

    async def finish(self, location: str, upload_id: str, parts: Sequence[PartDigest]) -> Sequence[int]:
        """Make the object of its parts if the store has each as announced; else the numbers of those it has not."""

    async def holds(self, location: str, told: Told) -> bool:
        """Is the object there with these bytes, by all that the store can tell?"""
