"""Amounts of money that a tenant or a token may spend: in all, in a calendar month, or both."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_DOWN, Decimal
from enum import StrEnum

MICRO = Decimal("0.000001")
# The period of a budget that is for all time; the others are months such as ``2027-01``.
ALWAYS = ""
# So many budgets are kept in mind.
BUDGETS_MAX = 10_000
# From these shares on, in percent, whoever adds to what is spent is warned.
WARNED_AT = (50, 80, 100)


class Holder(StrEnum):
    """Who has a budget."""

    TENANT = "tenant"
    TOKEN = "token"  # noqa: S105 - a kind of holder, no secret


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one holder may spend, in US dollars; ``None``: no such bound."""

    kind: Holder
    holder: str
    total_usd: Decimal | None = None
    month_usd: Decimal | None = None
    set_ms: int = 0
    set_by: str = ""

    @property
    def name(self) -> str:
        """Whose it is, for people."""
        return f"{self.kind} {self.holder}"


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What attempts that live may cost at worst, and what those that are over did cost."""

    reserved_usd: Decimal = Decimal(0)
    spent_usd: Decimal = Decimal(0)

    @property
    def held_usd(self) -> Decimal:
        """What a budget counts."""
        return self.reserved_usd + self.spent_usd


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One of the two amounts of a budget, with what counts against it. ``month`` is ``ALWAYS`` for the total."""

    budget: Budget
    month: str
    limit_usd: Decimal
    held: Spending

    @property
    def left_usd(self) -> Decimal:
        """Below zero where more was spent than was set aside."""
        return self.limit_usd - self.held.held_usd

    @property
    def told(self) -> str:
        """The bound for people, in words that do not change with what is spent."""
        return f"the budget of {self.budget.name}" + (f" for {self.month}" if self.month else "")

    def percent(self, more_usd: Decimal = Decimal(0)) -> int:
        """How much of it is spent or set aside, with ``more_usd``, in whole percent; of nothing all is used."""
        if not self.limit_usd:
            return 100
        share = (self.held.held_usd + more_usd) * 100 / self.limit_usd
        return int(share.to_integral_value(ROUND_DOWN))


@dataclass(frozen=True, kw_only=True)
class Budgeted:
    """A budget with what counts against it: in all, and of the attempts that began in ``month``."""

    budget: Budget
    month: str
    total: Spending = Spending()
    this_month: Spending = Spending()

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Those that are set."""
        found = (
            (ALWAYS, self.budget.total_usd, self.total),
            (self.month, self.budget.month_usd, self.this_month),
        )
        return tuple(
            Bound(budget=self.budget, month=month, limit_usd=limit, held=held)
            for month, limit, held in found
            if limit is not None
        )


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A change of what counts against one holder in one period, written together with the attempt that it is of.

    ``guarded``: nothing is written unless the holder's budget for the period allows it.
    """

    kind: Holder
    holder: str
    period: str
    reserved_usd: Decimal
    spent_usd: Decimal
    guarded: bool = False


def month_of(at_ms: int) -> str:
    """The calendar month of a moment, in UTC: ``2027-01``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m")


def next_month_ms(at_ms: int) -> int:
    """When the next calendar month begins, in UTC."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp() * 1000)


def micro(amount: Decimal) -> int:
    """Whole millionths of a dollar, a begun one as a whole."""
    return int((amount / MICRO).to_integral_value(ROUND_CEILING))
