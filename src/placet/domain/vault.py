"""A secret of a tenant as it is kept: sealed. Nobody here can open it."""

from dataclasses import dataclass

# Values longer than this fit in no environment worth having.
VALUE_BYTES_MAX = 32 * 1024


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """One version of a secret. ``wrapped`` is its data key under the key ``key_id``, ``body`` the value under it."""

    tenant: str
    name: str
    version: int
    key_id: str
    wrapped: str
    body: str
    created_ms: int
    created_by: str
