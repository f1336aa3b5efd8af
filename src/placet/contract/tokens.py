"""Tokens: requests, lists, and the one reply that ever carries a secret."""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.api import Page, View
from placet.contract.budgets import Amount

NAME_MAX = 100
LIFE_MAX_S = 10 * 366 * 24 * 3600


class TokenRequest(BaseModel):
    """A token somebody wants; it never holds a scope that its creator lacks."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1, max_length=NAME_MAX, description="What it is for; shown in lists.")
    scopes: list[str] = Field(min_length=1, max_length=20, description="What it may be used for.")
    expires_in_s: int | None = Field(
        default=None, ge=1, le=LIFE_MAX_S, description="Its life in seconds; without it, until it is revoked."
    )
    budget_usd: Amount | None = Field(default=None, description="The most that it may spend in all.")
    month_budget_usd: Amount | None = Field(default=None, description="The most per calendar month, UTC.")


class TokenView(View):
    """A credential without its secret."""

    id: str
    name: str
    tenant: str
    scopes: list[str]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None


class IssuedTokenView(TokenView):
    """A new token. `token` is shown this once and kept nowhere."""

    token: str


TokenPage: TypeAlias = Page[TokenView]
