"""Why attempts run where they run: each choice with what it was made from, and what would have won if."""

from pydantic import Field

from placet.contract.api import DemandView, DropView, OfferView, View
from placet.contract.forecasts import IntervalView


class ChoiceView(View):
    """One offer that fitted, as it was ranked."""

    offer: OfferView
    cost_usd: IntervalView
    score: str = Field(description="Lower is better; the sum of its parts.")
    parts: dict[str, str] = Field(default={})


class LearntView(View):
    """What attempts had taught about a group of offers: counts, in which older attempts weigh less."""

    level: str = Field(description="offer, place, provider, capacity: from one offer to all of a kind.")
    group: list[str] = Field(description="What its offers share: the id; or provider, region, GPU, capacity type.")
    starts: float
    failed_starts: float
    hours: float
    losses: float


class BlockView(View):
    """What the tenant's workloads left alone for a while, because it had failed again and again."""

    scope: str = Field(description="offer, place (a provider's region), provider")
    provider: str
    region: str = ""
    offer_id: str = ""
    cause: str
    events: int = Field(description="How often in a row.")
    until: str
    workload_id: str = Field(description="Whose attempt failed last.")
    epoch: int


class WhatIfView(View):
    """What would have won among the kept offers if something had been asked otherwise."""

    change: str
    offer_id: str | None = Field(default=None, description="Nothing fits then, if there is none.")
    cost_usd: IntervalView | None = None
    same: bool = Field(description="The same offer wins.")


class ReplayView(View):
    """The choice made again from its record."""

    equal: bool
    differences: list[str] = Field(default=[])


class DecisionView(View):
    """The choice behind one attempt."""

    epoch: int
    at: str
    seed: str = Field(description="Settled ties.")
    snapshot: str = Field(description="Digest of the ids, prices and start-up times of all considered offers.")
    considered: int = Field(description="How many offers there were.")
    kept: int = Field(description="How many of them are in the record; what follows is about these.")
    whole: bool = Field(description="The record holds all offers, so a replay decides among the same.")
    demand: DemandView
    spent_usd: str = "0"
    quoted_usd: str | None = Field(default=None, description="The bound of the quote that it was submitted with.")
    quote_left_usd: str | None = Field(default=None, description="What earlier attempts had left of it.")
    exploration: float = Field(default=0.0, description="Share of workloads that may try what little is known of.")
    excluded: list[str] = Field(default=[], description="Offers that had just failed this workload.")
    ranked: list[ChoiceView] = Field(default=[], description="The best first: the first was chosen.")
    dropped: dict[str, int] = Field(default={}, description="How many offers each filter was the first to drop.")
    filter_fields: dict[str, str] = Field(default={}, description="The bound of the spec that each filter checks.")
    drops: list[DropView] = Field(default=[], description="The kept ones of those, with the reason.")
    blocks: list[BlockView] = Field(default=[])
    learnt: list[LearntView] = Field(default=[])
    what_if: list[WhatIfView] = Field(default=[])
    replay: ReplayView | None = Field(default=None, description="Only when asked for.")


class ExplanationView(View):
    """The choices of a workload, one for each attempt, first to last."""

    workload_id: str
    state: str
    reason: str = Field(default="", description="What it waits for, if it waits.")
    decisions: list[DecisionView] = Field(default=[])
    unrecorded: list[int] = Field(default=[], description="Attempts from before decisions were recorded.")
