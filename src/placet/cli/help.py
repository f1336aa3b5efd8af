"""Help as plain text under the panels of the table; boxes and colours take longer to load than all the rest.

Typer's own copies of Click's classes are private, which is why its contexts and formatters are ``Any`` here.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from placet.cli.settings import check_named

ARGUMENTS, OPTIONS, COMMANDS = "Arguments", "Options", "Commands"
NAMES_WIDTH = 30


class Leaf(TyperCommand):
    """A command that lists its options by panel, and runs under settings that can be read."""

    def invoke(self, ctx: Any) -> Any:
        """Called by Typer with everything parsed."""
        check_named(ctx.obj)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Called by Typer for its help text."""
        _write(formatter, _parameters(self, ctx))


class Panels(TyperGroup):
    """A group that lists its commands by panel; without a command it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Called by Typer with what stands behind the group's name."""
        return super().parse_args(ctx, args or ["--help"])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Called by Typer for its help text."""
        _write(formatter, _parameters(self, ctx))
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = formatter.width - 6 - max(map(len, commands))
        shown = ((name, command) for name, command in commands.items() if command is not None and not command.hidden)
        _write(
            formatter,
            ((_panel(command) or COMMANDS, name, command.get_short_help_str(width)) for name, command in shown),
        )


def _parameters(command: TyperCommand | TyperGroup, ctx: Any) -> Iterable[tuple[str, str, str]]:
    """Panel, name and help of each; arguments first."""
    for kind, usual in (("argument", ARGUMENTS), ("option", OPTIONS)):
        for parameter in command.get_params(ctx):
            record = parameter.get_help_record(ctx) if parameter.param_type_name == kind else None
            if record is not None:
                yield _panel(parameter) or usual, *record


def _panel(of: object) -> str | None:
    panel = getattr(of, "rich_help_panel", None)
    return panel if isinstance(panel, str) and panel else None


def _write(formatter: Any, lines: Iterable[tuple[str, str, str]]) -> None:
    """In panels, in the order in which they first occur."""
    panels: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for panel, name, text in lines:
        panels[panel].append((name, text))
    for panel, rows in panels.items():
        with formatter.section(panel):
            formatter.write_dl(rows, col_max=NAMES_WIDTH)
