"""Adds up what an attempt has written, a bounded piece at a time, so that a huge tree does not stop the loop."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

ENTRIES_PER_STEP = 2000


class Tally:
    """One pass over some folders; symbolic links are not followed, holes in files are not counted."""

    def __init__(self, folders: Sequence[str], entries_left: int | None = None) -> None:
        self._pending: list[str] = list(folders)
        self._entries_left = entries_left
        self.total_bytes = 0

    def step(self, entries: int = ENTRIES_PER_STEP) -> int | None:
        """Look at some more entries; the sum when everything was seen, else ``None``."""
        while self._pending:
            folder = self._pending.pop()
            try:
                with os.scandir(folder) as found:
                    for entry in found:
                        entries -= 1
                        self._add(entry)
                        if self._spent():
                            self._pending.clear()
                            return self.total_bytes
            except OSError:
                continue
            if entries <= 0 and self._pending:
                return None
        return self.total_bytes

    def _spent(self) -> bool:
        """Whether as much was looked at as was to be looked at in all."""
        if self._entries_left is None:
            return False
        self._entries_left -= 1
        return self._entries_left <= 0

    def _add(self, entry: os.DirEntry[str]) -> None:
        try:
            if entry.is_dir(follow_symlinks=False):
                self._pending.append(entry.path)
            else:
                self._file(entry.stat(follow_symlinks=False))
        except OSError:
            return

    def _file(self, facts: os.stat_result) -> None:
        self.total_bytes += facts.st_blocks * 512


class CutFiles(Tally):
    """The same way through folders, for files that a bound on their length cut: exactly as long as it (holes count),
    and written to since then. A longer one was written by somebody whom the bound does not hold.
    """

    def __init__(self, folders: Sequence[str], length_bytes: int, since_s: float, entries_left: int) -> None:
        super().__init__(folders, entries_left)
        self._length_bytes = length_bytes
        self._since_s = since_s
        self.count = 0

    def _file(self, facts: os.stat_result) -> None:
        cut = facts.st_size == self._length_bytes and facts.st_mtime >= self._since_s
        self.count += cut and stat.S_ISREG(facts.st_mode)
