"""A price that was named and holds for a while."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a quote promises: until ``expires_ms`` a spec of this ``mark`` is accepted as long as nine of ten like it
    are expected to cost at most ``bound_usd``."""

    mark: bytes
    bound_usd: Decimal
    expires_ms: int


@dataclass(frozen=True, kw_only=True)
class Quote:
    """The terms, and the text that stands for them."""

    text: str
    terms: Terms


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """What a workload was quoted, and what its attempts left of it; ``done_s`` of its run need not be done again."""

    bound_usd: Decimal
    left_usd: Decimal
    done_s: float = 0.0
