"""How every benchmark reports: tables for people, one JSON object as the last line for programs."""

import json
import os
import platform
import sqlite3
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = ("placet", "fastapi", "uvicorn", "sqlalchemy", "pydantic", "msgspec", "psycopg", "httpx")
LONG_NUMBER = 100


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Several rounds of one figure."""

    least: float
    median: float
    most: float
    rounds: int

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.least)} to {number(self.most)})"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of a table: what, in which unit, and what to hold it against."""

    what: str
    unit: str
    spread: Spread
    ratio: Spread | None = None
    against: str = ""


def spread(values: Sequence[float]) -> Spread:
    return Spread(least=min(values), median=statistics.median(values), most=max(values), rounds=len(values))


def ratios(ours: Sequence[float], floors: Sequence[float]) -> Spread:
    """Round by round, because whatever else loads the machine loads both halves of a round."""
    return spread([our / floor for our, floor in zip(ours, floors, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def number(value: float) -> str:
    if value == 0 or abs(value) >= LONG_NUMBER:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout can be piped."""
    print(text, file=sys.stderr, flush=True)


def print_figures(title: str, figures: Sequence[Figure]) -> None:
    header = ("", "median (least to most)", "unit", "ratio")
    rows = [header]
    for figure in figures:
        ratio = f"{figure.ratio} of {figure.against}" if figure.ratio else ""
        rows.append((figure.what, str(figure.spread), figure.unit, ratio))
    print_rows(title, rows)


def print_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for index, row in enumerate(rows):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if index == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def finish(name: str, figures: Mapping[str, Sequence[Figure]], facts: Mapping[str, object], as_json: bool) -> None:
    """Prints the tables and, asked for, everything as one JSON object on the last line."""
    for title, lines in figures.items():
        print_figures(title, lines)
    about = machine()
    print(f"\n{about['cpus']} x {about['cpu']}, {about['system']}, load {about['load']}")
    if as_json:
        tables = {title: [asdict(figure) for figure in lines] for title, lines in figures.items()}
        document = {"bench": name, "machine": about, "versions": versions(), "facts": facts, "figures": tables}
        print(json.dumps(document, separators=(",", ":"), default=str))


def machine() -> dict[str, object]:
    processors = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in processors.splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
