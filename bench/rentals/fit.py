"""What the shape of losses was fitted on: `python -m bench.rentals.fit`.

How often spot that is there at some moment is still there hours later, on recorded stretches that no benchmark scores,
beside what shapes say that know the zone's mean rate of losses alone.
"""

import numpy as np

from bench.report import print_rows
from bench.traces.sets import nine_zone_windows
from bench.traces.tuning import disjoint_stretches

HOURS = (1, 3, 6, 12, 24)
SHAPES = (0.5, 0.7, 1.0, 2.0, 1e6)


def main() -> None:
    windows = nine_zone_windows()
    tick_h = windows[0].gap_s / 3600
    stretches = list(disjoint_stretches(windows))
    seen: dict[int, list[float]] = {hours: [] for hours in HOURS}
    rates = []
    for zone in windows[0].zones:
        traces = [traces[zone] != 0 for traces in stretches]
        losses = sum(int((up[:-1] & ~up[1:]).sum()) for up in traces)
        rates.append(losses / (sum(int(up.sum()) for up in traces) * tick_h))
        for hours in HOURS:
            seen[hours].append(survived(traces, round(hours / tick_h)))
    rows = [("hours", "recorded", *(f"shape {shape:g}" for shape in SHAPES))]
    for hours in HOURS:
        said = [np.mean([(1 + rate * hours / shape) ** -shape for rate in rates]) for shape in SHAPES]
        rows.append((str(hours), f"{np.mean(seen[hours]):.3f}", *(f"{share:.3f}" for share in said)))
    errors = [
        np.sqrt(
            np.mean(
                [
                    ((1 + rate * hours / shape) ** -shape - share) ** 2
                    for hours in HOURS
                    for rate, share in zip(rates, seen[hours], strict=True)
                ]
            )
        )
        for shape in SHAPES
    ]
    rows.append(("error", "", *(f"{error:.3f}" for error in errors)))
    print_rows("Share of moments with spot that are followed by so many hours with it, mean of nine zones", rows)


def survived(traces: list[np.ndarray], ticks: int) -> float:
    kept = asked = 0
    for up in traces:
        at = np.where(up, len(up) + ticks, np.arange(len(up)))
        next_down = np.minimum.accumulate(at[::-1])[::-1]
        moments = np.arange(len(up) - ticks)
        moments = moments[up[moments]]
        asked += len(moments)
        kept += int((next_down[moments] - moments >= ticks).sum())
    return kept / asked


if __name__ == "__main__":
    main()
