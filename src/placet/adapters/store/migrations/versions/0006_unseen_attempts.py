"""Since when an attempt was looked for in vain, and who went on without it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("unseen_since_ms", sa.BigInteger(), nullable=True))
    op.add_column("attempts", sa.Column("given_up_by", sa.Text(), nullable=True))
