"""When a live attempt has had all that it may have: time to start, time to run, money. It stops nothing."""

from collections.abc import Iterator
from decimal import Decimal

from placet.domain.failures import Cause, Failure
from placet.domain.records import Attempt
from placet.domain.spec import Spec
from placet.domain.units import SECOND_MS, format_money
from placet.stages import billing

# The control plane ends an attempt by itself this long after its runner should have.
RUNTIME_MARGIN_MS = 15 * SECOND_MS
# What has been allocated, and whose runner has not called for so long, never will.
CALL_HOME_MS = 3600 * SECOND_MS


def exceeded(
    attempt: Attempt, spec: Spec, spent_usd: Decimal, now_ms: int, *, provisioning: bool = False
) -> Failure | None:
    """Which limit it is beyond, if any.

    ``spent_usd`` is what other attempts cost; ``provisioning`` that the provider has just said that it is still being
    made, not queued.
    """
    limit_s, start_s, cap = spec.constraints.runtime_s, spec.constraints.start_within_s, spec.constraints.cost_usd
    if limit_s is not None and attempt.started_ms is not None:
        end_ms = attempt.started_ms + int((limit_s + spec.stop_grace_s) * SECOND_MS)
        if now_ms > end_ms + RUNTIME_MARGIN_MS:
            return Failure(cause=Cause.TIMEOUT, message=f"longer than {limit_s} s, ended by the control plane")
    if start_s is not None and attempt.started_ms is None and now_ms > attempt.created_ms + int(start_s * SECOND_MS):
        return Failure(cause=Cause.START_TIMEOUT, message=f"not started within {start_s} s")
    if provisioning and attempt.permit_ms is None and now_ms > attempt.created_ms + CALL_HOME_MS:
        hours = CALL_HOME_MS // (3600 * SECOND_MS)
        return Failure(cause=Cause.START_TIMEOUT, message=f"its runner has not called within {hours} h")
    if cap is not None and _at_most_usd(attempt, spec, now_ms) > cap - spent_usd:
        left = format_money(max(cap - spent_usd, Decimal(0)))
        return Failure(cause=Cause.COST_CAP, message=f"it would cost more than the {left} that are left of the cap")
    return None


def look_ms(attempt: Attempt, spec: Spec, spent_usd: Decimal) -> Iterator[int]:
    """The moments at which to see whether it is beyond one of them."""
    start_s, cap = spec.constraints.start_within_s, spec.constraints.cost_usd
    if start_s is not None and attempt.started_ms is None:
        yield attempt.created_ms + int(start_s * SECOND_MS) + 1
    price = billing.price_usd_per_hour(attempt)
    if cap is not None and price > 0:
        paid_s = max(cap - spent_usd, Decimal(0)) * 3600 / price
        quantum_s = attempt.placement.billing_quantum_s
        whole_s = paid_s // quantum_s * quantum_s
        yield billing.begun_ms(attempt) + int((whole_s - spec.stop_grace_s) * SECOND_MS) + 1


def _at_most_usd(attempt: Attempt, spec: Spec, now_ms: int) -> Decimal:
    """What it costs when it is asked to stop now and takes all of its grace."""
    return billing.charge_usd(attempt, now_ms - billing.begun_ms(attempt) + int(spec.stop_grace_s * SECOND_MS))
