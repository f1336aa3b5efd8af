"""Where outputs and sealed logs are kept. Nothing written by one epoch changes what another wrote."""

from collections.abc import AsyncIterator
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
