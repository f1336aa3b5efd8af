"""Where things are on this machine: the data folder, its socket and its token. It reads no file but the settings'."""

import hashlib
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

SOCKET_NAME = "server.sock"
OWN_CREDENTIAL_NAME = "token"
LOCK_NAME = "server.lock"
# The first line of a lock file that says which settings its server read.
STAMPED = "settings:"
# The kernel keeps 108 bytes for a socket's path, the closing zero included.
LONGEST_SOCKET_PATH_BYTES = 107


def data_dir(environment: Mapping[str, str]) -> Path:
    """``PLACET_DATA_DIR``, else ``data_dir`` of the settings file, else ``placet`` under the user's data folder."""
    named = environment.get("PLACET_DATA_DIR") or _set_data_dir(config_path(environment))
    if named:
        return Path(named).expanduser().absolute()
    return Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser().absolute() / "placet"


def _set_data_dir(settings: Path) -> str | None:
    """What the settings file says; a file that cannot be read as settings is told of by whoever needs all of it."""
    try:
        found = tomllib.loads(settings.read_text("utf-8")).get("data_dir")
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def config_path(environment: Mapping[str, str]) -> Path:
    """``PLACET_CONFIG``, else ``placet.toml`` in the user's configuration folder; it need not exist."""
    named = environment.get("PLACET_CONFIG")
    if named:
        return Path(named).expanduser().absolute()
    return Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser().absolute() / "placet" / "placet.toml"


def stamp(settings: Path) -> str:
    """The digest of a settings file and its path, so that two can be told apart; empty when it cannot be read."""
    try:
        return f"{hashlib.sha256(settings.read_bytes()).hexdigest()[:16]} {settings}"
    except OSError:
        return ""


def server_stamp(data: Path) -> str | None:
    """The stamp of the settings that the server of a data folder was started with; ``None`` when it left none.

    What it says is true only while that server answers.
    """
    try:
        text = lock_path(data).read_text("utf-8", errors="replace")
    except OSError:
        return None
    first, _, rest = text.partition("\n")
    return rest.rstrip("\n") if first == STAMPED else None


def socket_path(data: Path) -> Path:
    """The server's unix socket: inside the data folder, or in a short private folder when that path is too long."""
    inside = data / SOCKET_NAME
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_PATH_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"placet-{os.getuid()}" / f"{digest}.sock"


def token_path(data: Path) -> Path:
    """The file with the token of the person who owns the data folder."""
    return data / OWN_CREDENTIAL_NAME


def lock_path(data: Path) -> Path:
    """The file whose lock the one server of a data folder holds."""
    return data / LOCK_NAME
