"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _meta()
    _specs()
    _tokens()
    _workers()
    _workloads()
    _attempts()
    _events()
    _labels()
    _results()
    _submission_keys()
    _artifacts()
    _intents()


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )


def _specs() -> None:
    op.create_table(
        "specs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_specs")),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_used_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("beat_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_workers")),
    )


def _workloads() -> None:
    op.create_table(
        "workloads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("spec_id", sa.Text(), nullable=False),
        sa.Column("spec_digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.Column("wake_ms", sa.BigInteger(), nullable=True),
        sa.Column("state_since_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wait_for", sa.Text(), nullable=False),
        sa.Column("user_failures", sa.BigInteger(), nullable=False),
        sa.Column("infrastructure_failures", sa.BigInteger(), nullable=False),
        sa.Column("excluded_offers", sa.Text(), nullable=True),
        sa.Column("compute_done", sa.Boolean(), nullable=False),
        sa.Column("delivery", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(state = 'cancelled' OR state = 'expired' OR state = 'failed'"
            " OR state = 'succeeded') = (finished_ms IS NOT NULL)",
            name=op.f("ck_workloads_finished_iff_final"),
        ),
        sa.CheckConstraint(
            "delivery = 'complete' OR delivery = 'missing' OR delivery = 'none' OR delivery = 'partial'",
            name=op.f("ck_workloads_delivery"),
        ),
        sa.CheckConstraint("desired = 'run' OR desired = 'stop'", name=op.f("ck_workloads_desired")),
        sa.CheckConstraint("lease_owner <> ''", name=op.f("ck_workloads_lease_owner")),
        sa.CheckConstraint(
            "state = 'accepted' OR state = 'cancelled' OR state = 'delivering' OR state = 'expired'"
            " OR state = 'failed' OR state = 'placing' OR state = 'running' OR state = 'succeeded'"
            " OR state = 'waiting'",
            name=op.f("ck_workloads_state"),
        ),
        sa.CheckConstraint("epoch >= 0", name=op.f("ck_workloads_epoch")),
        sa.CheckConstraint("lease_epoch >= 0", name=op.f("ck_workloads_lease_epoch")),
        sa.CheckConstraint("revision >= 0", name=op.f("ck_workloads_revision")),
        sa.CheckConstraint("user_failures >= 0 AND infrastructure_failures >= 0", name=op.f("ck_workloads_failures")),
        sa.ForeignKeyConstraint(["spec_id"], ["specs.id"], name=op.f("fk_workloads_spec_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workloads")),
        sa.UniqueConstraint("id", "finished_ms", name=op.f("uq_workloads_id_finished_ms")),
    )
    op.create_index(
        "ix_workloads_due",
        "workloads",
        ["wake_ms", "id"],
        unique=False,
        sqlite_where=sa.text("lease_owner IS NULL AND wake_ms IS NOT NULL"),
        postgresql_where=sa.text("lease_owner IS NULL AND wake_ms IS NOT NULL"),
    )
    op.create_index(
        "ix_workloads_finished",
        "workloads",
        ["state", "tenant", "id"],
        unique=False,
        sqlite_where=sa.text("finished_ms IS NOT NULL"),
        postgresql_where=sa.text("finished_ms IS NOT NULL"),
    )
    op.create_index("ix_workloads_list", "workloads", ["tenant", "id"], unique=False)
    op.create_index(
        "ix_workloads_name",
        "workloads",
        ["tenant", "name", "id"],
        unique=False,
        sqlite_where=sa.text("name IS NOT NULL"),
        postgresql_where=sa.text("name IS NOT NULL"),
    )
    op.create_index(
        "ix_workloads_owned",
        "workloads",
        ["lease_owner", "wake_ms"],
        unique=False,
        sqlite_where=sa.text("lease_owner IS NOT NULL AND (finished_ms IS NULL OR wake_ms IS NOT NULL)"),
        postgresql_where=sa.text("lease_owner IS NOT NULL AND (finished_ms IS NULL OR wake_ms IS NOT NULL)"),
    )
    op.create_index(
        "ix_workloads_unfinished",
        "workloads",
        ["tenant", "id"],
        unique=False,
        sqlite_where=sa.text("finished_ms IS NULL"),
        postgresql_where=sa.text("finished_ms IS NULL"),
    )
    op.create_index(
        "ix_workloads_waiters",
        "workloads",
        ["id"],
        unique=False,
        sqlite_where=sa.text("finished_ms IS NULL AND wait_for = 'capacity'"),
        postgresql_where=sa.text("finished_ms IS NULL AND wait_for = 'capacity'"),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("submitted_ms", sa.BigInteger(), nullable=True),
        sa.Column("permit_ms", sa.BigInteger(), nullable=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("exited_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.Column("stop_requested_ms", sa.BigInteger(), nullable=True),
        sa.Column("released_ms", sa.BigInteger(), nullable=True),
        sa.Column("observed_ms", sa.BigInteger(), nullable=True),
        sa.Column("absent_reads", sa.BigInteger(), nullable=False),
        sa.Column("absent_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("signal", sa.BigInteger(), nullable=True),
        sa.Column("computed", sa.Boolean(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("cost_usd", sa.Text(), nullable=False),
        sa.Column("wasted_usd", sa.Text(), nullable=False),
        sa.Column("phases_ms", sa.Text(), nullable=True),
        sa.Column("logs", sa.Text(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.CheckConstraint("desired = 'run' OR desired = 'stop'", name=op.f("ck_attempts_desired")),
        sa.CheckConstraint(
            "state = 'collected' OR state = 'exited' OR state = 'intended' OR state = 'lost'"
            " OR state = 'refused' OR state = 'running' OR state = 'starting' OR state = 'stopped'"
            " OR state = 'stopping' OR state = 'submitted' OR state = 'unknown'",
            name=op.f("ck_attempts_state"),
        ),
        sa.CheckConstraint("absent_reads >= 0", name=op.f("ck_attempts_absent_reads")),
        sa.CheckConstraint("epoch >= 1", name=op.f("ck_attempts_epoch")),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name=op.f("fk_attempts_workload_id")),
        sa.PrimaryKeyConstraint("workload_id", "epoch", name=op.f("pk_attempts")),
        sa.UniqueConstraint("key", name=op.f("uq_attempts_key")),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column(
            "seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name=op.f("fk_events_workload_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_workload", "events", ["workload_id", "seq"], unique=False)


def _labels() -> None:
    op.create_table(
        "labels",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name=op.f("fk_labels_workload_id")),
        sa.PrimaryKeyConstraint("workload_id", "key", name=op.f("pk_labels")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_labels_find", "labels", ["key", "value", "workload_id"], unique=False)


def _results() -> None:
    op.create_table(
        "results",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("finished_ms", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id", "finished_ms"],
            ["workloads.id", "workloads.finished_ms"],
            name=op.f("fk_results_workload_id_finished_ms"),
        ),
        sa.PrimaryKeyConstraint("workload_id", name=op.f("pk_results")),
    )


def _submission_keys() -> None:
    op.create_table(
        "submission_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workloads.id"],
            name=op.f("fk_submission_keys_workload_id"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("tenant", "operation", "key", name=op.f("pk_submission_keys")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_submission_keys_workload", "submission_keys", ["workload_id"], unique=False)


def _artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_artifacts_size_bytes")),
        sa.ForeignKeyConstraint(
            ["workload_id", "epoch"],
            ["attempts.workload_id", "attempts.epoch"],
            name=op.f("fk_artifacts_workload_id_epoch"),
        ),
        sa.PrimaryKeyConstraint("workload_id", "epoch", "path", name=op.f("pk_artifacts")),
        sqlite_with_rowid=False,
    )


def _intents() -> None:
    op.create_table(
        "intents",
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("sent_ms", sa.BigInteger(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("settled_ms", sa.BigInteger(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state = 'ambiguous' OR state = 'confirmed' OR state = 'refuted' OR state = 'sent'",
            name=op.f("ck_intents_state"),
        ),
        sa.CheckConstraint("verb = 'cancel' OR verb = 'release' OR verb = 'submit'", name=op.f("ck_intents_verb")),
        sa.ForeignKeyConstraint(
            ["workload_id", "epoch"],
            ["attempts.workload_id", "attempts.epoch"],
            name=op.f("fk_intents_workload_id_epoch"),
        ),
        sa.PrimaryKeyConstraint("workload_id", "epoch", "verb", name=op.f("pk_intents")),
        sqlite_with_rowid=False,
    )
