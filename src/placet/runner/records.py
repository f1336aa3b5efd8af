"""Where the runner keeps things in the data folder, and how a record gets there whole or not at all.

Records survive a killed process. They are not forced to disk: after a power loss the machine has another boot id,
nothing of what ran is left, and a record that did not reach the disk means no more than "its outcome is not known
here".
"""

from __future__ import annotations

import errno
import json
import os
import time

from placet.runner import failpoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    Json = Dict[str, Any]

FOLDER_MODE = 0o700
RECORD_BYTES_MAX = 64 * 1024 * 1024
# Kept aside so that a program that fills the disk cannot keep its own end from being recorded, here and in a database
# on the same disk; made again when this many times as much is free.
RESERVE_BYTES = 4 * 1024 * 1024
RESERVE_FREE_TIMES = 8

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def encode(document: object) -> bytes:
    """Compact ASCII JSON without a line end."""
    return _encode(document).encode("ascii")


def wall_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return int(time.time() * 1000)


class Layout:
    """The paths below one data folder."""

    def __init__(self, data: str) -> None:
        self.data = data
        self.supervisor = os.path.join(data, "supervisor")
        self.attempts = os.path.join(data, "attempts")
        self.environments = os.path.join(data, "environments")
        self.checkpoints = os.path.join(data, "checkpoints")
        self.cache = os.path.join(data, "cache")
        self.trash = os.path.join(data, "supervisor", "trash")
        self.spares = os.path.join(data, "supervisor", "spares")
        self.reserve = os.path.join(self.supervisor, "reserve")
        self.lock = os.path.join(self.supervisor, "lock")
        self.log = os.path.join(self.supervisor, "log")
        self.socket = os.path.join(self.supervisor, "sock")

    def create(self) -> None:
        """Make the folders that must exist; idempotent."""
        for folder in (
            self.data,
            self.supervisor,
            self.attempts,
            self.environments,
            self.checkpoints,
            self.trash,
            self.spares,
        ):
            os.makedirs(folder, mode=FOLDER_MODE, exist_ok=True)

    def keep_reserve(self) -> None:
        """Set some disk space aside, when there is plenty."""
        _reserves[:] = [self.reserve]
        try:
            facts = os.statvfs(self.supervisor)
            if os.path.exists(self.reserve) or facts.f_bavail * facts.f_frsize < RESERVE_BYTES * RESERVE_FREE_TIMES:
                return
            descriptor = os.open(self.reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, bytes(RESERVE_BYTES))
            finally:
                os.close(descriptor)
        except OSError:
            return

    def attempt(self, key: str) -> str:
        """The folder of one attempt; ``key`` was checked to be a plain name."""
        return os.path.join(self.attempts, key)


# The file to give up when the disk is full.
_reserves: list[str] = []


def write_record(path: str, document: object) -> None:
    """Replace ``path`` by the document, atomically for every reader."""
    write_bytes(path, encode(document))


def write_bytes(path: str, data: bytes) -> None:
    """Replace ``path`` by the bytes, atomically for every reader; a full disk costs the reserve first."""
    try:
        _replace(path, data)
    except OSError as error:
        if error.errno != errno.ENOSPC or not _give_up_reserve():
            raise
        _replace(path, data)


def _give_up_reserve() -> bool:
    for reserve in _reserves:
        try:
            os.unlink(reserve)
        except OSError:
            continue
        return True
    return False


def _replace(path: str, data: bytes) -> None:
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        # A spare file may be longer; cutting it first would make the file system write it out at once.
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
    failpoints.before(failpoints.record(path))
    os.rename(temporary, path)
    failpoints.after(failpoints.record(path))


def remove_tree(path: str) -> None:
    """Delete a folder and all below it, as far as that can be done; links are removed and not followed."""
    try:
        with os.scandir(path) as found:
            entries = list(found)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            continue
    try:
        os.rmdir(path)
    except OSError:
        return


def read_record(path: str) -> Json | None:
    """The document, or ``None`` when it is absent or was never completed."""
    try:
        with open(path, "rb") as file:
            data = file.read(RECORD_BYTES_MAX)
        document = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def placet_version() -> str:
    """The version of the Placet that these files belong to, which is not imported here; empty when unknown."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        with open(os.path.join(package, "__init__.py"), encoding="utf-8") as file:
            named = [line.split('"')[1] for line in file if line.startswith("__version__ = ")]
    except (OSError, IndexError):
        return ""
    return named[0] if named else ""


def boot_id() -> str:
    """Names this boot of the machine: after a change nothing of what ran before is alive."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown-boot"
