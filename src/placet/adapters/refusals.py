"""From what a failed call means to the error that the port raises. The tables of each provider are its own."""

from collections.abc import Mapping

from placet.domain.allocations import ErrorKind
from placet.domain.errors import (
    AuthFailed,
    InvalidRequest,
    NoCapacity,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)

ERRORS: Mapping[ErrorKind, type[ProviderError]] = {
    ErrorKind.INVALID_REQUEST: InvalidRequest,
    ErrorKind.AUTH: AuthFailed,
    ErrorKind.QUOTA: QuotaExceeded,
    ErrorKind.NO_CAPACITY: NoCapacity,
    ErrorKind.RATE_LIMITED: RateLimited,
    ErrorKind.UNAVAILABLE: Unavailable,
    ErrorKind.OUTCOME_UNKNOWN: OutcomeUnknown,
}


def provider_error(
    kind: ErrorKind,
    message: str,
    *,
    provider: str,
    raw: str = "",
    retry_after_s: float | None = None,
    unheard: bool = False,
) -> ProviderError:
    """The error of that kind, with the provider's own words in ``raw``; ``unheard`` when no table knows them."""
    return ERRORS[kind](message, provider=provider, raw=raw, retry_after_s=retry_after_s, unheard=unheard)
