"""Webhooks: who is told of what, and how each message fared."""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.api import Page, View
from placet.contract.words import WorkloadState

URL_MAX = 2048


class HookRequest(BaseModel):
    """A webhook somebody wants."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    url: str = Field(min_length=1, max_length=URL_MAX, description="Where messages are sent: an https address.")
    states: list[WorkloadState] = Field(
        default=[], max_length=20, description="The states of a workload that are told of; none means all."
    )


class HookView(View):
    """A webhook without its signing key. While it is paused its messages wait."""

    id: str
    url: str
    states: list[str]
    created_at: str
    created_by: str
    former_key_until: str | None = Field(default=None, description="The key before this one signs too until then.")
    paused_at: str | None = None
    paused_why: str = ""


class KeyedHookView(HookView):
    """A webhook with its signing key, as Standard Webhooks writes it: `whsec_` and base64."""

    secret: str


class DispatchView(View):
    """A message. A try that had no answer has no `status` and says the `problem`."""

    id: str
    type: str
    workload_id: str = ""
    state: str
    tries: int
    created_at: str
    sent_at: str | None = None
    next_at: str | None = None
    status: int | None = None
    problem: str = ""


class ReplayView(View):
    """How many messages will be sent again."""

    messages: int


HookPage: TypeAlias = Page[HookView]
DispatchPage: TypeAlias = Page[DispatchView]
