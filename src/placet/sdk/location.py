"""Which server a client speaks to: the one that is named, else that of the data folder on this machine."""

import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from placet.sdk import places
from placet.sdk.errors import ClientError

# The host part of a URL over a unix socket; it resolves nowhere.
SOCKET_HOST = "http://placet"


class BadLocation(ClientError):
    """The server's address or the token cannot be used."""

    code = "bad_location"
    fix = "check --url and PLACET_URL"


@dataclass(frozen=True, kw_only=True)
class Location:
    """An address and the token for it; ``socket`` is set for a server on this machine."""

    url: str
    token: str | None = None
    socket: Path | None = None

    def __repr__(self) -> str:
        return f"Location({self.socket or self.url})"


def locate(environment: Mapping[str, str], data_dir: Path | None = None) -> Location:
    """``PLACET_URL`` with ``PLACET_TOKEN``, else the socket and the token file of the data folder.

    Raises:
        BadLocation: the URL is none, or would send the token in the clear over a network.
    """
    url = environment.get("PLACET_URL")
    if url and data_dir is None:
        return Location(url=checked_url(url), token=environment.get("PLACET_TOKEN"))
    data = data_dir or places.data_dir(environment)
    return Location(
        url=SOCKET_HOST, token=environment.get("PLACET_TOKEN") or read_token(data), socket=places.socket_path(data)
    )


def checked_url(url: str) -> str:
    """The URL, without a slash at its end."""
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadLocation(f"{url!r} is not an http or https URL", "write for example https://placet.example")
    if parts.username or parts.password:
        raise BadLocation("a server's URL carries no user name or password", "put the token into PLACET_TOKEN")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise BadLocation(f"{url!r} would send the token in the clear", "use https")
    return url.rstrip("/")


def _parts(url: str) -> SplitResult | None:
    """Nothing for what is no URL at all, or none that can be connected to: half an address, a port that is none."""
    import httpx  # only where an address is given: a command finds the socket of this machine without it

    try:
        httpx.URL(url)
        parts = urlsplit(url)
        return None if parts.port == 0 else parts
    except (ValueError, httpx.InvalidURL):
        return None


def read_token(data: Path) -> str | None:
    """The owner's token; ``None`` when there is none yet.

    Raises:
        BadLocation: others can read the file.
    """
    path = places.token_path(data)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise BadLocation(
            f"{path} belongs to somebody else", "use a data folder of your own: --data-dir or PLACET_DATA_DIR"
        ) from error
    if mode & 0o077:
        raise BadLocation(f"{path} can be read by others", f"run `chmod 600 {path}` after revoking its token")
    return text or None


def answers(path: Path) -> bool:
    """Does a server listen on this socket now?"""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    if owner != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
