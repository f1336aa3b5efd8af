"""All chance of one world: a stream for each purpose, so that a new draw for one does not reshuffle the others."""

import random


class Streams:
    """Numbers that depend on the seed and the name of the stream alone."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def of(self, name: str) -> random.Random:
        """The stream of this name; asked twice it goes on where it was."""
        known = self._streams.get(name)
        if known is None:
            # Seeded by text, which Python digests the same in every process.
            known = self._streams[name] = random.Random(f"{self.seed}/{name}")  # noqa: S311 - repeatable is the point
        return known
