"""Secrets: what a client sends, and what it sees of them. No reply holds a value."""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.api import Page, View

VALUE_MAX = 32 * 1024


class SecretRequest(BaseModel):
    """The value of a secret. It is kept sealed and never handed back."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True)

    value: str = Field(min_length=1, max_length=VALUE_MAX, repr=False, description="Text without NUL, at most 32 KiB.")


class SecretView(View):
    """A secret without its value. `version` grows each time it is set; `key_id` says under which key it is sealed."""

    name: str
    version: int
    key_id: str
    created_at: str
    created_by: str


class RemovedSecretView(View):
    """What came of a removal: `changed` is false when there was none of that name."""

    name: str
    changed: bool


SecretPage: TypeAlias = Page[SecretView]
