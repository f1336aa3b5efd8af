"""Budgets, and what attempts count against them: what is known of earlier attempts is added up once."""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

KINDS = "kind = 'tenant' OR kind = 'token'"
OVER = frozenset({"collected", "lost", "refused", "stopped"})


def upgrade() -> None:
    op.add_column("workloads", sa.Column("token_id", sa.Text(), nullable=True))
    op.create_table(
        "budgets",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("total_micro", sa.BigInteger(), nullable=True),
        sa.Column("month_micro", sa.BigInteger(), nullable=True),
        sa.Column("set_ms", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.CheckConstraint(KINDS, name=op.f("ck_budgets_kind")),
        sa.CheckConstraint("total_micro IS NULL OR total_micro >= 0", name=op.f("ck_budgets_total_micro")),
        sa.CheckConstraint("month_micro IS NULL OR month_micro >= 0", name=op.f("ck_budgets_month_micro")),
        sa.PrimaryKeyConstraint("kind", "holder", name=op.f("pk_budgets")),
    )
    spending = op.create_table(
        "spending",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("reserved_micro", sa.BigInteger(), nullable=False),
        sa.Column("spent_micro", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(KINDS, name=op.f("ck_spending_kind")),
        sa.PrimaryKeyConstraint("kind", "holder", "period", name=op.f("pk_spending")),
    )
    reserved, spent = _counted()
    rows = [
        {
            "kind": "tenant", "holder": holder, "period": period,
            "reserved_micro": reserved[holder, period], "spent_micro": spent[holder, period],
        }
        for holder, period in sorted(reserved.keys() | spent.keys())
    ]  # fmt: skip
    if rows:
        op.bulk_insert(spending, rows)


def _counted() -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """In millionths of a dollar, by tenant and period; which token an earlier workload came with is not known."""
    reserved: Counter[tuple[str, str]] = Counter()
    spent: Counter[tuple[str, str]] = Counter()
    found = op.get_bind().execute(
        sa.text(
            "SELECT w.tenant, a.state, a.placement, a.cost_usd, a.created_ms "
            "FROM attempts a JOIN workloads w ON w.id = a.workload_id"
        )
    )
    for tenant, state, placement, cost_usd, created_ms in found:
        note = json.loads(placement)
        if note.get("simulated"):
            continue
        over = state in OVER
        amount = Decimal(cost_usd if over else note.get("reserved_usd", "0"))
        micro = int((amount * 1_000_000).to_integral_value(ROUND_CEILING))
        month = datetime.fromtimestamp(created_ms / 1000, UTC).strftime("%Y-%m")
        for period in ("", month) if micro else ():
            (spent if over else reserved)[tenant, period] += micro
    return reserved, spent
