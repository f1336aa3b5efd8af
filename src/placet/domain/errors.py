"""The exception tree. Expected refusals are values, not exceptions; what stands here is a fault or a caller's mistake.

PlacetError
├── ForbiddenMove          a bug: a state move outside the table
├── StoreError             the store did not do what was asked
│   ├── StoreBusy          try again, nothing was written
│   ├── StoreUnknown       it broke off at the commit; written or not, look before anything else
│   └── SchemaMismatch     the database belongs to another version
├── CatalogUnreadable      a source of listings gave none; what it gave before still counts
└── ProviderError          a provider call failed
    ├── InvalidRequest     never retry the same request
    ├── AuthFailed         the provider is unusable until an operator acts
    ├── QuotaExceeded      another provider or region may do
    ├── NoCapacity         try elsewhere or later; nothing was spent
    ├── RateLimited        try later
    ├── Unavailable        surely not carried out
    └── OutcomeUnknown     may or may not have been carried out; look before anything else
"""


class PlacetError(Exception):
    """Something in Placet went wrong; the message says what."""


class ForbiddenMove(PlacetError):
    """A state move that the table does not allow was attempted."""


class StoreError(PlacetError):
    """The store did not do what was asked."""


class StoreBusy(StoreError):
    """The store is busy; nothing was written and the same request may be repeated."""


class StoreFull(StoreBusy):
    """The disk of the store has no room; nothing was written."""


class StoreUnknown(StoreError):
    """The store broke off while it was committing; all that was asked is written or nothing, nobody knows which."""


class SchemaMismatch(StoreError):
    """The database was made by another version; run the migrations or use the matching version."""


class CatalogUnreadable(PlacetError):
    """A source of listings could not be read; ``fix`` says what would help."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class ProviderError(PlacetError):
    """A provider call failed. ``unheard``: no table knows what the provider said, which is in ``raw``."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        raw: str = "",
        retry_after_s: float | None = None,
        unheard: bool = False,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.raw = raw
        self.retry_after_s = retry_after_s
        self.unheard = unheard


class InvalidRequest(ProviderError):
    """The provider refuses this request for what it says; repeating it cannot help."""


class AuthFailed(ProviderError):
    """The provider does not accept our credentials."""


class QuotaExceeded(ProviderError):
    """The account may not have more of this."""


class NoCapacity(ProviderError):
    """The provider has none free now; nothing was created."""


class RateLimited(ProviderError):
    """The provider asks us to slow down; nothing was done."""


class Unavailable(ProviderError):
    """The provider could not be reached; the request was surely not carried out."""


class OutcomeUnknown(ProviderError):
    """The request was sent and its outcome is not known."""
