"""Commands about webhooks: who is told of a workload's moves, and how each message fared."""

from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client
from placet.cli.output import Output, note
from placet.contract.words import MessageState, WorkloadState

if TYPE_CHECKING:
    from placet.contract.hooks import HookView, KeyedHookView

HookId = Annotated[str, typer.Argument(metavar="ID", help="As `placet webhook ls` shows it.")]


def webhook_add(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent: an https address.")],
    state: Annotated[
        list[WorkloadState] | None, typer.Option(help="Tell of moves to this state only; may be repeated.")
    ] = None,
) -> None:
    """Make a webhook. Its signing key is shown now and when it is rotated."""
    with client(context.obj) as server:
        made = server.create_webhook(url, [one.value for one in state or ()])
    _keyed(Output(context.obj), made)


def webhook_ls(context: typer.Context) -> None:
    """List webhooks, without their keys."""
    output = Output(context.obj)
    with client(context.obj) as server:
        page = server.webhooks()
    if output.json:
        output.document(page.model_dump())
        return
    rows = [
        (one.id, one.url, " ".join(one.states) or "all", one.created_at, one.paused_why or "no") for one in page.items
    ]
    output.table(("Id", "Address", "States", "Created", "Paused"), rows)


def webhook_rm(context: typer.Context, webhook_id: HookId) -> None:
    """Remove a webhook and its messages."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.remove_webhook(webhook_id)
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.id} is removed; nothing more is sent to {view.url}")


def webhook_rotate(context: typer.Context, webhook_id: HookId) -> None:
    """Give it a new signing key. For a day messages are signed with the old one too."""
    with client(context.obj) as server:
        made = server.rotate_webhook(webhook_id)
    _keyed(Output(context.obj), made)


def webhook_pause(context: typer.Context, webhook_id: HookId) -> None:
    """Send nothing more to it; what happens meanwhile waits."""
    with client(context.obj) as server:
        _told(Output(context.obj), server.pause_webhook(webhook_id))


def webhook_resume(context: typer.Context, webhook_id: HookId) -> None:
    """Send what waits."""
    with client(context.obj) as server:
        _told(Output(context.obj), server.resume_webhook(webhook_id))


def webhook_test(context: typer.Context, webhook_id: HookId) -> None:
    """Send a message that tells of nothing. `placet webhook messages` shows what came of it."""
    output = Output(context.obj)
    with client(context.obj) as server:
        message = server.test_webhook(webhook_id)
    if output.json:
        output.document(message.model_dump())
    else:
        output.say(f"{message.id} is being sent; `placet webhook messages {webhook_id}` shows what came of it")


def webhook_messages(
    context: typer.Context,
    webhook_id: HookId,
    state: Annotated[MessageState | None, typer.Option(help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """The messages to it, the newest first, and how they fared."""
    output = Output(context.obj)
    with client(context.obj) as server:
        page = server.webhook_messages(webhook_id, state=None if state is None else state.value, limit=limit)
    if output.json:
        output.document(page.model_dump())
        return
    rows = [
        (one.id, one.type, one.workload_id, one.state, one.tries, one.status or one.problem, one.next_at or one.sent_at)
        for one in page.items
    ]
    output.table(("Id", "Type", "Workload", "State", "Tries", "Answer", "Next or last"), rows)


def webhook_resend(
    context: typer.Context,
    webhook_id: HookId,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="As `placet webhook messages` shows it.")],
) -> None:
    """Send one message again, under its old id."""
    output = Output(context.obj)
    with client(context.obj) as server:
        message = server.resend_message(webhook_id, message_id)
    if output.json:
        output.document(message.model_dump())
    else:
        output.say(f"{message.id} is being sent again")


def webhook_replay(
    context: typer.Context,
    webhook_id: HookId,
    hours: Annotated[float, typer.Option(min=0.001, max=168, help="What was told in the last so many hours.")] = 1.0,
) -> None:
    """Send again what it was told lately; each message keeps its id."""
    output = Output(context.obj)
    with client(context.obj) as server:
        view = server.replay_webhook(webhook_id, since_s=max(1, round(hours * 3600)))
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.messages} messages are being sent again")


def _keyed(output: Output, made: "KeyedHookView") -> None:
    if output.json:
        output.document(made.model_dump())
        return
    output.say(made.secret)
    note(f"placet: the signing key of {made.id}, shown now and when it is rotated", style="dim")


def _told(output: Output, view: "HookView") -> None:
    if output.json:
        output.document(view.model_dump())
    else:
        output.say(f"{view.id} is paused: {view.paused_why}" if view.paused_at else f"{view.id} is told again")
