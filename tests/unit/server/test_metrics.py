"""The page of figures: what was counted, in the form that Prometheus reads."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from placet.domain.states import WorkloadState
from placet.server.edge import Served
from placet.server.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    page = metrics.page({WorkloadState.RUNNING: 3}, 2).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_requests_durations_workloads_and_streams() -> None:
    metrics = Metrics()
    for seconds, status in ((0.001, 200), (0.0011, 200), (99.0, 500)):
        metrics.observe(Served(method="GET", route="/x", status=status, seconds=seconds))
    found = samples(metrics)
    assert found["placet_http_requests_total", "GET", "/x", "200"] == 2
    assert found["placet_http_requests_total", "GET", "/x", "500"] == 1
    buckets = {key[1]: value for key, value in found.items() if key[0] == "placet_http_request_seconds_bucket"}
    assert (buckets["0.001"], buckets["0.0025"], buckets["10.0"], buckets["+Inf"]) == (1, 2, 2, 3)
    assert found["placet_http_request_seconds_count", "GET", "/x"] == 3
    assert found["placet_http_request_seconds_sum", "GET", "/x"] == pytest.approx(99.0021)
    assert found["placet_workloads", "running"] == 3
    assert found["placet_workloads", "waiting"] == 0
    assert found["placet_http_streams",] == 2


def test_methods_that_strangers_invent_are_one_label() -> None:
    metrics = Metrics()
    for method in ("BREW", "STEEP"):
        metrics.observe(Served(method=method, route="none", status=405, seconds=0.1))
    assert samples(metrics)["placet_http_requests_total", "other", "none", "405"] == 2
