"""Commands for whoever runs a server: server, migrate, tokens."""

from typing import Annotated

import typer

from placet.cli.commands.budgets import amount
from placet.cli.door import client
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options
from placet.cli.output import Output, note
from placet.cli.settings import settings_for, shown
from placet.contract.words import Scope

DEFAULT_SCOPES = (Scope.READ, Scope.SUBMIT, Scope.CANCEL, Scope.LOGS, Scope.ARTIFACTS)
DAY_S = 86_400
CANNOT = "mend that, or choose another --host, --port or --data-dir; `placet doctor` tells what is here"


def server(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default server.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="TCP port; default server.port.")] = None,
    socket_only: Annotated[bool, typer.Option("--socket-only", help="Only on the data folder's unix socket.")] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing left to do.")] = False,
    act: Annotated[bool, typer.Option("--act", help="End observing, which a restored database begins with.")] = False,
) -> int:
    """Run a server: accept workloads and see them through. Stop it with Ctrl-C or SIGTERM; what runs goes on."""
    options: Options = context.obj
    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = settings_for(options, {"server": listen} if listen else None)
    from placet import app

    def ready(address: str | None) -> None:
        where = f"{address} and " if address else ""
        note(f"placet: serving {shown(settings.data_dir)} on {where}its socket")
        if app.observes(settings):
            note("placet: it only observes: nothing is started, stopped or deleted until `placet server --act`")

    if act:
        app.end_observing(settings)

    try:
        app.run_server(settings, app.Serving(socket_only=socket_only, until_idle=until_idle, ready=ready))
    except app.AlreadyServed as error:
        if until_idle:
            return Exit.OK
        raise Stop("already_served", str(error), "stop that one first, or use it", Exit.ERROR) from error
    except app.CannotServe as error:
        raise Stop("cannot_serve", str(error), CANNOT, Exit.ERROR) from error
    return Exit.OK


def migrate(context: typer.Context) -> None:
    """Bring the database to the version of this Placet. Safe to repeat."""
    output = Output(context.obj)
    settings = settings_for(context.obj)
    from placet import app

    app.migrate_database(settings)
    if output.json:
        output.document({"migrated": True})
    else:
        output.say("the database is up to date")


def token_create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="What it may do; may be repeated.")] = None,
    expires_days: Annotated[float | None, typer.Option(min=0.0001, help="Its life; without it, until revoked.")] = None,
    budget: Annotated[str | None, typer.Option(help="The most that it may spend in all, in US dollars.")] = None,
    budget_month: Annotated[str | None, typer.Option(help="The most per calendar month (UTC).")] = None,
) -> None:
    """Make a token. It is shown once and kept nowhere."""
    output = Output(context.obj)
    life_s = None if expires_days is None else round(expires_days * DAY_S)
    with client(context.obj) as found:
        issued = found.create_token(
            name,
            [one.value for one in scope or DEFAULT_SCOPES],
            expires_in_s=life_s,
            budget_usd=amount(budget, "--budget"),
            month_budget_usd=amount(budget_month, "--budget-month"),
        )
    if output.json:
        output.document(issued.model_dump())
    else:
        output.say(issued.token)
        note(f"placet: shown this once. Its id is {issued.id}; it may {', '.join(issued.scopes)}", style="dim")


def token_ls(context: typer.Context) -> None:
    """List tokens, without their secrets."""
    output = Output(context.obj)
    with client(context.obj) as found:
        tokens = found.tokens()
    if output.json:
        output.document([one.model_dump() for one in tokens])
    else:
        rows = [
            (one.id, one.name, " ".join(one.scopes), one.created_at, one.expires_at, one.revoked_at) for one in tokens
        ]
        output.table(("Id", "Name", "Scopes", "Created", "Expires", "Revoked"), rows)


def token_revoke(context: typer.Context, token_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Revoke a token, at once, also for its open streams."""
    output = Output(context.obj)
    with client(context.obj) as found:
        view = found.revoke_token(token_id)
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.id} is revoked")
