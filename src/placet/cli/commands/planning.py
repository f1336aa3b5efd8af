"""Commands that need no server: a first spec, its check, its schema."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.exits import Exit
from placet.cli.failures import Stop, problem_lines
from placet.cli.output import Output, last_words, note
from placet.cli.template import TEMPLATE
from placet.sdk.errors import ProblemView

STDIN = "-"


def init(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it; `-` is stdout.")] = Path("workload.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented spec to start from."""
    output = Output(context.obj)
    if str(file) == STDIN:
        sys.stdout.write(TEMPLATE)
        return
    if file.exists() and not force:
        raise Stop("file_exists", f"{file} is already there", "choose another name, or --force", Exit.REFUSED)
    file.write_text(TEMPLATE, encoding="utf-8")
    if output.json:
        output.document({"file": str(file)})
    else:
        output.say(f"{file} is written. Next: placet validate {file}, then placet run {file}")


def validate(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Spec files, YAML or JSON; `-` is stdin.")],
) -> int:
    """Check specs without running anything; every mistake with its line and what to do.

    It needs no server and knows no offers, inputs or models: `placet submit --dry-run` asks those too.
    """
    output = Output(context.obj)
    checked = [(file, *_problems(_text(file))) for file in files]
    with last_words():
        if output.json:
            output.document(
                [
                    {"file": file, "valid": not wrong, "errors": [vars(problem) for problem in wrong],
                     "warnings": [vars(problem) for problem in warned]}
                    for file, wrong, warned in checked
                ]
            )  # fmt: skip
        else:
            for file, wrong, warned in checked:
                output.say(f"{file}: {'invalid' if wrong else 'valid'}")
                for problem in (*wrong, *warned):
                    output.say("\n".join(problem_lines(problem)))
    return Exit.REFUSED if any(wrong for _, wrong, _ in checked) else Exit.OK


def schema(context: typer.Context) -> None:
    """Print the JSON Schema of the spec."""
    from placet.contract.schema import spec_schema

    del context
    sys.stdout.write(json.dumps(spec_schema(), indent=2) + "\n")


def _text(file: str) -> bytes:
    if file == STDIN:
        if sys.stdin.isatty():
            note("reading the spec from the terminal; end with Ctrl-D")
        return sys.stdin.buffer.read()
    from placet.sdk.specs import read_document

    return read_document(Path(file))


def _problems(text: bytes) -> tuple[tuple[ProblemView, ...], tuple[ProblemView, ...]]:
    """Mistakes, and warnings."""
    from placet.contract.parse import Parsed, parse

    parsed = parse(text, now_ms=time.time_ns() // 1_000_000, check_now=True)
    if isinstance(parsed, Parsed):
        return (), tuple(ProblemView(**vars(warning)) for warning in parsed.warnings)
    return tuple(ProblemView(**vars(problem)) for problem in parsed), ()
