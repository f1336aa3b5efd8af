"""What clients see of allocations that no attempt stands for."""

from placet.contract.api import View


class OrphanView(View):
    """One of them. Costs are those since it was first seen; `null` where nobody knows its price."""

    id: str
    provider: str
    key: str
    native_id: str
    region: str
    state: str
    reason: str
    why: str
    next: str
    first_seen_at: str
    last_seen_at: str
    price_usd_per_hour: str | None = None
    cost_usd: str | None = None
    requested_at: str | None = None
    requested_by: str = ""
    closed_at: str | None = None
    proof: str = ""


class OrphanPage(View):
    """All that are open, the latest found first, and what they burn together; `unpriced` have no known price."""

    items: list[OrphanView]
    burn_usd_per_hour: str
    unpriced: int
