"""Adds up what an attempt has written, a bounded piece at a time, so that a huge tree does not stop the loop."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

ENTRIES_PER_STEP = 2000


class Tally:
    """One pass over some folders; symbolic links are not followed, holes in files are not counted."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._pending: list[str] = list(folders)
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
            except OSError:
                continue
            if entries <= 0 and self._pending:
                return None
        return self.total_bytes

    def _add(self, entry: os.DirEntry[str]) -> None:
        try:
            if entry.is_dir(follow_symlinks=False):
                self._pending.append(entry.path)
            else:
                self.total_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            return
