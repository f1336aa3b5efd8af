"""How much of its GPUs' memory a running program uses, asked of nvidia-smi now and then. It bounds nothing.

One question for all attempts at a time, and none while nobody has a GPU. Where there is no nvidia-smi, or it says
nothing that can be read, nothing is known: that is not nothing used.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from placet.runner.attempt import Attempt
    from placet.runner.capacity import Capacity
    from placet.runner.loop import Loop, Timer

FIRST_S = 1.0
EVERY_S = 2.0
# A driver in trouble keeps it waiting, perhaps for ever. Then it is asked less and less often.
ANSWER_WITHIN_S = 10.0
AT_MOST_EVERY_S = 120.0
ANSWER_MAX = 65536
PROGRAM = "nvidia-smi"
QUESTION = ("--query-gpu=index,uuid,memory.used", "--format=csv,noheader,nounits")
MIB = 1048576
PEAK = "gpu_peak_bytes"


class Gauge:
    """Asks while programs with GPUs run, and notes the most of any one GPU in the usage of each attempt."""

    def __init__(self, loop: Loop, capacity: Capacity) -> None:
        self._loop = loop
        self._capacity = capacity
        self._watched: list[tuple[Attempt, str]] = []
        self._timer: Timer | None = None
        self._pid = 0
        self._pause_s = EVERY_S

    def watch(self, attempt: Attempt, path: str) -> None:
        """From now on, if it has GPUs; ``path`` is where programs are looked for."""
        if not self._capacity.devices_of(attempt.key):
            return
        program = _found(path)
        if program is None:
            return
        self._watched.append((attempt, program))
        if self._timer is None and not self._pid:
            self._timer = self._loop.later(FIRST_S, self._ask)

    def leave(self, attempt: Attempt) -> None:
        """Its program is over; idempotent."""
        self._watched = [each for each in self._watched if each[0] is not attempt]

    def _ask(self) -> None:
        self._timer = None
        if not self._watched:
            return
        program = self._watched[0][1]
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, write_end, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            pid = os.posix_spawn(program, [program, *QUESTION], {"LC_ALL": "C"}, file_actions=actions, setsid=True)
        except OSError:
            os.close(read_end)
            self._again(failed=True)
            return
        finally:
            os.close(write_end)
        self._pid = pid
        overdue = self._loop.later(ANSWER_WITHIN_S, lambda: os.killpg(pid, signal.SIGKILL))
        self._loop.child(pid, lambda status, _usage: self._answered(read_end, overdue, status))

    def _answered(self, read_end: int, overdue: Timer, status: int) -> None:
        overdue.cancel()
        self._pid = 0
        try:
            # It is over, and what it said fits into the pipe: one that says more waits, and is killed.
            said = os.read(read_end, ANSWER_MAX)
        except OSError:
            said = b""
        os.close(read_end)
        used = _used(said) if status == 0 else {}
        for attempt, _ in self._watched:
            held = [used[device.id] for device in self._capacity.devices_of(attempt.key) if device.id in used]
            if held:
                attempt.usage[PEAK] = max([*held, attempt.usage.get(PEAK, 0)])
        self._again(failed=not used)

    def _again(self, failed: bool) -> None:
        self._pause_s = min(self._pause_s * 2, AT_MOST_EVERY_S) if failed else EVERY_S
        if self._watched:
            self._timer = self._loop.later(self._pause_s, self._ask)


def _found(path: str) -> str | None:
    for folder in path.split(":"):
        program = folder + "/" + PROGRAM
        if folder and os.access(program, os.X_OK):
            return program
    return None


def _used(said: bytes) -> dict[str, int]:
    """Bytes in use by index and by id; a line that cannot be read says nothing."""
    used: dict[str, int] = {}
    for line in said.decode("ascii", "replace").splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[2].isdigit():
            used[words[0]] = used[words[1]] = int(words[2]) * MIB
    return used
