"""Keeps to the rate limits on the cards: who would call too often waits. Each server counts its own calls only."""

from collections import deque
from collections.abc import Mapping

from placet.domain.allocations import ContractCard, RateLimit, Verb
from placet.domain.errors import RateLimited
from placet.domain.values import evolve
from placet.ports.ambient import Clock

# No word of a provider makes us wait longer than this before we ask again.
HOLD_MOST_S = 300.0


def submits_at_once(cards: Mapping[str, ContractCard]) -> dict[str, int]:
    """How many submits of a provider may be open, so that none waits longer than one period of its limit."""
    limits = {name: _limit(card, Verb.SUBMIT) for name, card in cards.items()}
    return {name: limit.calls for name, limit in limits.items() if limit is not None}


def with_waiting(card: ContractCard) -> ContractCard:
    """The card as decisions must read it: a create that waits for its turn is sent so much later than its intent."""
    limit = _limit(card, Verb.SUBMIT)
    if limit is None or card.late_create_s is None:
        return card
    return evolve(card, late_create_s=card.late_create_s + limit.per_s)


class Turns:
    """When the next call of each verb may go out."""

    def __init__(self, cards: Mapping[str, ContractCard], clock: Clock) -> None:
        self._clock = clock
        self._limits = {(name, limit.verb): limit for name, card in cards.items() for limit in card.rate_limits}
        self._sent_s = {place: deque[float](maxlen=limit.calls) for place, limit in self._limits.items()}
        self._held_until_s: dict[tuple[str, Verb], float] = {}

    async def turn(self, provider: str, verb: Verb) -> None:
        """Return when a call may be made; the call counts as made."""
        place = (provider, verb)
        limit = self._limits.get(place)
        if limit is None and place not in self._held_until_s:
            return
        now_s = self._clock.monotonic_s()
        at_s = max(now_s, self._held_until_s.get(place, now_s))
        if limit is not None:
            sent = self._sent_s[place]
            if len(sent) == limit.calls:
                at_s = max(at_s, sent[0] + limit.per_s)
            sent.append(at_s)
        if at_s > now_s:
            await self._clock.pause(at_s - now_s)
        else:
            self._held_until_s.pop(place, None)

    def longest_ms(self, provider: str, verb: Verb) -> int:
        """How long a call may wait for its turn at most, if no more are open than ``submits_at_once``."""
        limit = self._limits.get((provider, verb))
        return 0 if limit is None else int(limit.per_s * 1000)

    def refused(self, provider: str, verb: Verb, error: Exception) -> None:
        """A call failed; where the provider says how long to keep quiet, the next ones of that verb do.

        A submit is not held back by this: its attempt is over, and the next one has its pause from the retry policy.
        """
        if isinstance(error, RateLimited) and error.retry_after_s is not None and verb is not Verb.SUBMIT:
            until_s = self._clock.monotonic_s() + min(max(error.retry_after_s, 0.0), HOLD_MOST_S)
            self._held_until_s[provider, verb] = until_s


def _limit(card: ContractCard, verb: Verb) -> RateLimit | None:
    return next((limit for limit in card.rate_limits if limit.verb is verb), None)
