"""What would have to change in a request so that something could run it, and what that would cost."""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.offers import Interval, Offer
from placet.domain.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Change:
    """One bound of a spec changed just as far as one offer needs: ``words`` as a person would say it, ``value`` what to
    write at ``field``; empty to leave the field out."""

    filter: str
    field: str
    words: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """A few changes that make a request feasible, the request with them, and the best offer for it then.

    ``start_s`` is the expected time from dispatch to the start of the program. ``now`` is false when what fits is not
    free at this moment. Where ``offer`` is only listed, an adapter of its provider has to be connected besides.
    """

    changes: tuple[Change, ...]
    spec: Spec
    offer: Offer
    cost_usd: Interval
    start_s: Decimal
    now: bool
