"""One choice of an offer as it was made: what it was made from and what came out, so that it can be made again."""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.blocks import Block
from placet.domain.experience import Level, Tally
from placet.domain.offers import Demand, Interval, Offer
from placet.domain.quotes import Quoted
from placet.domain.spec import CapacityType, Spec
from placet.domain.values import evolve


@dataclass(frozen=True, kw_only=True)
class Known:
    """What attempts had taught about one group of offers."""

    level: Level
    group: str
    tally: Tally


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One offer that fitted, as it was ranked; ``parts`` are those of its score."""

    offer_id: str
    cost_usd: Interval
    score: Decimal
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Within:
    """What a policy left of the choice: these capacity types, and these providers and regions if any are named."""

    capacity_types: tuple[CapacityType, ...]
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    def of(self, spec: Spec) -> Spec:
        """The spec with its bounds drawn so narrow."""
        bounds = spec.constraints
        providers = evolve(bounds.providers, allowed=self.providers) if self.providers else bounds.providers
        regions = evolve(bounds.regions, allowed=self.regions) if self.regions else bounds.regions
        narrow = evolve(bounds, capacity_types=self.capacity_types, providers=providers, regions=regions)
        return evolve(spec, constraints=narrow)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The choice behind one attempt; its spec is that of the workload, ``within`` what a policy left of it.

    ``seed`` settled its ties. ``snapshot`` is a digest of the ids, prices and start-up times of all ``considered``
    offers. ``offers`` are those that are kept: all of them when ``whole``, else the best that fitted and a few that did
    not. ``known`` is what had been learnt about the kept ones and their groups.
    """

    workload_id: str
    epoch: int
    at_ms: int
    seed: str
    demand: Demand
    within: Within | None = None
    excluded: tuple[str, ...] = ()
    spent_usd: Decimal = Decimal(0)
    quoted: Quoted | None = None
    budget_usd: Decimal | None = None
    known: tuple[Known, ...] = ()
    blocks: tuple[Block, ...] = ()
    exploration: float = 0.0
    snapshot: str = ""
    considered: int = 0
    whole: bool = True
    offers: tuple[Offer, ...] = ()
    ranked: tuple[Choice, ...] = ()
    drop_counts: tuple[tuple[str, int], ...] = ()
