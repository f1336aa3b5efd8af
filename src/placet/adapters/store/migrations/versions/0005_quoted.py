"""What a workload was quoted, which later placements keep to."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workloads", sa.Column("quoted_usd", sa.Text(), nullable=True))
