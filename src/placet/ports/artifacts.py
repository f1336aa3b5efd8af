"""Where outputs and sealed logs are kept. Nothing written by one epoch changes what another wrote."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


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

        Raises ``FileNotFoundError`` when neither the source nor the object is there, ``ValueError`` when the bytes are
        not those that were announced.
        """

    async def write(self, location: str, pieces: AsyncIterator[bytes]) -> ObjectStat:
        """Write an object atomically from pieces: it is there whole or not at all; an earlier one is replaced."""

    async def stat(self, location: str) -> ObjectStat | None:
        """What is kept there."""

    def read(self, location: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The bytes, in pieces of bounded size. Raises ``FileNotFoundError``."""

    async def delete_workload(self, tenant: str, workload_id: str) -> None:
        """Remove everything of one workload. Idempotent."""
