"""What failed again and again, and is left alone for a while."""

from dataclasses import dataclass
from enum import StrEnum

from placet.domain.failures import Cause


class Scope(StrEnum):
    """How far a failure reaches: one offer, all offers of a provider in a region, all of the provider."""

    OFFER = "offer"
    PLACE = "place"
    PROVIDER = "provider"


@dataclass(frozen=True, kw_only=True)
class Streak:
    """Failures of one cause in a row. ``region`` and ``offer_id`` are empty where the scope is wider than them.

    The last one was that of attempt ``epoch`` of ``workload_id``, at ``last_ms``; the last event began at ``event_ms``.
    """

    scope: Scope
    provider: str
    region: str
    offer_id: str
    cause: Cause
    events: int
    last_ms: int
    workload_id: str
    epoch: int
    event_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Block:
    """What is left alone until a moment, and the failures that speak against it."""

    streak: Streak
    until_ms: int
