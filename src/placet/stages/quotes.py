"""Quotes that carry their own terms: packed, and signed with a key that only the deployment has. And what is left of
one after some attempts.

A quote is ``q1_`` and 63 letters of URL-safe base64: expiry in seconds (5 bytes), bound in millionths of a dollar (8),
mark of the spec (16), and the first 18 bytes of HMAC-SHA256 (RFC 2104) over these and the tenant.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from decimal import ROUND_UP, Decimal

from placet.domain.forecasts import Forecast
from placet.domain.problems import Problem
from placet.domain.quotes import Quote, Quoted, Terms
from placet.domain.records import Attempt, Workload
from placet.domain.spec import Repeat
from placet.domain.units import SECOND_MS, format_instant, format_money
from placet.stages.billing import begun_ms, charge_usd
from placet.stages.course import done_s

PREFIX = "q1_"
EXPIRY_BYTES, BOUND_BYTES, MARK_BYTES, SIGNATURE_BYTES = 5, 8, 16, 18
BYTES = EXPIRY_BYTES + BOUND_BYTES + MARK_BYTES + SIGNATURE_BYTES
# Beliefs move a little with every attempt of anybody; a quote does not fall over that.
MARGIN = Decimal("1.05")
MICRO = Decimal("0.000001")
BOUND_MAX_MICRO = 2 ** (8 * BOUND_BYTES) - 1


def mark_of(body_digest: str) -> bytes:
    """What a quote knows a spec by."""
    return hashlib.sha256(body_digest.encode()).digest()[:MARK_BYTES]


def issue(key: bytes, tenant: str, body_digest: str, expected: Forecast, expires_ms: int) -> Quote:
    """A quote for a spec that is expected to cost this: the bound is the ninth decile and a margin."""
    bound_usd = (expected.cost_usd.p90 * MARGIN).quantize(MICRO, rounding=ROUND_UP)
    bound_micro = min(int(bound_usd / MICRO), BOUND_MAX_MICRO)
    expires_s = expires_ms // SECOND_MS
    mark = mark_of(body_digest)
    packed = expires_s.to_bytes(EXPIRY_BYTES) + bound_micro.to_bytes(BOUND_BYTES) + mark
    text = PREFIX + base64.urlsafe_b64encode(packed + _signature(key, tenant, packed)).decode().rstrip("=")
    terms = Terms(mark=mark, bound_usd=bound_micro * MICRO, expires_ms=expires_s * SECOND_MS)
    return Quote(text=text, terms=terms)


def read(key: bytes, tenant: str, text: str) -> Terms | None:
    """The terms of a quote of ours for this tenant; ``None`` for any other text."""
    body = text.strip().removeprefix(PREFIX)
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    terms, signature = packed[:-SIGNATURE_BYTES], packed[-SIGNATURE_BYTES:]
    ours = text.strip().startswith(PREFIX) and len(packed) == BYTES
    if not ours or not hmac.compare_digest(signature, _signature(key, tenant, terms)):
        return None
    return Terms(
        mark=terms[EXPIRY_BYTES + BOUND_BYTES :],
        bound_usd=int.from_bytes(terms[EXPIRY_BYTES : EXPIRY_BYTES + BOUND_BYTES]) * MICRO,
        expires_ms=int.from_bytes(terms[:EXPIRY_BYTES]) * SECOND_MS,
    )


def _signature(key: bytes, tenant: str, packed: bytes) -> bytes:
    return hmac.digest(key, packed + tenant.encode("utf-8", "surrogatepass"), "sha256")[:SIGNATURE_BYTES]


def judge(terms: Terms | None, body_digest: str, expected: Forecast | None, now_ms: int) -> tuple[Problem, ...]:
    """How the world has moved beyond a quote, if it has; ``expected`` is the forecast of this moment."""
    if terms is None:
        return (BAD,)
    if terms.mark != mark_of(body_digest):
        return (CHANGED,)
    if now_ms >= terms.expires_ms:
        return (
            Problem(
                code="quote_expired",
                field="quote",
                what=f"the quote was valid until {format_instant(terms.expires_ms)}",
                why="prices move",
                fix=AGAIN,
            ),
        )
    if expected is None:
        return (
            Problem(
                code="quote_exceeded",
                field="quote",
                what=f"nothing is offered now that could run it for at most {format_money(terms.bound_usd)}",
                why="what the quote was for is gone",
                fix=AGAIN,
            ),
        )
    if expected.cost_usd.p90 > terms.bound_usd:
        now = format_money(expected.cost_usd.p90)
        return (
            Problem(
                code="quote_exceeded",
                field="quote",
                what=f"nine of ten would now cost up to {now}, the quote is bound at {format_money(terms.bound_usd)}",
                why="offers, prices or what is believed of them have changed since",
                fix=AGAIN,
            ),
        )
    return ()


def left(workload: Workload, attempts: Sequence[Attempt], now_ms: int) -> Quoted | None:
    """What all attempts, those that run included, have left of the quote of a workload; ``None`` without one."""
    bound_usd = workload.quoted_usd
    if bound_usd is None:
        return None
    spent_usd = sum(
        (one.cost_usd if one.final else charge_usd(one, now_ms - begun_ms(one)) for one in attempts), Decimal(0)
    )
    goes_on = workload.spec.repeat is Repeat.RESUMABLE
    return Quoted(
        bound_usd=bound_usd, left_usd=bound_usd - spent_usd, done_s=done_s(attempts, now_ms) if goes_on else 0.0
    )


AGAIN = "ask again with `placet estimate`, and submit with the new quote"
BAD = Problem(
    code="bad_quote",
    field="quote",
    what="this is no quote of this deployment for you",
    why="a quote is signed for one tenant, and any change of its letters breaks it",
    fix=AGAIN,
)
CHANGED = Problem(
    code="quote_spec_changed",
    field="quote",
    what="the quote was made for another spec",
    why="another spec may cost something else",
    fix="submit the spec that was estimated, or ask again with `placet estimate`",
)
