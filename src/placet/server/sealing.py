"""What a server makes sure of about the key for secrets before it serves."""

from collections.abc import Callable

from placet.engine.vault import Vault
from placet.ports.vault import NoKey, UnusableKey
from placet.server.serve import CannotServe, Listening


def check_key(check: Callable[[str | None], None], listening: Listening) -> None:
    """A key that is set can be used, and where others can come in there is one. Raises ``CannotServe``."""
    try:
        check(listening.host if listening.exposed else None)
    except UnusableKey as error:
        raise CannotServe(f"the key for secrets cannot be used: {error}") from error


async def rewrap(vault: Vault) -> None:
    """What is sealed under a former key is brought under the current one. Raises ``CannotServe``."""
    try:
        await vault.rewrap()
    except NoKey as error:
        raise CannotServe(f"secrets are kept in this database and the key for them is missing: {error}") from error
