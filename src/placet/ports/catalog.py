"""A source of listings: what somebody says there is to rent, and for how much. It is believed by nobody yet."""

from dataclasses import dataclass
from typing import Protocol

from placet.domain.listings import Listing


@dataclass(frozen=True, kw_only=True)
class Found:
    """All listings of one reading. ``warnings`` tell of parts that could not be read anew, or not at all.

    Readings of one ``version`` are equal; an empty one says nothing.
    """

    listings: tuple[Listing, ...]
    version: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much one reading may give; a source that has more is refused, never cut short."""

    rows_max: int = 200_000
    bytes_max: int = 64 * 10**6


class Catalog(Protocol):
    """One source. Making one has no effect."""

    @property
    def name(self) -> str:
        """The name in settings, listings and offers."""

    async def read(self, known: str = "") -> Found | None:
        """All that is listed now; ``None`` when it is still what had the version ``known``, if that says anything.

        It may be cancelled at any moment, and leaves no process or open file behind. Raises ``CatalogUnreadable``.
        """
