"""What seals secrets and opens them again."""

from typing import Protocol

from placet.domain.vault import Sealed


class CannotOpen(Exception):
    """There is no key for it, or it is not what was sealed; the message names the secret and never a value."""


class NoKey(Exception):
    """Nothing can be sealed or opened here; the message says what to set."""


class UnusableKey(Exception):
    """The key that is set cannot be used; the message never holds any of it."""


class Cipher(Protocol):
    """Sealing under the key of the deployment; what was sealed opens only as the tenant, name and version it was."""

    @property
    def key_id(self) -> str:
        """Which key new secrets are sealed under. Raises ``NoKey``."""

    def seal(self, secret: Sealed, value: bytes) -> Sealed:
        """The same with its key and body filled in. Raises ``NoKey``."""

    def open(self, secret: Sealed) -> bytes:
        """The value. Raises ``CannotOpen`` or ``NoKey``."""

    def rewrap(self, secret: Sealed) -> Sealed:
        """The same value under the current key; the body stays. Raises ``CannotOpen`` or ``NoKey``."""
