"""The tables, with CHECKs that repeat the invariants the code relies on. Times are milliseconds, money is exact text.

``specs`` is content-addressed: a document is written once and never again, however often its workload's row changes.
"""

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from placet.domain.budgets import Holder
from placet.domain.orphans import OrphanReason
from placet.domain.records import WAITS_FOR_CAPACITY
from placet.domain.states import (
    WORKLOAD_FINAL,
    AttemptState,
    DeliveryState,
    Desired,
    DispatchState,
    IntentState,
    IntentVerb,
    OrphanState,
    WorkloadState,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives rowids only to INTEGER keys.
Serial = BigInteger().with_variant(Integer(), "sqlite")


def among(column: str, words: Iterable[StrEnum]) -> str:
    """The condition that a column holds one of a closed list, the same text in every process.

    Not ``IN``: for each row that it checks SQLite would build a table of the list.
    """
    return " OR ".join(f"{column} = {word.value!r}" for word in sorted(words))


def closed(column: str, words: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(among(column, words), name=column)


UNFINISHED = text("finished_ms IS NULL")

meta = Table(
    "meta",
    metadata,
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("name"),
)

workers = Table(
    "workers",
    metadata,
    Column("owner", Text, nullable=False),
    Column("beat_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner"),
)

specs = Table(
    "specs",
    metadata,
    Column("id", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("id"),
)

workloads = Table(
    "workloads",
    metadata,
    Column("id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("spec_id", Text, ForeignKey("specs.id"), nullable=False),
    Column("spec_digest", Text, nullable=False),
    Column("name", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("retry_of", Text),
    Column("state", Text, nullable=False),
    Column("desired", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("lease_owner", Text),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("wake_ms", BigInteger),
    Column("state_since_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("wait_for", Text, nullable=False),
    Column("user_failures", BigInteger, nullable=False),
    Column("infrastructure_failures", BigInteger, nullable=False),
    Column("excluded_offers", Text),
    Column("compute_done", Boolean, nullable=False),
    Column("delivery", Text, nullable=False),
    Column("failure", Text),
    Column("finished_ms", BigInteger),
    Column("quoted_usd", Text),
    Column("token_id", Text),
    PrimaryKeyConstraint("id"),
    # What results refer to: a result exists only for a workload that is finished, and then that moment is fixed.
    UniqueConstraint("id", "finished_ms"),
    closed("state", WorkloadState),
    closed("desired", Desired),
    closed("delivery", DeliveryState),
    CheckConstraint(f"({among('state', WORKLOAD_FINAL)}) = (finished_ms IS NOT NULL)", name="finished_iff_final"),
    CheckConstraint("revision >= 0", name="revision"),
    CheckConstraint("lease_epoch >= 0", name="lease_epoch"),
    CheckConstraint("lease_owner <> ''", name="lease_owner"),
    CheckConstraint("epoch >= 0", name="epoch"),
    CheckConstraint("user_failures >= 0 AND infrastructure_failures >= 0", name="failures"),
)

# Ordered as claims are, so that one of a few out of a long queue reads only those few.
_UNOWNED = text("lease_owner IS NULL AND wake_ms IS NOT NULL")
Index("ix_workloads_due", workloads.c.wake_ms, workloads.c.id, sqlite_where=_UNOWNED, postgresql_where=_UNOWNED)
# Not over, or over with something left to release.
_OWNED = text("lease_owner IS NOT NULL AND (finished_ms IS NULL OR wake_ms IS NOT NULL)")
Index("ix_workloads_owned", workloads.c.lease_owner, workloads.c.wake_ms, sqlite_where=_OWNED, postgresql_where=_OWNED)
_WAITER = text(f"finished_ms IS NULL AND wait_for = '{WAITS_FOR_CAPACITY}'")
Index("ix_workloads_waiters", workloads.c.id, sqlite_where=_WAITER, postgresql_where=_WAITER)
Index("ix_workloads_list", workloads.c.tenant, workloads.c.id)
Index(
    "ix_workloads_unfinished",
    workloads.c.tenant,
    workloads.c.id,
    sqlite_where=UNFINISHED,
    postgresql_where=UNFINISHED,
)
_FINISHED = text("finished_ms IS NOT NULL")
Index(
    "ix_workloads_finished",
    workloads.c.state,
    workloads.c.tenant,
    workloads.c.id,
    sqlite_where=_FINISHED,
    postgresql_where=_FINISHED,
)
_NAMED = text("name IS NOT NULL")
Index(
    "ix_workloads_name",
    workloads.c.tenant,
    workloads.c.name,
    workloads.c.id,
    sqlite_where=_NAMED,
    postgresql_where=_NAMED,
)

labels = Table(
    "labels",
    metadata,
    Column("workload_id", Text, ForeignKey("workloads.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("workload_id", "key"),
    Index("ix_labels_find", "key", "value", "workload_id"),
    sqlite_with_rowid=False,
)

submission_keys = Table(
    "submission_keys",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("key", Text, nullable=False),
    # Deferred: the key is taken first, so that of concurrent equals only one goes on to make a workload.
    Column("workload_id", Text, ForeignKey("workloads.id", deferrable=True, initially="DEFERRED"), nullable=False),
    Column("body_digest", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "operation", "key"),
    # For the check of the deferred reference, which SQLite would otherwise do by reading the whole table.
    Index("ix_submission_keys_workload", "workload_id"),
    sqlite_with_rowid=False,
)

attempts = Table(
    "attempts",
    metadata,
    Column("workload_id", Text, ForeignKey("workloads.id"), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("nonce", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("placement", Text, nullable=False),
    Column("desired", Text, nullable=False),
    Column("handle", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("submitted_ms", BigInteger),
    Column("permit_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("exited_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("stop_requested_ms", BigInteger),
    Column("released_ms", BigInteger),
    Column("observed_ms", BigInteger),
    Column("absent_reads", BigInteger, nullable=False),
    Column("absent_since_ms", BigInteger),
    Column("exit_code", BigInteger),
    Column("signal", BigInteger),
    Column("computed", Boolean, nullable=False),
    Column("failure", Text),
    Column("cost_usd", Text, nullable=False),
    Column("wasted_usd", Text, nullable=False),
    Column("phases_ms", Text),
    Column("logs", Text),
    Column("usage", Text),
    Column("evidence", Text),
    Column("unseen_since_ms", BigInteger),
    Column("given_up_by", Text),
    PrimaryKeyConstraint("workload_id", "epoch"),
    UniqueConstraint("key"),
    closed("state", AttemptState),
    closed("desired", Desired),
    CheckConstraint("epoch >= 1", name="epoch"),
    CheckConstraint("absent_reads >= 0", name="absent_reads"),
)

_ENDED = text("finished_ms IS NOT NULL")
Index("ix_attempts_ended", attempts.c.finished_ms, sqlite_where=_ENDED, postgresql_where=_ENDED)

intents = Table(
    "intents",
    metadata,
    Column("workload_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("verb", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("sent_ms", BigInteger, nullable=False),
    Column("sender", Text, nullable=False),
    Column("settled_ms", BigInteger),
    Column("evidence", Text, nullable=False),
    PrimaryKeyConstraint("workload_id", "epoch", "verb"),
    ForeignKeyConstraint(["workload_id", "epoch"], ["attempts.workload_id", "attempts.epoch"]),
    closed("verb", IntentVerb),
    closed("state", IntentState),
    sqlite_with_rowid=False,
)

# Written once with its attempt and read only by who wants it explained: the rows of attempts stay small.
decisions = Table(
    "decisions",
    metadata,
    Column("workload_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("workload_id", "epoch"),
    ForeignKeyConstraint(["workload_id", "epoch"], ["attempts.workload_id", "attempts.epoch"]),
)

events = Table(
    "events",
    metadata,
    Column("seq", Serial, Identity(), nullable=False),
    Column("workload_id", Text, ForeignKey("workloads.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("epoch", BigInteger),
    Column("from_state", Text),
    Column("to_state", Text),
    Column("cause", Text),
    Column("message", Text, nullable=False),
    Column("data", Text),
    PrimaryKeyConstraint("seq"),
    Index("ix_events_workload", "workload_id", "seq"),
    sqlite_autoincrement=True,
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("workload_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("workload_id", "epoch", "path"),
    ForeignKeyConstraint(["workload_id", "epoch"], ["attempts.workload_id", "attempts.epoch"]),
    CheckConstraint("size_bytes >= 0", name="size_bytes"),
    sqlite_with_rowid=False,
)

results = Table(
    "results",
    metadata,
    Column("workload_id", Text, nullable=False),
    Column("finished_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("workload_id"),
    ForeignKeyConstraint(["workload_id", "finished_ms"], ["workloads.id", "workloads.finished_ms"]),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("revoked_ms", BigInteger),
    Column("last_used_ms", BigInteger),
    PrimaryKeyConstraint("id"),
)

# What the providers list and no attempt stands for. It names workloads that may not exist: there is no reference.
orphans = Table(
    "orphans",
    metadata,
    Column("id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("handle", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("sightings", BigInteger, nullable=False),
    Column("price_usd_per_hour", Text),
    Column("requested_ms", BigInteger),
    Column("requested_by", Text, nullable=False),
    Column("closed_ms", BigInteger),
    Column("proof", Text, nullable=False),
    PrimaryKeyConstraint("id"),
    closed("reason", OrphanReason),
    closed("state", OrphanState),
    CheckConstraint(f"(state = '{OrphanState.CLOSED}') = (closed_ms IS NOT NULL)", name="closed_iff_closed"),
    CheckConstraint("closed_ms IS NULL OR proof <> ''", name="proof"),
)

# Amounts here are whole millionths of a dollar, because they are added up and compared where they stand.
budgets = Table(
    "budgets",
    metadata,
    Column("kind", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("total_micro", BigInteger),
    Column("month_micro", BigInteger),
    Column("set_ms", BigInteger, nullable=False),
    Column("set_by", Text, nullable=False),
    PrimaryKeyConstraint("kind", "holder"),
    closed("kind", Holder),
    CheckConstraint("total_micro IS NULL OR total_micro >= 0", name="total_micro"),
    CheckConstraint("month_micro IS NULL OR month_micro >= 0", name="month_micro"),
)

# What attempts count against each holder, in all (no period) and by the month in which they began. Written with the
# attempts themselves, also where nobody has set a budget: one that is set later counts what was before.
spending = Table(
    "spending",
    metadata,
    Column("kind", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("reserved_micro", BigInteger, nullable=False),
    Column("spent_micro", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "holder", "period"),
    closed("kind", Holder),
)
hooks = Table(
    "hooks",
    metadata,
    Column("id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("states", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("former_until_ms", BigInteger),
    Column("after_seq", BigInteger, nullable=False),
    Column("paused_ms", BigInteger),
    Column("paused_why", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("id"),
    CheckConstraint("generation >= 1", name="generation"),
    CheckConstraint("paused_ms IS NULL OR paused_why <> ''", name="paused_why"),
)

# ``seq`` is that of the event; a message that tells of none has a negative one.
dispatches = Table(
    "dispatches",
    metadata,
    Column("hook_id", Text, ForeignKey("hooks.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("workload_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("due_ms", BigInteger),
    Column("tries", BigInteger, nullable=False),
    Column("sent_ms", BigInteger),
    Column("status", BigInteger),
    Column("problem", Text, nullable=False),
    PrimaryKeyConstraint("hook_id", "seq"),
    UniqueConstraint("id"),
    closed("state", DispatchState),
    CheckConstraint(f"(state = '{DispatchState.PENDING}') = (due_ms IS NOT NULL)", name="due_iff_pending"),
)
_DUE = text("due_ms IS NOT NULL")
Index("ix_dispatches_due", dispatches.c.due_ms, sqlite_where=_DUE, postgresql_where=_DUE)
Index("ix_dispatches_created", dispatches.c.hook_id, dispatches.c.created_ms)

# Secrets of tenants, each version sealed under a key that is not here.
vault = Table(
    "vault",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("wrapped", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name", "version"),
    CheckConstraint("version >= 1", name="version"),
)
