"""The three sets of cases, read from the recorded traces in `bench/data/spot`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.traces.simulator import HOUR_S, Case

DATA = Path(__file__).resolve().parents[1] / "data" / "spot"
TWO_WEEKS = DATA / "two_week_8_pairs.json"
NINE_ZONES = DATA / "nine_zones_windows.json"

# The first windows of the nine-zone file are set C and nothing is tuned on them.
WINDOWS_OF_C = 8
SCENARIOS = (
    (("us-east-1a", "us-east-1c"), 8),
    (("us-east-2a", "us-west-2a"), 8),
    (("us-east-1a", "us-east-2b", "us-west-2c"), 6),
    (("us-east-1a", "us-east-1c", "us-east-1d"), 6),
    (("us-east-1a", "us-east-1f", "us-west-2a", "us-west-2b", "us-east-2b"), 4),
    (
        (
            "us-east-2a", "us-west-2c", "us-east-1d", "us-east-2b", "us-west-2a",
            "us-east-1f", "us-east-1a", "us-west-2b", "us-east-1c",
        ),
        2,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CaseSet:
    """Cases that are scored together; set C averages its scenarios, the others their cases."""

    name: str
    about: str
    cases: tuple[Case, ...]
    mean_of_groups: bool = False


@dataclass(frozen=True, kw_only=True)
class Window:
    """Time-aligned traces of several zones."""

    id: int
    start_time: str
    gap_s: int
    zones: Mapping[str, bytes]


def set_a(path: Path = TWO_WEEKS) -> CaseSet:
    """The leaderboard with one zone: two deadlines, three delays, six pairs, thirty starts."""
    data = _read(path)
    cases = tuple(
        _two_week_case(data, pair, start, deadline_h=deadline_h, delay_s=delay_s)
        for deadline_h in (52, 70)
        for delay_s in (72, 180, 360)
        for pair in data["adrs_pairs"]
        for start in data["adrs30"]
    )
    return CaseSet(name="A", about="leaderboard, one zone: C=48 h; R=52, 70 h; d=0.02, 0.05, 0.10 h", cases=cases)


def set_b(path: Path = TWO_WEEKS) -> CaseSet:
    """Table 3 of the paper: eight pairs, a start every ten ticks."""
    data = _read(path)
    first = data["first_tick"]
    cases = tuple(
        _two_week_case(data, pair, start, deadline_h=60, delay_s=720)
        for pair, trace in data["pairs"].items()
        for start in range(first, first + len(trace) - 60 * HOUR_S // data["gap_seconds"] + 1, 10)
    )
    return CaseSet(name="B", about="paper, Table 3: C=48 h; R=60 h; d=0.2 h", cases=cases)


def set_c(path: Path = NINE_ZONES) -> CaseSet:
    """The leaderboard with many zones, by the strict rule."""
    windows = nine_zone_windows(path)
    cases = tuple(
        zones_case(window, zones, group=f"{len(zones)} zones: {' '.join(zones)}")
        for zones, count in SCENARIOS
        for window in windows[:count]
    )
    return CaseSet(
        name="C", about="leaderboard, many zones, strict: C=48 h; R=52 h; d=0.2 h", cases=cases, mean_of_groups=True
    )


def zones_case(window: Window, zones: Sequence[str], *, group: str, deadline_h: int = 52, delay_s: int = 720) -> Case:
    """48 hours of work over some zones of a window, from its beginning."""
    ticks = deadline_h * HOUR_S // window.gap_s
    return Case(
        group=group,
        start=f"window {window.id}",
        places=tuple(zones),
        up=tuple(window.zones[zone][:ticks] for zone in zones),
        gap_s=window.gap_s,
        work_s=48 * HOUR_S,
        deadline_s=deadline_h * HOUR_S,
        delay_s=delay_s,
    )


def nine_zone_windows(path: Path = NINE_ZONES) -> tuple[Window, ...]:
    """The file names a zone with its device: `us-east-1a_v100_1` is read as `us-east-1a`."""
    data = _read(path)
    return tuple(
        Window(
            id=window["id"],
            start_time=window["start_time"],
            gap_s=data["gap_seconds"],
            zones={name.partition("_")[0]: bytes(_unrolled(runs)) for name, runs in window["zones"].items()},
        )
        for window in data["windows"]
    )


def _two_week_case(data: Mapping[str, Any], pair: str, start: int, *, deadline_h: int, delay_s: int) -> Case:
    first, gap_s = start - data["first_tick"], data["gap_seconds"]
    trace = data["pairs"][pair][first : first + deadline_h * HOUR_S // gap_s]
    return Case(
        group=pair,
        start=str(start),
        places=(pair,),
        up=(bytes(map(int, trace)),),
        gap_s=gap_s,
        work_s=48 * HOUR_S,
        deadline_s=deadline_h * HOUR_S,
        delay_s=delay_s,
    )


def _unrolled(runs: Sequence[int]) -> Iterator[int]:
    value = runs[0]
    for length in runs[1:]:
        yield from (value for _ in range(length))
        value = 1 - value


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
