"""What goes to stdout: with ``--json`` documents and nothing else, otherwise words and tables for people or pipes."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from placet.cli.options import Options
from placet.cli.text import clean, one_line

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "expired": "yellow",
    "running": "cyan",
    "delivering": "cyan",
    "yes": "green",
    "no": "red",
    "unknown": "yellow",
    "ok": "green",
    "missing": "red",
}


# Notes are written from many places, most of which know nothing of the command line's flags.
_asked = {"plain": False}


def styled(stream: TextIO) -> bool:
    """May escapes be written here? Not into a pipe, and not where anybody says so: bold and dim are escapes too."""
    unwanted = _asked["plain"] or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not unwanted and stream.isatty()


class Output:
    """One command's stdout. What its options say of colours holds for ``note`` as well."""

    def __init__(self, options: Options) -> None:
        self.json = options.json
        _asked["plain"] = not options.color
        self._console: Console | None = None

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    def document(self, value: object) -> None:
        """One JSON document, indented only for people."""
        indent = 2 if self.on_terminal else None
        sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()

    def raw_document(self, text: str) -> None:
        """A JSON document exactly as the server keeps it."""
        sys.stdout.write(text.rstrip("\n") + "\n")
        sys.stdout.flush()

    def line(self, value: object) -> None:
        """One document of a stream, on one line."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Words for a person."""
        sys.stdout.write(clean(text) + "\n")

    def pairs(self, rows: Mapping[str, object], title: str = "") -> None:
        """Names and values, one a line; what is empty is left out."""
        if title:
            self._print(title, "bold")
        shown = {name: one_line(str(value), 500) for name, value in rows.items() if value not in (None, "", (), [])}
        width = max((len(name) for name in shown), default=0)
        for name, value in shown.items():
            self._print(f"{'  ' if title else ''}{name:<{width}}  {value}", STYLES.get(value, ""))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table on a terminal; tab-separated lines with a heading in a pipe."""
        cells = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
        if not self.on_terminal:
            for line in [[heading.lower().replace(" ", "_") for heading in headings], *cells]:
                sys.stdout.write("\t".join(line) + "\n")
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        self._rich().print(table)

    def _print(self, text: str, style: str) -> None:
        if not styled(sys.stdout) or not style:
            sys.stdout.write(text + "\n")
            return
        from rich.text import Text

        self._rich().print(Text(text, style=style))

    def _rich(self) -> "Console":
        from rich.console import Console

        if self._console is None:
            system: Literal["auto"] | None = "auto" if styled(sys.stdout) else None
            self._console = Console(color_system=system, highlight=False, soft_wrap=False)
        return self._console


def note(text: str, *, style: str = "") -> None:
    """A word beside the output, on stderr; colours only on a terminal."""
    codes = {"dim": "2", "green": "32", "red": "31", "yellow": "33", "bold": "1"}
    plain = clean(text)
    colored = styled(sys.stderr) and style in codes
    sys.stderr.write(f"\x1b[{codes[style]}m{plain}\x1b[0m\n" if colored else f"{plain}\n")
    sys.stderr.flush()


@contextmanager
def last_words() -> Iterator[None]:
    """Around what a command shows when it knows its exit code: a reader who leaves (``| head``) does not change it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        let_go()


def let_go() -> None:
    """Readers of our pipes have left: what is not written yet goes nowhere, now and when the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            stream.flush()
