"""How often what happened lay within what was forecast. A forecast is right when of ten values nine lie below its p90.

Cost, run time and end are compared where the workload succeeded, as that is what they are forecast for; the start where
anything started. A run time that had to be assumed is not compared, nor what follows from it.
"""

from collections.abc import Iterable, Sequence

from placet.domain.calibration import Calibrated, Coverage, Outcome, Quantity
from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.records import Record
from placet.domain.states import WorkloadState
from placet.domain.units import SECOND_MS

ROWS_MAX = 200
# What a forecast that was certain and came true counts for: just as much as one that is right in the long run.
CERTAIN = (0.5, 0.9, 0.8)


def outcome(record: Record) -> Outcome | None:
    """What became of one ended workload; ``None`` when nothing was forecast of it, nothing can be compared, or nothing
    of it was real."""
    workload, attempts = record.workload, record.attempts
    first = attempts[0].placement if attempts else None
    if first is None or first.forecast is None or not workload.final or first.simulated:
        return None
    sent_ms, actual = attempts[0].created_ms, []
    started_ms = next((one.started_ms for one in attempts if one.started_ms is not None), None)
    if started_ms is not None:
        actual.append((Quantity.START, _seconds(sent_ms, started_ms)))
    last = attempts[-1]
    done = workload.state is WorkloadState.SUCCEEDED and last.started_ms is not None and last.exited_ms is not None
    if done and not first.forecast.run_assumed and last.started_ms is not None and last.exited_ms is not None:
        actual.append((Quantity.RUN, _seconds(last.started_ms, last.exited_ms)))
        actual.append((Quantity.FINISH, _seconds(sent_ms, last.exited_ms)))
        if not any(one.cost_at_most for one in attempts):
            actual.append((Quantity.COST, float(sum(one.cost_usd for one in attempts))))
    if not actual:
        return None
    return Outcome(
        workload_id=workload.id,
        created_ms=workload.created_ms,
        provider=first.provider,
        forecast=first.forecast,
        actual=tuple(actual),
    )


def _seconds(from_ms: int, to_ms: int) -> float:
    return max(to_ms - from_ms, 0) / SECOND_MS


def calibrate(outcomes: Sequence[Outcome]) -> tuple[Calibrated, ...]:
    """All together, each provider, and each class of machine of each; most workloads first, at most ``ROWS_MAX``."""
    groups: dict[tuple[str, str], list[Outcome]] = {("", ""): list(outcomes)}
    for one in outcomes:
        groups.setdefault((one.provider, ""), []).append(one)
        groups.setdefault((one.provider, one.forecast.machine), []).append(one)
    rows = [_row(provider, machine, some) for (provider, machine), some in groups.items()]
    rows.sort(key=lambda row: (bool(row.provider), row.provider, bool(row.machine), -row.workloads, row.machine))
    return tuple(rows[:ROWS_MAX])


def _row(provider: str, machine: str, outcomes: Sequence[Outcome]) -> Calibrated:
    return Calibrated(
        provider=provider,
        machine=machine,
        workloads=len(outcomes),
        coverage=tuple((quantity, _coverage(quantity, outcomes)) for quantity in Quantity),
    )


def _coverage(quantity: Quantity, outcomes: Iterable[Outcome]) -> Coverage:
    shares = [
        _held(expected(one.forecast, quantity), value)
        for one in outcomes
        for known, value in one.actual
        if known is quantity
    ]
    if not shares:
        return Coverage(count=0)
    count = len(shares)
    below_p50, below_p90, within = (sum(parts) / count for parts in zip(*shares, strict=True))
    return Coverage(count=count, below_p50=below_p50, below_p90=below_p90, within=within)


def expected(forecast: Forecast, quantity: Quantity) -> Quantiles:
    """What was forecast of one quantity."""
    match quantity:
        case Quantity.COST:
            return forecast.cost_usd
        case Quantity.START:
            return forecast.start_s
        case Quantity.RUN:
            return forecast.run_s
        case Quantity.FINISH:
            return forecast.finish_s


def _held(quantiles: Quantiles, actual: float) -> tuple[float, float, float]:
    p10, p50, p90 = (float(part) for part in (quantiles.p10, quantiles.p50, quantiles.p90))
    if p10 == p90 == actual:
        return CERTAIN
    return float(actual <= p50), float(actual <= p90), float(p10 <= actual <= p90)
