"""The memory group that somebody else put this process into: it proves that the kernel killed for lack of memory.

Nothing is limited here; the machine's own manager does that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    Candidates = List[Tuple[str, str]]

ROOT = "/sys/fs/cgroup"
KILLS = "oom_kill"


class Ambient:
    """The group of this process, by whichever version of control groups counts kills in it."""

    def __init__(self, mounts: str = "/proc/self/mountinfo", own: str = "/proc/self/cgroup") -> None:
        self._files = [path for path in _candidates(_read(mounts), _read(own)) if _count(path) is not None]
        self.before = self.oom_kills()

    @property
    def known(self) -> bool:
        """Whether any group tells of kills."""
        return bool(self._files)

    def oom_kills(self) -> int:
        """How often the kernel killed in it for lack of memory, ever."""
        return max([_count(path) or 0 for path in self._files] or [0])

    def oom_kills_since_start(self) -> int:
        """The same since this process began."""
        return self.oom_kills() - self.before


def _candidates(mounts: str, own: str) -> list[str]:
    """The files that count, in the groups of this process, as they are seen from inside its mounts."""
    found = []
    for line in own.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for root, mount in _roots(mounts, "" if number == "0" else "memory"):
            if number == "0" or "memory" in names.split(","):
                inner = path[len(root) :] if root != "/" and path.startswith(root) else path
                folder = mount + ("" if inner in ("", "/") else inner)
                found += [folder + "/memory.events", folder + "/memory.oom_control"]
    return found


def _roots(mounts: str, controller: str) -> Candidates:
    """Root and place of each mount of version 2, or of one controller of version 1."""
    found = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) < 5 or len(tail) < 3:
            continue
        if (tail[0] == "cgroup2" and not controller) or (
            tail[0] == "cgroup" and controller and controller in tail[2].split(",")
        ):
            found.append((fields[3], fields[4]))
    return found


def _count(path: str) -> int | None:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == KILLS and value.strip().isdigit():
            return int(value)
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
