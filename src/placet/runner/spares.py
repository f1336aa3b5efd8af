"""Folders of released plain attempts, kept for the next ones.

Some file systems avoid an inode for a minute after its deletion and look for another at a cost that grows with every
deletion (ext4 does), so deleting and making a thousand folders a second is far dearer than renaming them.
"""

from __future__ import annotations

import os

from placet.runner import causes, failpoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

SPARES_MAX = 512
LOG_BYTES_MAX = 1024 * 1024
RECORDS = ("launch.json", "exit.json")
NEW = ".new"
EXPECTED = frozenset([*RECORDS, "work", "logs", *(name + NEW for name in RECORDS)])
EXPECTED_LOGS = frozenset([*causes.STREAMS, *(name + NEW for name in causes.STREAMS)])


class Spares:
    """A bounded stock of empty attempt folders."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stock: list[str] = []
        self._count = 0

    def take(self, target: str) -> bool:
        """Make ``target`` of a spare; false when there is none."""
        while self._stock:
            try:
                os.rename(self._stock.pop(), target)
            except OSError:
                continue
            return True
        return False

    def put(self, folder: str) -> bool:
        """Empty and keep the folder; false, perhaps with some of its content gone, when it must be deleted instead."""
        if len(self._stock) >= SPARES_MAX:
            return False
        try:
            names = set(os.listdir(folder))
            if not names <= EXPECTED or "work" not in names or os.listdir(folder + "/work"):
                return False
            failpoints.before("runner.spare")
            for name in RECORDS:
                if name in names:
                    os.rename(folder + "/" + name, folder + "/" + name + NEW)
            if "logs" in names and not _empty_logs(folder + "/logs"):
                return False
            os.chmod(folder + "/work", 0o700)
            self._count += 1
            spare = f"{self._folder}/{os.getpid()}-{self._count}"
            os.rename(folder, spare)
            failpoints.after("runner.spare")
        except OSError:
            return False
        self._stock.append(spare)
        return True


def _empty_logs(folder: str) -> bool:
    for name in os.listdir(folder):
        path = folder + "/" + name
        if name not in EXPECTED_LOGS or os.stat(path).st_nlink > 1 or os.stat(path).st_size > LOG_BYTES_MAX:
            return False
        if not name.endswith(NEW):
            os.truncate(path, 0)
            os.rename(path, path + NEW)
    return True
