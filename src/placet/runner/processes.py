"""What the process table can tell where there are no control groups: who belongs to an attempt.

Three marks are looked at: the session its main process leads, the chain of parents, and the environment it was given.
None is proof against a program that wants to escape; a control group is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MARKER = "PLACET_ATTEMPT_KEY"
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Let orphans of our descendants become our children, so that a daemon cannot slip away to process 1."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def ticks_now() -> int:
    """The time in which the process table counts starts: clock ticks since the machine came up."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def belonging(key: str, session: int, ended_ticks: int | None) -> list[int]:
    """Living processes of the attempt: of its session, descended from one of those, or carrying its mark.

    ``ended_ticks`` is when its main process was reaped: after that its number, and so the number of its session, may be
    given to a stranger, who is known by having started later.
    """
    parents: dict[int, int] = {}
    found: set[int] = set()
    mark = (MARKER + "=" + key).encode("ascii")
    for pid, state, parent, sid, began_ticks in _table():
        if state in "ZX" or pid == os.getpid():
            continue
        parents[pid] = parent
        in_session = sid == session and (ended_ticks is None or began_ticks <= ended_ticks)
        if in_session or mark in _environment(pid):
            found.add(pid)
    grown = True
    while grown:
        grown = False
        for pid, parent in parents.items():
            if parent in found and pid not in found:
                found.add(pid)
                grown = True
    return sorted(found)


def marked() -> dict[str, list[int]]:
    """Every living process that carries the mark of any attempt, by its key."""
    found: dict[str, list[int]] = {}
    prefix = (MARKER + "=").encode("ascii")
    for pid, state, _, _, _ in _table():
        if state not in "ZX" and pid != os.getpid():
            for entry in _environment(pid):
                if entry.startswith(prefix):
                    found.setdefault(entry[len(prefix) :].decode("ascii", "replace"), []).append(pid)
    return found


def threads_of_user() -> int:
    """How many threads this user has on the machine now."""
    count = 0
    mine = os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat("/proc/" + name).st_uid == mine:
                    count += len(os.listdir("/proc/" + name + "/task"))
    return count


def kill(pids: list[int]) -> None:
    """SIGKILL to each; a dead one is no error."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _table() -> Iterator[tuple[int, str, int, int, int]]:
    """Number, state, parent, session and start of every process."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            yield int(name), fields[0].decode("ascii"), int(fields[1]), int(fields[3]), int(fields[19])


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read(1024 * 1024).split(b"\0")
    except OSError:
        return []
