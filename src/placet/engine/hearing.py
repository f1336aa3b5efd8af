"""Hears what providers say that no table knows. It counts and keeps; it decides nothing."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from placet.domain.allocations import Observation, Phase, Verb
from placet.domain.errors import ProviderError
from placet.domain.unheard import Unheard, kind_of, redacted
from placet.domain.values import evolve
from placet.ports.ambient import Clock
from placet.ports.corpus import Corpus

# So many kinds of sentences of each provider are kept; of more only the number is.
KEPT_MAX = 200


class Nowhere:
    """Where nothing is kept."""

    def read(self) -> Sequence[Unheard]:
        return ()

    def keep(self, messages: Sequence[Unheard]) -> None:
        del messages


class Hearing:
    """One per server; belongs to the thread of the event loop, but for writing the file."""

    def __init__(self, clock: Clock, corpus: Corpus | None = None) -> None:
        self._clock = clock
        self._corpus = corpus or Nowhere()
        self._kept = {_place(one): one for one in self._corpus.read()}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._changed = False

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many came since the server began, by provider and verb; also of those that were not kept."""
        return self._counts

    def messages(self) -> Sequence[Unheard]:
        """What is kept, the latest first."""
        return sorted(self._kept.values(), key=lambda one: (-one.last_ms, one.provider, one.text))

    def failed(self, provider: str, verb: Verb, error: ProviderError) -> None:
        """A call failed; it counts where the adapter says that its table does not know what was said."""
        if error.unheard:
            self._heard(provider, verb, error.raw or str(error))

    def saw(self, provider: str, seen: Observation) -> None:
        """Something was looked at; a state that is not on the card counts."""
        if seen.phase is Phase.UNKNOWN and seen.native_state:
            self._heard(provider, Verb.OBSERVE, f"state {seen.native_state}")

    def _heard(self, provider: str, verb: Verb, said: str) -> None:
        self._counts[provider, verb.value] += 1
        now_ms = self._clock.now_ms()
        new = Unheard(provider=provider, verb=verb.value, text=redacted(said), count=1, first_ms=now_ms, last_ms=now_ms)
        known = self._kept.get(_place(new))
        if known is not None:
            self._kept[_place(new)] = evolve(known, text=new.text, count=known.count + 1, last_ms=now_ms)
        elif sum(one.provider == provider for one in self._kept.values()) < KEPT_MAX:
            self._kept[_place(new)] = new
        else:
            return
        self._changed = True
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        """While one is written more may come: then it is written once more, with all of them."""
        while self._changed:
            self._changed = False
            await asyncio.to_thread(self._corpus.keep, tuple(self.messages()))
        self._writing = None


def _place(one: Unheard) -> tuple[str, str, str]:
    return one.provider, one.verb, kind_of(one.text)
