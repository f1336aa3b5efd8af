"""GPU memory, published against estimated: every row of the table with its error; the gate is the bars of measurements.

python -m bench.memory [--json]
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.support.published_memory import Row, published

TOLERANCE = 0.10
GIB = 2**30


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 when a measured row misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    asked = parser.parse_args(arguments)
    rows = [line(row) for row in published()]
    if asked.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
    return 0 if all(row["met"] for row in rows) else 1


def line(row: Row) -> dict[str, object]:
    """One row as plain values; ``met`` is true for figures that are no measurements, which are information."""
    estimate = row.estimate()
    whole = not row.setting.part
    compared = {"recommended": row.estimated_bytes()}
    if whole and row.training:
        compared["allocated"] = estimate.allocated.likely
    errors = {name: figure / row.bytes - 1 for name, figure in compared.items()}
    least = 0.0 if row.training else -TOLERANCE
    return {
        "row": row.number,
        "what": f"{row.model}, {row.method}",
        "hardware": row.hardware,
        "kind": "measured" if row.measured else "rule of thumb",
        "of": row.setting.part or "all",
        "published_gib": round(row.bytes / GIB, 2),
        "recommended_gib": round(compared["recommended"] / GIB, 2),
        "allocated_gib": round(compared["allocated"] / GIB, 2) if "allocated" in compared else None,
        "low_gib": round(estimate.size.low / GIB, 2) if whole else None,
        "high_gib": round(estimate.size.high / GIB, 2) if whole else None,
        "recommended_error": round(errors["recommended"], 4),
        "allocated_error": round(errors["allocated"], 4) if "allocated" in errors else None,
        "met": not row.measured or all(least <= error <= TOLERANCE for error in errors.values()),
        "note": row.setting.note,
    }


def show(rows: Sequence[dict[str, object]]) -> None:
    print(f"{'row':>3} {'what':<48} {'kind':<13} {'of':<7} {'published':>9} {'recomm.':>8} {'error':>7} "
          f"{'alloc.':>7} {'error':>7}  {'interval':<16} bar")  # fmt: skip
    for row in rows:
        allocated, error = row["allocated_gib"], row["allocated_error"]
        interval = "" if row["low_gib"] is None else f"{row['low_gib']:.1f} to {row['high_gib']:.1f}"
        bar = "" if row["kind"] != "measured" else "met" if row["met"] else "MISSED"
        print(
            f"{row['row']:>3} {row['what']!s:<48} {row['kind']:<13} {row['of']:<7} {row['published_gib']:>9.2f} "
            f"{row['recommended_gib']:>8.2f} {row['recommended_error']:>+7.1%} "
            + (f"{allocated:>7.2f} {error:>+7.1%}" if allocated is not None else " " * 15)
            + f"  {interval:<16} {bar}{'*' if row['note'] else ''}"
        )
    print(
        "GiB per GPU. recomm.: the likely figure with the driver's context; alloc.: without it, as frameworks report."
    )
    for row in rows:
        if row["note"]:
            print(f"* row {row['row']}: {row['note']}")


if __name__ == "__main__":
    sys.exit(main())
