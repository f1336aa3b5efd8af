"""Where the money went. Every amount is text with an exact decimal number of US dollars."""

from placet.contract.api import View


class EntryView(View):
    """One attempt. `spent_usd` is useful, overhead, wasted and running, `reserved_usd` what was set aside for it.
    `orphan_usd` is the part of the waste that was charged for what was found when the attempt was over."""

    workload_id: str
    attempt: int
    provider: str
    offer: str
    reserved_usd: str
    spent_usd: str
    useful_usd: str
    overhead_usd: str
    wasted_usd: str
    running_usd: str
    reason: str = ""
    after_stop_usd: str
    orphan_usd: str = "0"
    at_most: bool = False
    open: bool = False
    simulated: bool = False


class WasteView(View):
    """What was wasted for one reason."""

    reason: str
    usd: str


class LedgerView(View):
    """Entries and their sums. `at_most`: nobody knows when an attempt ended, what it may have cost counts."""

    workloads: int
    since: str | None = None
    entries: list[EntryView]
    reserved_usd: str
    spent_usd: str
    useful_usd: str
    overhead_usd: str
    wasted_usd: str
    running_usd: str
    after_stop_usd: str
    wasted: list[WasteView]
    at_most: bool
