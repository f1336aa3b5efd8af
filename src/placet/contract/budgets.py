"""Budgets: what one may be set to, and how one stands. Every amount is an exact decimal number of US dollars."""

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from placet.contract.api import View

Amount = Annotated[Decimal, Field(ge=0, max_digits=15, decimal_places=6)]


class BudgetRequest(BaseModel):
    """A budget somebody sets: in all, per calendar month (UTC), or both. What it was before is replaced."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    total_usd: Amount | None = Field(default=None, description="The most that may be spent in all.")
    month_usd: Amount | None = Field(default=None, description="The most of what begins in one calendar month, UTC.")

    @model_validator(mode="after")
    def _something(self) -> "BudgetRequest":
        if self.total_usd is None and self.month_usd is None:
            raise ValueError("has neither `total_usd` nor `month_usd`; give one of them, or both")
        return self


class BoundView(View):
    """One amount of a budget. `month` is empty for the total; `used_percent` counts what is spent and set aside."""

    month: str
    limit_usd: str
    reserved_usd: str = Field(description="What attempts that live may cost at worst.")
    spent_usd: str = Field(description="What attempts that are over did cost.")
    left_usd: str
    used_percent: int


class BudgetView(View):
    """A budget and how it stands."""

    kind: str = Field(description="tenant or token")
    holder: str = Field(description="The name of the tenant, or the id of the token.")
    bounds: list[BoundView]
    warnings: list[str] = Field(default=[], description="Of which bounds a half or more is used.")
    set_at: str
    set_by: str


class BudgetList(View):
    """Budgets, by kind and holder."""

    items: list[BudgetView]


class DroppedBudgetView(View):
    """What was taken away; `changed` is false when there was no budget."""

    kind: str
    holder: str
    changed: bool
