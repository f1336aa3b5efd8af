"""Keeps the checkpoint folders of workloads that resume, and lets go of those that nobody used for a long time.

When the last attempt of a workload has ended nothing here knows whether another follows, so only time tells.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Collection

# What is left over is for the next time.
PRUNED_AT_ONCE = 500
DAY_S = 86400.0


def used(folder: str, workload_id: str) -> None:
    """The time of this workload's checkpoints counts from now."""
    with contextlib.suppress(OSError):
        os.utime(os.path.join(folder, workload_id))


def prune(folder: str, oldest_s: float, known: Collection[str], discard: Callable[[str], bool]) -> int:
    """Give to ``discard`` what was last used before ``oldest_s`` (seconds since 1970) and is no ``known`` workload's.

    Gives how many folders it took.
    """
    gone = 0
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if gone == PRUNED_AT_ONCE:
                break
            if entry.name not in known and _last_use_s(entry) < oldest_s and discard(entry.path):
                gone += 1
    return gone


def _last_use_s(entry: os.DirEntry[str]) -> float:
    """Of the folder, and of what stands in it: a program may write into one file for days."""
    try:
        last_s = entry.stat(follow_symlinks=False).st_mtime
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry.path) as inside:
                return max([last_s, *(each.stat(follow_symlinks=False).st_mtime for each in inside)])
    except OSError:
        # Gone in this moment, or not ours to read: not ours to remove.
        return float("inf")
    return last_s
