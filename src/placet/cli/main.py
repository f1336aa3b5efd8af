"""The command line: the table of commands becomes an application, and every error ends here as words and a code.

Commands live in ``placet.cli.commands``, one function each, and import what is heavy only when they run.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import placet
from placet.cli.exits import Exit
from placet.cli.options import CommandLine, Options, hoist, unreadable
from placet.cli.output import let_go

if TYPE_CHECKING:
    import typer

EPILOG = (
    "Every command takes --json (one JSON document, or one per line for streams), --data-dir, --config, --url, "
    "--no-color and --debug. An ID may be cut to what is unique, be a workload's name, or `last`."
)


def main() -> NoReturn:
    """The program ``placet``."""
    arguments = sys.argv[1:]
    open_streams()
    if arguments in (["--version"], ["-V"]):  # without loading anything
        sys.stdout.write(f"placet {placet.__version__}\n")
        sys.exit(0)
    # httpx would load a command line of its own and all that it needs; a module bound to None counts as not there.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # the import system documents None here
    sys.exit(run(arguments))


def open_streams() -> None:
    """Whoever starts a program may close its standard streams; what is said to a closed one is said to nobody."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            setattr(sys, name, os.fdopen(descriptor, "r" if number == 0 else "w", encoding="utf-8"))


def run(arguments: list[str]) -> int:
    """Runs one command line and gives its exit code; only ``--debug`` shows a traceback."""
    from placet.cli import failures

    line = hoist(arguments)
    code: int | None = None
    try:
        for word in arguments:
            if unreadable(word):
                what = f"an argument is not text in the encoding of this machine: {word!r}"
                raise failures.Stop("usage", what, "write it in UTF-8", Exit.REFUSED)
        code = build(line)(args=list(line.words), prog_name="placet", standalone_mode=False)
        sys.stdout.flush()
        return int(code or Exit.OK)
    except BrokenPipeError:
        let_go()
        return int(code or Exit.OK)
    except BaseException as error:  # the one handler of the program
        if line.debug and not isinstance(error, SystemExit):
            raise
        return failures.tell(error, as_json=line.json)


def build(line: CommandLine) -> "typer.Typer":
    """The application with every command of the table."""
    import typer

    from placet.cli.commands import table
    from placet.cli.help import Leaf, Panels

    app = typer.Typer(
        help="Submit AI workloads; Placet decides where they run.",
        epilog=EPILOG,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=Panels,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(
        context: typer.Context,
        json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
        no_color: Annotated[bool, typer.Option("--no-color", help="Plain text on a terminal too.")] = False,
        data_dir: Annotated[Path | None, typer.Option(help="Data folder; default PLACET_DATA_DIR.")] = None,
        config: Annotated[Path | None, typer.Option(help="Settings; default PLACET_CONFIG.")] = None,
        url: Annotated[str | None, typer.Option(help="A server elsewhere; default PLACET_URL.")] = None,
    ) -> None:
        if config is not None:  # for the settings of this process and of a server it may start
            os.environ["PLACET_CONFIG"] = str(config.expanduser().absolute())
        context.obj = Options(
            json=json,
            debug=debug,
            color=not no_color,
            data_dir=data_dir.expanduser().absolute() if data_dir else None,
            config=config.expanduser().absolute() if config else None,
            url=url,
            program=line.program,
        )

    for entry in table.COMMANDS:
        app.command(entry.name, cls=Leaf, rich_help_panel=entry.panel)(entry.function)
    for group in table.GROUPS:
        inner = typer.Typer(help=group.help, cls=Panels)
        for entry in group.commands:
            inner.command(entry.name, cls=Leaf)(entry.function)
        app.add_typer(inner, name=group.name, rich_help_panel=group.panel)
    return app
