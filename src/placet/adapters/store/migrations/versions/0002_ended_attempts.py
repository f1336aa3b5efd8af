"""An index by the end of attempts: what they teach is read from the latest on."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_attempts_ended",
        "attempts",
        ["finished_ms"],
        unique=False,
        sqlite_where=sa.text("finished_ms IS NOT NULL"),
        postgresql_where=sa.text("finished_ms IS NOT NULL"),
    )
