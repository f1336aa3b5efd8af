"""From the texts of one row to a listing. A row that cannot be read is still a listing, and says why."""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from placet.domain.listings import Listing, MemoryUnit
from placet.domain.offers import Availability, Trust
from placet.domain.units import parse_instant_ms

DIGITS_MAX = 40
MAGNITUDE_MAX = 15
TEXT_MAX = 1000


def number(text: str) -> Decimal | None:
    """A number, perhaps with a dollar sign; ``None`` for nothing. Raises ``ValueError``."""
    plain = text.strip().lstrip("$")
    if not plain:
        return None
    try:
        value = Decimal(plain) if len(plain) <= DIGITS_MAX else Decimal("nan")
    except InvalidOperation:
        value = Decimal("nan")
    # An exponent of a billion would be computed with for ever.
    if not value.is_finite() or abs(value.adjusted()) > MAGNITUDE_MAX:
        raise ValueError(f"{text[:DIGITS_MAX]!r} is not a number of reasonable size")
    return value


def whole(text: str) -> int | None:
    """A whole number. Raises ``ValueError``."""
    value = number(text)
    if value is not None and value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return None if value is None else int(value)


def _truth(text: str) -> bool:
    if text.lower() not in ("", "true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"{text[:DIGITS_MAX]!r} is neither true nor false")
    return text.lower() in ("true", "yes", "1")


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _one_of(kind: Callable[[str], Any], known: tuple[str, ...]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text.lower() not in known:
            raise ValueError(f"{text[:DIGITS_MAX]!r} is none of {', '.join(known)}")
        return kind(text.lower())

    return read


def _instant_ms(text: str) -> int:
    if text.startswith("+"):
        raise ValueError("a price of the future is none")
    return parse_instant_ms(text, now_ms=0)


# The columns of an operator's own list: the field of a listing that each one is, and how it is read.
COLUMNS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "provider": ("provider", str),
    "instance": ("machine", str),
    "region": ("region", str),
    "jurisdiction": ("jurisdiction", str),
    "gpu_name": ("gpu_name", str),
    "gpu_count": ("gpu_count", whole),
    "gpu_memory": ("gpu_memory", number),
    "gpu_memory_unit": ("gpu_memory_unit", _one_of(MemoryUnit, tuple(MemoryUnit))),
    "interconnect": ("interconnect", str),
    "vcpus": ("vcpus", number),
    "memory_gb": ("memory_gb", number),
    "disk_gb": ("disk_gb", number),
    "currency": ("currency", str),
    "price_usd_per_hour": ("price_usd_per_hour", number),
    "spot_usd_per_hour": ("spot_usd_per_hour", number),
    "minimum_charge_usd": ("minimum_charge_usd", number),
    "billing_quantum_s": ("billing_quantum_s", whole),
    "startup_s": ("startup_s", number),
    "startup_p90_s": ("startup_p90_s", number),
    "availability": ("availability", _one_of(Availability, tuple(Availability))),
    "trust": ("trust", _one_of(Trust, tuple(Trust))),
    "serverless": ("serverless", _truth),
    "private": ("private", _truth),
    "runtimes": ("runtimes", _texts),
    "compliance": ("compliance", _texts),
    "observed_at": ("observed_ms", _instant_ms),
}


def listing_of(row: Mapping[str, str], *, source: str, part: str, line: int, observed_ms: int) -> Listing:
    """The listing that a row of texts describes; an empty text says nothing."""
    values: dict[str, Any] = {"observed_ms": observed_ms}
    wrong = [f"there is no column {name[:DIGITS_MAX]!r}" for name in row if name not in COLUMNS]
    for name, (field, read) in COLUMNS.items():
        # JSON can hold half of a character, which no answer of ours could repeat.
        text = (row.get(name) or "").strip()[:TEXT_MAX].encode("utf-8", "replace").decode()
        if not text:
            continue
        try:
            values[field] = read(text)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    named = {"provider": values.pop("provider", ""), "machine": values.pop("machine", "")}
    return Listing(source=source, part=part, line=line, unreadable="; ".join(wrong), **named, **values)
