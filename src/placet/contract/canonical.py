"""The one canonical form of a spec: sorted keys, no blanks, what equals its default left out; and its digests.

Leaving defaults out keeps the digest of a spec when a later version adds fields to the domain.
"""

import hashlib
from dataclasses import MISSING, fields, replace
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from placet.domain.spec import Spec

CLIENT_REQUEST_ID = "client_request_id"

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})
_DEFAULTS: dict[type, tuple[tuple[str, object], ...]] = {}
_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(Spec)


def canonical_json(spec: Spec) -> bytes:
    """The same bytes for equal specs, on every machine and in every version that knows the fields."""
    return _ENCODER.encode(_plain(spec))


def spec_from_json(document: bytes | str) -> Spec:
    """The spec of a canonical form; it is trusted, and anything else is a fault.

    Raises:
        ValueError: the document is not a canonical form.
    """
    return _DECODER.decode(document)


def spec_digest(spec: Spec) -> str:
    """``sha256:`` and the digest of the canonical form."""
    return _digest(canonical_json(spec))


def body_digest(spec: Spec, *, deadline_after_ms: int | None = None) -> str:
    """What an idempotency key is compared by: the key itself does not count, and ``+2h`` counts as written.

    Otherwise a repeated request would differ from the first one by the time between them.
    """
    metadata = tuple(pair for pair in spec.metadata if pair[0] != CLIENT_REQUEST_ID)
    plain = _plain(replace(spec, metadata=metadata))
    if deadline_after_ms is not None:
        plain["constraints"] = {**plain.get("constraints", {}), "deadline_ms": f"+{deadline_after_ms}"}
    return _digest(_ENCODER.encode(plain))


def client_request_id(spec: Spec) -> str | None:
    """The idempotency key that came with the spec itself."""
    return dict(spec.metadata).get(CLIENT_REQUEST_ID)


def _digest(encoded: bytes) -> str:
    return "sha256:" + hashlib.sha256(encoded).hexdigest()


def _defaults(kind: type) -> tuple[tuple[str, object], ...]:
    """The names of a dataclass and what each is when nobody says."""
    known = _DEFAULTS.get(kind)
    if known is None:
        known = _DEFAULTS[kind] = tuple(
            (field.name, field.default if field.default_factory is MISSING else field.default_factory())
            for field in fields(kind)
        )
    return known


def _plain(value: object) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return str(value)
    plain = {}
    for name, default in _defaults(kind):
        held = getattr(value, name)
        if held is not default and held != default:
            plain[name] = _plain(held)
    return plain
