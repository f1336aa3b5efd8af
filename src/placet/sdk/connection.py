"""Settles where a client connects to, and starts the server of the data folder where that is wanted."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placet.sdk import places
from placet.sdk.location import Location, checked_url, locate
from placet.sdk.starting import ensure_server


@dataclass(frozen=True, kw_only=True)
class Connection:
    """An address, and what to do when nobody is there any more."""

    location: Location
    revive: Callable[[], None] | None = None


def connect(
    *,
    url: str | None = None,
    token: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    start: bool = True,
) -> Connection:
    """The connection for what was said, the environment filling in the rest.

    Raises:
        Unreachable: the server of the data folder could not be started.
        BadLocation: the address or the token cannot be used.
    """
    if url is not None:
        return Connection(location=Location(url=checked_url(url), token=token or os.environ.get("PLACET_TOKEN")))
    if data_dir is None and os.environ.get("PLACET_URL"):
        found = locate(os.environ)
        return Connection(location=Location(url=found.url, token=token or found.token))
    data = places.data_dir(os.environ) if data_dir is None else Path(data_dir).expanduser().absolute()
    if start:
        ensure_server(data)
    found = locate(os.environ, data)
    location = Location(url=found.url, token=token or found.token, socket=found.socket)
    return Connection(location=location, revive=(lambda: ensure_server(data)) if start else None)
