"""The cases that constants come from: nine zones, without every minute that set C covers; nothing of A and B."""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from bench.traces.sets import SCENARIOS, WINDOWS_OF_C, CaseSet, Window, nine_zone_windows
from bench.traces.simulator import HOUR_S, Case

WORK_S = 48 * HOUR_S
ONE_ZONE_GAP_S = 600
ONE_ZONE = ((52, 72), (52, 360), (60, 720), (70, 360))
ONE_ZONE_EVERY_S = 12 * HOUR_S
MANY_ZONES_EVERY_S = 24 * HOUR_S
# The scenarios of set C have one zone that is nearly always there in four of six; these do not.
SCARCE = (
    ("us-east-1a", "us-east-1d"),
    ("us-east-1f", "us-east-2b"),
    ("us-east-1c", "us-east-1d", "us-east-1f"),
    ("us-east-1a", "us-east-2a", "us-east-1c"),
    ("us-east-1c", "us-east-1d", "us-east-2a", "us-east-1f"),
)

Traces = dict[str, NDArray[np.uint8]]


def tuning_sets() -> Iterator[CaseSet]:
    """One zone at 10-minute ticks with four pairs of deadline and delay, and many zones as in set C."""
    windows = nine_zone_windows()
    stretches = list(disjoint_stretches(windows))
    for deadline_h, delay_s in ONE_ZONE:
        cases = tuple(case for traces in stretches for case in _one_zone(traces, windows[0].gap_s, deadline_h, delay_s))
        yield CaseSet(name=f"{deadline_h} h, {delay_s} s", about="one zone", cases=cases)
    cases = tuple(case for traces in stretches for case in _many_zones(traces, windows[0].gap_s))
    yield CaseSet(name="many zones", about="52 h, 720 s", cases=cases, mean_of_groups=True)


def disjoint_stretches(windows: tuple[Window, ...]) -> Iterator[Traces]:
    """Windows joined to long stretches, cut wherever a window of set C covers the time."""
    gap_s = windows[0].gap_s
    began = [datetime.fromisoformat(window.start_time).timestamp() for window in windows]
    ticks = [round((moment - min(began)) / gap_s) for moment in began]
    length = len(next(iter(windows[0].zones.values())))
    traces = {zone: np.zeros(max(ticks) + length, dtype=np.uint8) for zone in windows[0].zones}
    free = np.zeros(max(ticks) + length, dtype=np.bool_)
    for window, first in zip(windows[WINDOWS_OF_C:], ticks[WINDOWS_OF_C:], strict=True):
        free[first : first + length] = True
        for zone, up in window.zones.items():
            traces[zone][first : first + length] = np.frombuffer(up, dtype=np.uint8)
    for first in ticks[:WINDOWS_OF_C]:
        free[first : first + length] = False
    edges = np.flatnonzero(np.diff(np.concatenate(([0], free.astype(np.int8), [0]))))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        yield {zone: trace[start:end] for zone, trace in traces.items()}


def _one_zone(traces: Traces, gap_s: int, deadline_h: int, delay_s: int) -> Iterator[Case]:
    ticks = deadline_h * HOUR_S // ONE_ZONE_GAP_S
    for zone, trace in traces.items():
        moments = np.arange(len(trace) * gap_s // ONE_ZONE_GAP_S) * ONE_ZONE_GAP_S // gap_s
        for start in range(0, len(moments) - ticks + 1, ONE_ZONE_EVERY_S // ONE_ZONE_GAP_S):
            up = trace[moments[start : start + ticks]].tobytes()
            yield _case((zone,), (up,), start, ONE_ZONE_GAP_S, deadline_h, delay_s)


def _many_zones(traces: Traces, gap_s: int) -> Iterator[Case]:
    ticks = 52 * HOUR_S // gap_s
    length = len(next(iter(traces.values())))
    for start in range(0, length - ticks + 1, MANY_ZONES_EVERY_S // gap_s):
        for zones in (*(zones for zones, _ in SCENARIOS), *SCARCE):
            up = tuple(traces[zone][start : start + ticks].tobytes() for zone in zones)
            yield _case(zones, up, start, gap_s, 52, 720)


def _case(zones: tuple[str, ...], up: tuple[bytes, ...], start: int, gap_s: int, deadline_h: int, delay_s: int) -> Case:
    return Case(
        group=" ".join(zones),
        start=str(start),
        places=zones,
        up=up,
        gap_s=gap_s,
        work_s=WORK_S,
        deadline_s=deadline_h * HOUR_S,
        delay_s=delay_s,
    )
