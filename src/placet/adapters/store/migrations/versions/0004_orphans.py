"""What the providers list and no attempt stands for."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

REASONS = "reason = 'attempt_over' OR reason = 'foreign' OR reason = 'no_record' OR reason = 'twin'"


def upgrade() -> None:
    op.create_table(
        "orphans",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("sightings", sa.BigInteger(), nullable=False),
        sa.Column("price_usd_per_hour", sa.Text(), nullable=True),
        sa.Column("requested_ms", sa.BigInteger(), nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.CheckConstraint(REASONS, name=op.f("ck_orphans_reason")),
        sa.CheckConstraint(
            "state = 'closed' OR state = 'listed' OR state = 'releasing'", name=op.f("ck_orphans_state")
        ),
        sa.CheckConstraint("(state = 'closed') = (closed_ms IS NOT NULL)", name=op.f("ck_orphans_closed_iff_closed")),
        sa.CheckConstraint("closed_ms IS NULL OR proof <> ''", name=op.f("ck_orphans_proof")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orphans")),
    )
