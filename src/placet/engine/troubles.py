"""Workloads about which no decision can be made, by a fault of ours: each is looked at again, less and less often.

What is wrong with one of them stops nobody else, and is nobody's verdict: its state stays as it is until it is decided.
"""

import traceback

import structlog

log = structlog.get_logger("placet.engine")

FIRST_MS = 1_000
MOST_MS = 300_000


class Troubles:
    """How often each has failed in a row."""

    def __init__(self, *, isolated: bool) -> None:
        self._isolated = isolated
        self._failures: dict[str, int] = {}

    def failed(self, workload_id: str, error: Exception, now_ms: int) -> int:
        """When it is looked at again. Where faults are not isolated, raises the error."""
        if not self._isolated:
            raise error
        count = self._failures[workload_id] = self._failures.get(workload_id, 0) + 1
        told = "".join(traceback.format_exception(error))
        log.error("decision.failed", workload=workload_id, times=count, error=type(error).__name__, exception=told)
        return now_ms + min(FIRST_MS << min(count - 1, 10), MOST_MS)

    def well(self, workload_id: str) -> None:
        """It was decided."""
        self._failures.pop(workload_id, None)
