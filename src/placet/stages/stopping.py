"""How far a stop has come: asked of us, taken by the provider, proven - or overdue, while it may still cost."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from placet.domain.records import Attempt, Record
from placet.domain.states import AttemptState, Desired, IntentVerb
from placet.domain.units import SECOND_MS
from placet.stages.billing import price_usd_per_hour

# What the intent of a cancel bears once its provider has taken the request. That something stopped is another matter.
TAKEN = "the provider took the request"
# So long after its grace time a stop without proof is told as overdue.
OVERDUE_MS = 30 * SECOND_MS


class StopStage(StrEnum):
    """The stages of a stop, in their order; ``UNCONFIRMED`` is an overdue one."""

    REQUESTED = "requested"
    DELIVERED = "delivered"
    UNCONFIRMED = "unconfirmed"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Where a stop is, and what may go on costing until it is proven."""

    stage: StopStage
    requested_ms: int
    usd_per_hour: Decimal


def stop_of(record: Record, now_ms: int) -> Stop | None:
    """The stop of a workload that is to end or was stopped; ``None`` for one that nobody stops."""
    workload, attempt = record.workload, record.current
    asked_ms = None if attempt is None else attempt.stop_requested_ms
    if workload.desired is not Desired.STOP and asked_ms is None:
        return None
    holding = [held for held in record.attempts if _holds(held)]
    cost = sum((price_usd_per_hour(held) for held in holding), Decimal(0))
    since_ms = asked_ms if asked_ms is not None else workload.updated_ms
    return Stop(stage=_stage(record, holding, asked_ms, now_ms), requested_ms=since_ms, usd_per_hour=cost)


def _holds(attempt: Attempt) -> bool:
    """May it hold something at its provider?"""
    return attempt.state is not AttemptState.REFUSED and attempt.released_ms is None


def _stage(record: Record, holding: list[Attempt], asked_ms: int | None, now_ms: int) -> StopStage:
    if not holding:
        return StopStage.CONFIRMED
    if asked_ms is None:
        return StopStage.REQUESTED
    if now_ms - asked_ms > int(record.workload.spec.stop_grace_s * SECOND_MS) + OVERDUE_MS:
        return StopStage.UNCONFIRMED
    taken = any(intent.verb is IntentVerb.CANCEL and intent.evidence == TAKEN for intent in record.intents)
    ended = all(attempt.final for attempt in holding)
    return StopStage.DELIVERED if taken or ended else StopStage.REQUESTED
