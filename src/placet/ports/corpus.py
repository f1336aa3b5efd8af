"""Where messages that no table of a provider knows are kept from one life of the server to the next."""

from collections.abc import Sequence
from typing import Protocol

from placet.domain.unheard import Unheard


class Corpus(Protocol):
    """All of them at once: they are few. Neither call raises; what cannot be kept is not."""

    def read(self) -> Sequence[Unheard]:
        """What was kept last."""

    def keep(self, messages: Sequence[Unheard]) -> None:
        """Keep these in place of what was kept before."""
