"""The table of commands: their names, the panel of the help they stand in, and the function that each one is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placet.cli.commands import (
    agents,
    artifacts,
    budgets,
    calibrating,
    changing,
    copying,
    doctor,
    estimating,
    explaining,
    ledgers,
    looking,
    offers,
    operating,
    orphans,
    planning,
    providers,
    running,
    secrets,
    sizing,
    streaming,
    trying,
    webhooks,
)

RUN, LOOK, PLAN, OPERATE = "Run", "Look", "Plan", "Operate"


@dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    function: Callable[..., Any]
    panel: str = ""


@dataclass(frozen=True)
class Group:
    """Commands under a common word."""

    name: str
    help: str
    panel: str
    commands: tuple[Command, ...]


COMMANDS = (
    Command("run", running.run, RUN),
    Command("submit", changing.submit, RUN),
    Command("wait", changing.wait, RUN),
    Command("cancel", changing.cancel, RUN),
    Command("retry", changing.retry, RUN),
    Command("redeliver", changing.redeliver, RUN),
    Command("resolve", changing.resolve_doubt, RUN),
    Command("ls", looking.ls, LOOK),
    Command("show", looking.show, LOOK),
    Command("logs", streaming.logs, LOOK),
    Command("events", streaming.events, LOOK),
    Command("account", looking.account, LOOK),
    Command("explain", explaining.explain, LOOK),
    Command("result", looking.result, LOOK),
    Command("ledger", ledgers.ledger, LOOK),
    Command("init", planning.init, PLAN),
    Command("validate", planning.validate, PLAN),
    Command("estimate", estimating.estimate, PLAN),
    Command("calibration", calibrating.calibration, PLAN),
    Command("size", sizing.size, PLAN),
    Command("offers", offers.offers, PLAN),
    Command("schema", planning.schema, PLAN),
    Command("server", operating.server, OPERATE),
    Command("mcp", agents.mcp, OPERATE),
    Command("doctor", doctor.doctor, OPERATE),
    Command("migrate", operating.migrate, OPERATE),
    Command("backup", copying.backup, OPERATE),
    Command("restore", copying.restore, OPERATE),
    Command("orphans", orphans.orphans, OPERATE),
)
GROUPS = (
    Group(
        "artifacts",
        "What a workload hands back.",
        LOOK,
        (
            Command("ls", artifacts.artifacts_ls),
            Command("get", artifacts.artifacts_get),
            Command("link", artifacts.artifacts_link),
        ),
    ),
    Group(
        "provider",
        "Where workloads can run: what is set up, and what each promises.",
        OPERATE,
        (
            Command("ls", providers.provider_ls),
            Command("messages", providers.provider_messages),
            Command("show", providers.provider_show),
            Command("test", trying.provider_test),
        ),
    ),
    Group(
        "budget",
        "What tenants and tokens may spend.",
        OPERATE,
        (
            Command("set", budgets.budget_set),
            Command("ls", budgets.budget_ls),
            Command("rm", budgets.budget_rm),
        ),
    ),
    Group(
        "webhook",
        "Who is told when a workload moves.",
        OPERATE,
        (
            Command("add", webhooks.webhook_add),
            Command("ls", webhooks.webhook_ls),
            Command("rm", webhooks.webhook_rm),
            Command("test", webhooks.webhook_test),
            Command("messages", webhooks.webhook_messages),
            Command("resend", webhooks.webhook_resend),
            Command("replay", webhooks.webhook_replay),
            Command("pause", webhooks.webhook_pause),
            Command("resume", webhooks.webhook_resume),
            Command("rotate", webhooks.webhook_rotate),
        ),
    ),
    Group(
        "secret",
        "Values that programs get and nobody sees.",
        OPERATE,
        (
            Command("set", secrets.secret_set),
            Command("ls", secrets.secret_ls),
            Command("rm", secrets.secret_rm),
        ),
    ),
    Group(
        "token",
        "Credentials for a server.",
        OPERATE,
        (
            Command("create", operating.token_create),
            Command("ls", operating.token_ls),
            Command("revoke", operating.token_revoke),
        ),
    ),
)
