"""What clients see of, and say about, an attempt of which nobody can tell whether it runs."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.api import View


class ResolveRequest(BaseModel):
    """The owner's word."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    decision: Literal["go_on"] = Field(
        description="`go_on`: give the attempt up and start the next one, at the risk that both run and cost."
    )


class DoubtView(View):
    """What is unclear. `at_most_usd` is the most that the attempt may cost in all; `null`: nothing bounds it."""

    workload_id: str
    state: str
    attempt: int
    in_doubt: bool
    since: str | None = None
    at_most_usd: str | None = None
    given_up_by: str = ""
