"""What our own attempts have taught about offers: decayed counts by group, and what is believed from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placet.domain.offer_table import Numbers


class Level(StrEnum):
    """How coarse a group of offers is, from one offer to all of them."""

    OFFER = "offer"
    PLACE = "place"
    PROVIDER = "provider"
    CAPACITY = "capacity"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one finished attempt says about its offer.

    ``startup_s`` is the time from the request to the start of the program, ``None`` when it never started;
    ``hours`` how long the program ran; ``taken_away`` that the machine was lost or preempted under it.
    """

    offer_id: str
    provider: str
    region: str
    gpu_model: str
    capacity_type: str
    at_ms: int
    started: bool
    startup_s: float | None = None
    hours: float = 0.0
    taken_away: bool = False
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of one group, each attempt weighing less the older it is; all weights are as of ``at_ms``.

    ``log_startup`` and ``log_startup_squared`` are weighted sums of the logarithm of the start-up time in seconds.
    """

    at_ms: int
    starts: float = 0.0
    failed_starts: float = 0.0
    log_startup: float = 0.0
    log_startup_squared: float = 0.0
    hours: float = 0.0
    losses: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Experience:
    """All tallies by (level, group)."""

    tallies: Mapping[tuple[Level, str], Tally] = field(default_factory=dict)

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What was worked out from it, by name, for whoever asks next."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Beliefs:
    """What is expected of each row of an offer table.

    ``start_share``: the chance that an attempt starts; ``startup_s``: the time until it does, as median and as ninth
    decile; ``losses_per_hour``: how often the machine is taken away; ``weight``: how many attempts stand behind it.
    """

    start_share: Numbers
    startup_s: Numbers
    startup_high_s: Numbers
    losses_per_hour: Numbers
    weight: Numbers

    def and_(self, more: "Beliefs") -> "Beliefs":
        """These and those about more rows, one after the other."""
        return Beliefs(
            start_share=np.concatenate([self.start_share, more.start_share]),
            startup_s=np.concatenate([self.startup_s, more.startup_s]),
            startup_high_s=np.concatenate([self.startup_high_s, more.startup_high_s]),
            losses_per_hour=np.concatenate([self.losses_per_hour, more.losses_per_hour]),
            weight=np.concatenate([self.weight, more.weight]),
        )

    def take(self, rows: NDArray[np.intp]) -> "Beliefs":
        """Those about some rows, in their order."""
        return Beliefs(
            start_share=self.start_share[rows],
            startup_s=self.startup_s[rows],
            startup_high_s=self.startup_high_s[rows],
            losses_per_hour=self.losses_per_hour[rows],
            weight=self.weight[rows],
        )
