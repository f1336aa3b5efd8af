"""Webhooks and the messages to them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("states", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("former_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("after_seq", sa.BigInteger(), nullable=False),
        sa.Column("paused_ms", sa.BigInteger(), nullable=True),
        sa.Column("paused_why", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("generation >= 1", name=op.f("ck_hooks_generation")),
        sa.CheckConstraint("paused_ms IS NULL OR paused_why <> ''", name=op.f("ck_hooks_paused_why")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hooks")),
    )
    op.create_table(
        "dispatches",
        sa.Column("hook_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("sent_ms", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state = 'given_up' OR state = 'pending' OR state = 'taken'", name=op.f("ck_dispatches_state")
        ),
        sa.CheckConstraint("(state = 'pending') = (due_ms IS NOT NULL)", name=op.f("ck_dispatches_due_iff_pending")),
        sa.ForeignKeyConstraint(["hook_id"], ["hooks.id"], name=op.f("fk_dispatches_hook_id")),
        sa.PrimaryKeyConstraint("hook_id", "seq", name=op.f("pk_dispatches")),
        sa.UniqueConstraint("id", name=op.f("uq_dispatches_id")),
    )
    due = sa.text("due_ms IS NOT NULL")
    op.create_index("ix_dispatches_due", "dispatches", ["due_ms"], sqlite_where=due, postgresql_where=due)
    op.create_index("ix_dispatches_created", "dispatches", ["hook_id", "created_ms"])
