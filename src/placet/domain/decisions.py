"""One choice of an offer as it was made: what it was made from and what came out, so that it can be made again."""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.blocks import Block
from placet.domain.experience import Level, Tally
from placet.domain.offers import Demand, Interval, Offer


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
class Decision:
    """The choice behind one attempt; its spec is that of the workload.

    ``seed`` settled its ties. ``snapshot`` is a digest of the ids, prices and start-up times of all ``considered``
    offers. ``offers`` are those that are kept: all of them when ``whole``, else the best that fitted and a few that did
    not. ``known`` is what had been learnt about the kept ones and their groups.
    """

    workload_id: str
    epoch: int
    at_ms: int
    seed: str
    demand: Demand
    excluded: tuple[str, ...] = ()
    spent_usd: Decimal = Decimal(0)
    known: tuple[Known, ...] = ()
    blocks: tuple[Block, ...] = ()
    snapshot: str = ""
    considered: int = 0
    whole: bool = True
    offers: tuple[Offer, ...] = ()
    ranked: tuple[Choice, ...] = ()
    drop_counts: tuple[tuple[str, int], ...] = ()
