"""Figures for Prometheus. No label ever carries what a tenant wrote.

Counting is on the way of every request and is done here with plain numbers; the library writes the page that somebody
may ask for, and is loaded then.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from placet.domain.states import WorkloadState
from placet.server.edge import Served

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NONE: Mapping[tuple[str, str], int] = {}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(kw_only=True)
class _Durations:
    """How long the requests of one route took: how many ended within each bound and beyond the last, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total_s: float = 0.0


@dataclass(frozen=True, eq=False)
class _Collector:
    """What the library asks for the figures."""

    figures: Iterable["Metric"]

    def collect(self) -> Iterable["Metric"]:
        return self.figures


class Metrics:
    """What the server counts. Belongs to the thread of the event loop."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}

    def observe(self, served: Served) -> None:
        """One request was answered."""
        method = served.method if served.method in METHODS else "other"
        self._requests[method, served.route, served.status] += 1
        durations = self._durations.get((method, served.route))
        if durations is None:
            durations = self._durations[method, served.route] = _Durations()
        durations.counts[bisect_left(SECONDS, served.seconds)] += 1
        durations.total_s += served.seconds

    def page(
        self, counts: Mapping[WorkloadState, int], streams: int, unknown: Mapping[tuple[str, str], int] = NONE
    ) -> bytes:
        """The figures as text; ``unknown`` are messages that no table knows, by provider and verb."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(_Collector(tuple(self._figures(counts, streams, unknown))))
        return generate_latest(registry)

    def _figures(
        self, counts: Mapping[WorkloadState, int], streams: int, unknown: Mapping[tuple[str, str], int]
    ) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "placet_http_requests", "Answered requests.", labels=("method", "route", "status")
        )
        for (method, route, status), count in self._requests.items():
            requests.add_metric((method, route, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily(
            "placet_http_request_seconds",
            "Time from the head of a request to the end of its reply.",
            labels=("method", "route"),
        )
        bounds = [*map(str, SECONDS), "+Inf"]
        for names, durations in self._durations.items():
            within = list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
            seconds.add_metric(names, within, durations.total_s)
        yield seconds
        workloads = GaugeMetricFamily("placet_workloads", "Workloads by state.", labels=("state",))
        for state in WorkloadState:
            workloads.add_metric((state.value,), counts.get(state, 0))
        yield workloads
        yield GaugeMetricFamily("placet_http_streams", "Open event streams.", value=streams)
        heard = CounterMetricFamily(
            "placet_provider_unknown_messages",
            "Messages that no table of a provider knows.",
            labels=("provider", "verb"),
        )
        for (provider, verb), count in unknown.items():
            heard.add_metric((provider, verb), count)
        yield heard
