"""The final document of a workload: the same keys for every ending, written once, with its own digest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from placet.domain.failures import Failure
from placet.domain.records import Artifact, Attempt, Workload
from placet.domain.states import AttemptState
from placet.domain.units import format_instant
from placet.stages.billing import price_usd_per_hour
from placet.stages.ledger import add_up, entries

RESULT_VERSION = "v1"


def conclude(workload: Workload, attempts: Sequence[Attempt], artifacts: Sequence[Artifact]) -> str:
    """The result of a workload in its final state, as JSON: keys sorted, no spaces, UTF-8, its digest last.

    ``digest`` is SHA-256 over the same text without that key. Money is exact decimal text in US dollars, times are
    ISO 8601 in UTC, durations are milliseconds.
    """
    last = attempts[-1] if attempts else None
    document: dict[str, object] = {
        "version": RESULT_VERSION,
        "workload_id": workload.id,
        "name": workload.spec.name,
        "state": str(workload.state),
        **_cause(workload.failure),
        "spec_digest": workload.spec_digest,
        "created_at": format_instant(workload.created_ms),
        "finished_at": _instant(workload.finished_ms),
        "attempts": [_attempt(attempt) for attempt in attempts],
        "placement": _placement(last),
        "timing": _timing(workload, attempts),
        "cost": _cost(workload, attempts),
        "outputs": [_output(artifact) for artifact in artifacts],
        "delivery": str(workload.delivery),
        "compute_done": workload.compute_done,
        "logs": _logs(attempts),
        "retry_of": workload.retry_of,
        "simulated": any(attempt.placement.simulated for attempt in attempts),
    }
    text = canonical(document)
    return f'{text[:-1]},"digest":"{_digest(text)}"}}'


def canonical(document: Mapping[str, object]) -> str:
    """The one text of a document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(document: Mapping[str, object]) -> str:
    """``sha256:`` over the canonical text of everything but the digest itself."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return _digest(canonical(rest))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_instant(at_ms)


def _cause(failure: Failure | None) -> dict[str, object]:
    if failure is None:
        return {"cause": None, "message": "", "fix": None}
    meaning = failure.meaning
    return {
        "cause": {
            "code": str(failure.cause),
            "class": str(meaning.failure_class),
            "fault": str(meaning.fault),
            "retry": str(meaning.retry),
            "money_spent": str(meaning.money),
            "where": str(meaning.where),
            "exit_code": failure.exit_code,
            "signal": failure.signal,
            "evidence": dict(failure.evidence),
        },
        "message": failure.message,
        "fix": meaning.fix,
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    failure = attempt.failure
    return {
        "epoch": attempt.epoch,
        "state": str(attempt.state),
        "provider": attempt.provider,
        "offer": attempt.placement.offer_id,
        "region": attempt.placement.region,
        "simulated": attempt.placement.simulated,
        "price_usd_per_hour": str(price_usd_per_hour(attempt)),
        "created_at": format_instant(attempt.created_ms),
        "started_at": _instant(attempt.started_ms),
        "exited_at": _instant(attempt.exited_ms),
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "cause": str(failure.cause) if failure is not None else None,
        "message": failure.message if failure is not None else "",
        "cost_usd": _money(attempt.cost_usd),
        "cost_at_most": attempt.cost_at_most,
        "cpu_s": attempt.usage.cpu_s,
        "peak_memory_bytes": attempt.usage.peak_memory_bytes,
        "gpu_peak_bytes": attempt.usage.gpu_peak_bytes,
        "phases_ms": dict(attempt.phases_ms),
    }


def _placement(attempt: Attempt | None) -> dict[str, object] | None:
    if attempt is None:
        return None
    note = attempt.placement
    return {
        "provider": note.provider,
        "offer": note.offer_id,
        "region": note.region,
        "expected_cost_usd": _money(note.expected_cost_usd),
        "score": dict(note.parts),
        "dropped": dict(note.dropped),
        "why": list(note.reasons),
    }


def _timing(workload: Workload, attempts: Sequence[Attempt]) -> dict[str, object]:
    last = attempts[-1] if attempts else None
    first_started = next((attempt.started_ms for attempt in attempts if attempt.started_ms is not None), None)
    return {
        "total_ms": _between(workload.created_ms, workload.finished_ms),
        "until_first_start_ms": _between(workload.created_ms, first_started),
        "last_run_ms": _between(last.started_ms, last.exited_ms) if last is not None else None,
        "delivery_ms": _between(last.exited_ms, workload.finished_ms) if last is not None else None,
    }


def _between(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else max(end_ms - start_ms, 0)


def _cost(workload: Workload, attempts: Sequence[Attempt]) -> dict[str, object]:
    """Useful is the running of the attempt that computed; its preparation is overhead; all other attempts are waste.

    ``at_most``: the end of an attempt is not known, and the most that it may have cost is counted.
    """
    sums = add_up(entries(workload, attempts, workload.finished_ms or 0))
    return {
        "useful_usd": _money(sums.useful_usd),
        "overhead_usd": _money(sums.overhead_usd),
        "wasted_usd": _money(sums.wasted_usd),
        "total_usd": _money(sums.spent_usd),
        "at_most": sums.at_most,
    }


def _money(amount: Decimal) -> str:
    return format(amount, "f")


def _output(artifact: Artifact) -> dict[str, object]:
    return {
        "name": artifact.name,
        "path": artifact.path,
        "epoch": artifact.epoch,
        "size_bytes": artifact.size_bytes,
        "sha256": artifact.sha256,
        "media_type": artifact.media_type,
    }


def _logs(attempts: Sequence[Attempt]) -> list[dict[str, object]]:
    return [
        {
            "epoch": attempt.epoch,
            "stream": seal.stream,
            "bytes_total": seal.bytes_total,
            "bytes_kept": seal.bytes_kept,
            "gaps": [list(gap) for gap in seal.gaps],
            "sealed": attempt.state is AttemptState.COLLECTED or attempt.final,
        }
        for attempt in attempts
        for seal in attempt.logs
    ]
