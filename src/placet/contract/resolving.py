"""What clients see of an attempt of which nobody can tell whether it runs."""

from placet.contract.api import View


class DoubtView(View):
    """What is unclear. `at_most_usd` is the most that the attempt may cost in all; `null`: nothing bounds it."""

    workload_id: str
    state: str
    attempt: int
    in_doubt: bool
    since: str | None = None
    at_most_usd: str | None = None
    given_up_by: str = ""
