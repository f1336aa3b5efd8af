"""Quantities people write and quantities we keep; parsing raises ``ValueError`` with a sentence fit for a user.

Bare memory numbers and ``GB`` are decimal (10**9 bytes), ``GiB`` is binary: a "24 GB" card holds a little more than
24 * 10**9 bytes and a little less than 24 * 2**30, so the decimal reading is the one every such card satisfies.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache

KB, MB, GB, TB, PB = 10**3, 10**6, 10**9, 10**12, 10**15
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS, LAST_MS = (
    (moment - EPOCH) // timedelta(milliseconds=1)
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)

# Below these no program starts at any provider; above them sums leave what 64 bits hold.
MEMORY_BYTES_MIN = MIB
DISK_BYTES_MIN = 4 * KIB
CORES_MIN = Decimal("0.01")
DURATION_S_MIN = Decimal("0.001")
BYTES_MAX = 2**62 - 1
DURATION_S_MAX = 366 * 24 * 3600
MONEY_MAX = Decimal(10_000_000)

_BYTE_UNITS = {
    "b": 1, "k": KB, "kb": KB, "m": MB, "mb": MB, "g": GB, "gb": GB, "t": TB, "tb": TB,
    "ki": KIB, "kib": KIB, "mi": MIB, "mib": MIB, "gi": GIB, "gib": GIB, "ti": TIB, "tib": TIB,
}  # fmt: skip
_DURATION_UNITS_S = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{0,3})", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(ms|s|m|h|d)", re.ASCII | re.IGNORECASE)
# Well written and far too long: the amounts that count have fewer digits.
_HUGE_BYTES = re.compile(r"[0-9]{19,}(?:\.[0-9]+)?\s*(?:[kmgt]?i?b?)", re.ASCII | re.IGNORECASE)
_HUGE_DURATION = re.compile(r"[0-9]{13,}(?:\.[0-9]+)?\s*(?:ms|s|m|h|d)?", re.ASCII | re.IGNORECASE)
_HUGE_MONEY = re.compile(r"\$?\s*[0-9]{13,}(?:\.[0-9]+)?\s*(?:USD|usd)?", re.ASCII)
_MONEY = re.compile(r"\$?\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(?:USD|usd)?", re.ASCII)


class OutOfRange(ValueError):
    """A quantity that is well written and too large."""


def parse_bytes(text: str | int | float | Decimal, *, bare_unit: int = GB) -> int:
    """Bytes of ``24``, ``24GB``, ``24 GiB``, ``0.5TB``; a bare number counts in ``bare_unit``."""
    match = _NUMBER_AND_UNIT.fullmatch(_plain(text))
    if match is None and _HUGE_BYTES.fullmatch(_plain(text)):
        raise _too_much_memory(text)
    if match is None:
        raise ValueError(f"{_shown(text)} is not an amount of memory; write for example 24GB, 24GiB or 24")
    number, unit = Decimal(match[1]), match[2].lower()
    if unit and unit not in _BYTE_UNITS:
        raise ValueError(f"{match[2]!r} is not a unit of memory; use MB, GB, TB, MiB, GiB or TiB")
    amount = int(number * (_BYTE_UNITS[unit] if unit else bare_unit))
    if amount > BYTES_MAX:
        raise _too_much_memory(text)
    return amount


def parse_duration_s(text: str | int | float | Decimal) -> Decimal:
    """Seconds of ``90``, ``90s``, ``90m``, ``2h``, ``1h30m``, ``1d``."""
    plain = _plain(text)
    if _HUGE_DURATION.fullmatch(plain):
        raise _too_long(text)
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", plain, re.ASCII):
        seconds = Decimal(plain)
    else:
        parts = list(_DURATION_PART.finditer(plain))
        if not parts or "".join(part[0] for part in parts).replace(" ", "") != plain.replace(" ", ""):
            raise ValueError(f"{_shown(text)} is not a duration; write for example 90s, 90m, 2h or 1h30m")
        seconds = sum((Decimal(part[1]) * _DURATION_UNITS_S[part[2].lower()] for part in parts), Decimal(0))
    if seconds > DURATION_S_MAX:
        raise _too_long(text)
    return seconds


def parse_money(text: str | int | float | Decimal) -> Decimal:
    """US dollars of ``5``, ``$5``, ``$1.50``, ``5 USD``."""
    match = _MONEY.fullmatch(_plain(text))
    if match is None and _HUGE_MONEY.fullmatch(_plain(text)):
        raise _too_much_money(text)
    if match is None:
        raise ValueError(f"{_shown(text)} is not an amount of US dollars; write for example 10, $10 or 0.50")
    try:
        amount = Decimal(match[1])
    except InvalidOperation as error:
        raise ValueError(f"{_shown(text)} is not an amount of US dollars") from error
    if amount > MONEY_MAX:
        raise _too_much_money(text)
    return amount


def parse_instant_ms(text: str, *, now_ms: int) -> int:
    """Milliseconds since 1970 of an ISO 8601 date with a zone, or of ``+2h`` from now."""
    plain = _plain(text)
    if plain.startswith("+"):
        return _writable(now_ms + int(parse_duration_s(plain[1:]) * SECOND_MS))
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError as error:
        raise ValueError(f"{_shown(text)} is not a date; write for example 2026-12-31T18:00:00+01:00 or +2h") from error
    if moment.tzinfo is None:
        raise ValueError(f"{_shown(text)} has no time zone; add Z or an offset such as +01:00")
    return _writable((moment - EPOCH) // timedelta(milliseconds=1))


def format_instant(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, for an instant of the years 1 to 9999 in UTC, as every parsed one is."""
    minute, rest_ms = divmod(at_ms, MINUTE_MS)
    seconds, thousandths = divmod(rest_ms, SECOND_MS)
    return f"{_to_the_minute(minute)}:{seconds:02d}.{thousandths:03d}Z"


def format_bytes(amount: int) -> str:
    """Decimal units with at most one digit after the point: ``24 GB``, ``1.5 MB``, ``12 B``."""
    for unit, name in ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB")):
        if amount >= unit:
            return f"{amount / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{amount} B"


def format_duration_ms(duration_ms: int) -> str:
    """``850 ms``, ``12.3 s``, ``4m 05s``, ``2h 10m``."""
    if duration_ms < SECOND_MS:
        return f"{duration_ms} ms"
    if duration_ms < MINUTE_MS:
        return f"{duration_ms / SECOND_MS:.1f} s"
    minutes, seconds = divmod(duration_ms // SECOND_MS, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {seconds:02d}s"


def format_money(amount: Decimal) -> str:
    """``$0.0012`` keeps four digits below a cent; otherwise cents."""
    if amount == 0:
        return "$0.00"
    return f"${amount:.4f}" if amount < Decimal("0.10") else f"${amount:,.2f}"


@lru_cache(maxsize=1024)  # a page of workloads names hundreds of moments in few minutes
def _to_the_minute(minute: int) -> str:
    return (EPOCH + timedelta(minutes=minute)).isoformat(timespec="minutes")[:16]


def _writable(at_ms: int) -> int:
    """An offset moves the first and the last day of the calendar out of it; what is read must be writable again."""
    if not FIRST_MS <= at_ms <= LAST_MS:
        raise OutOfRange("that date is outside the years 1 to 9999 in UTC; give one of this century")
    return at_ms


def _too_much_memory(text: object) -> OutOfRange:
    return OutOfRange(f"{_shown(text)} is more memory than any machine has; write for example 24GB or 2TB")


def _too_long(text: object) -> OutOfRange:
    days = DURATION_S_MAX // 86_400
    return OutOfRange(f"{_shown(text)} is longer than a year, {days} days; write at most {days}d")


def _too_much_money(text: object) -> OutOfRange:
    return OutOfRange(f"{_shown(text)} is above the largest amount accepted; write at most {MONEY_MAX}")


def _plain(text: str | int | float | Decimal) -> str:
    if isinstance(text, bool):
        raise ValueError("a truth value is not a quantity")
    if isinstance(text, float):
        return format(Decimal(str(text)), "f")
    if isinstance(text, int) and abs(text) > 10**18:
        raise OutOfRange("the number is too large")
    return str(text).strip()


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 40 else shown[:37] + "..."
