"""Why each attempt runs where it runs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "decisions",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id", "epoch"],
            ["attempts.workload_id", "attempts.epoch"],
            name=op.f("fk_decisions_workload_id_epoch"),
        ),
        sa.PrimaryKeyConstraint("workload_id", "epoch", name=op.f("pk_decisions")),
    )
