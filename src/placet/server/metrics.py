"""Figures for Prometheus, in a registry of our own. No label ever carries what a tenant wrote."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from placet.domain.states import WorkloadState
from placet.server.edge import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """What the server counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "placet_http_requests", "Answered requests.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "placet_http_request_seconds",
            "Time from the head of a request to the end of its reply.",
            ("method", "route"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._workloads = Gauge("placet_workloads", "Workloads by state.", ("state",), registry=self.registry)
        self._streams = Gauge("placet_http_streams", "Open event streams.", registry=self.registry)

    def observe(self, served: Served) -> None:
        """One request was answered."""
        method = served.method if served.method in METHODS else "other"
        self._requests.labels(method, served.route, str(served.status)).inc()
        self._seconds.labels(method, served.route).observe(served.seconds)

    def page(self, counts: Mapping[WorkloadState, int], streams: int) -> bytes:
        """The figures as text."""
        for state in WorkloadState:
            self._workloads.labels(state.value).set(counts.get(state, 0))
        self._streams.set(streams)
        return generate_latest(self.registry)
