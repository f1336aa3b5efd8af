"""Control groups: one per attempt, made from whatever this machine offers (version 1, version 2, both in one, or none).

A group bounds memory, processes and processor time, proves an out-of-memory kill, and reaches every descendant when the
attempt must end. It knows nothing of attempts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

KILL = "kill"
MEMORY = "memory"
PIDS = "pids"
CPU = "cpu"
PERIOD_US = 100_000
POOL_MAX = 256
STRAY_AGE_S = 60.0
VISITS_TRIED = 5
VISIT_MOST_S = 0.0005
UNLIMITED_V1 = "-1"


class Group:
    """One group; ``folders`` maps what it does to the folder that does it."""

    __slots__ = ("folders", "index", "join", "members_file", "oom_before", "pooled", "processes")

    def __init__(self, index: int, folders: dict[str, str], members_of: str, pooled: bool) -> None:
        self.index = index
        self.processes = 0
        self.folders = folders
        self.pooled = pooled
        distinct = sorted(set(folders.values()))
        # Descriptors are kept: a new process writes itself into them without a path look-up.
        self.join = [os.open(folder + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in distinct]
        self.members_file = os.open(folders[members_of] + "/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC)
        self.oom_before = self.oom_kills()

    def limit_processes(self, most: int) -> None:
        """Bound the number of processes. Raises ``OSError`` when the group is not there."""
        if PIDS in self.folders and self.processes != most:
            _write(self.folders[PIDS] + "/pids.max", str(most))
            self.processes = most

    def members(self) -> list[int]:
        """Every process in the group that is not yet dead."""
        data = b""
        while True:
            try:
                piece = os.pread(self.members_file, 65536, len(data))
            except OSError:
                # Somebody removed the group, which the kernel allows for empty ones only.
                return []
            data += piece
            if len(piece) == 0:
                return [int(line) for line in data.split()]

    def kill(self) -> None:
        """SIGKILL to every member, also to those that fork in this moment."""
        folder = self.folders.get(KILL)
        if folder is not None:
            with contextlib.suppress(OSError):
                _write(folder + "/cgroup.kill", "1")
                return
        if PIDS in self.folders:
            # No new process can be made from here on, so the loop below ends.
            with contextlib.suppress(OSError):
                _write(self.folders[PIDS] + "/pids.max", "0")
                self.processes = 0
        for pid in self.members():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """A signal to every present member."""
        for pid in self.members():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def oom_kills(self) -> int:
        """How often the kernel killed for lack of memory in this group, ever."""
        folder = self.folders.get(MEMORY)
        if folder is None:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            for key, value in _pairs(folder + "/" + name):
                if key == "oom_kill":
                    return value
        return 0

    def oom_kills_since_start(self) -> int:
        """The same since the group was given out: the proof of an out-of-memory end."""
        return self.oom_kills() - self.oom_before

    def peak_memory_bytes(self) -> int | None:
        """The highest memory use, where a memory group exists."""
        folder = self.folders.get(MEMORY)
        if folder is None:
            return None
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            text = _read(folder + "/" + name)
            if text:
                return int(text)
        return None

    def close(self) -> None:
        """Give back the descriptors."""
        for descriptor in [*self.join, self.members_file]:
            os.close(descriptor)
        self.join = []

    def remove(self) -> bool:
        """Remove the folders; false while the kernel still holds one."""
        gone = True
        for folder in set(self.folders.values()):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                gone = False
        return gone


class Groups:
    """Hands out groups and takes them back."""

    def __init__(self, data: str, enabled: bool = True) -> None:
        # The folder's own identity: two data folders never share groups, and a restart finds its own again.
        facts = os.stat(data)
        self._parent = f"placet-{facts.st_dev:x}-{facts.st_ino:x}"
        self.version, self._bases = _detect(self._parent) if enabled else ("none", {})
        self._count = 0
        # Groups with another mark were made by an earlier supervisor.
        self._mark = f"g{os.getpid()}-{time.monotonic_ns():x}"
        # A group of our own in each folder says that its maker lives: others remove folders that nobody marks.
        self._marks = [f"{base}/{self._mark}-0" for base in sorted(set(self._bases.values()))]
        for folder in self._marks:
            os.makedirs(folder, 0o755, exist_ok=True)
        self._pool: list[Group] = []
        self._dead: list[Group] = []
        self._home = [] if not self.usable else _home({KILL, PIDS} & set(self._bases))
        self.visits = bool(self._home) and self._can_visit()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What groups can do here."""
        return tuple(sorted(self._bases))

    @property
    def usable(self) -> bool:
        """Whether an attempt can be put into a group at all."""
        return KILL in self._bases or PIDS in self._bases

    def acquire(self, memory_bytes: int | None, cpu_cores: float | None, processes: int) -> Group | None:
        """A group with these limits, or ``None`` when groups cannot be had."""
        if not self.usable:
            return None
        light = memory_bytes is None and cpu_cores is None
        group = self._pooled(processes) if light else None
        if group is None:
            group = self._create(memory_bytes is not None, cpu_cores is not None, light)
            group.limit_processes(processes)
        if memory_bytes is not None and MEMORY in group.folders:
            _limit_memory(group.folders[MEMORY], memory_bytes)
        if cpu_cores is not None and CPU in group.folders:
            _limit_cpu(group.folders[CPU], cpu_cores)
        return group

    def enter(self, group: Group) -> None:
        """Move this very process into the group, so that what it starts next is born there."""
        for descriptor in group.join:
            os.write(descriptor, b"0")

    def leave(self) -> None:
        """Move back. Raises ``OSError``; then this process must not go on, a kill of the group would be its own."""
        for descriptor in self._home:
            os.write(descriptor, b"0")

    def _can_visit(self) -> bool:
        """Whether moving there and back works and is cheap; on some kernels each move waits for milliseconds."""
        group = self.acquire(None, None, 64)
        if group is None:
            return False
        try:
            taken_s = min(self._timed_visit(group) for _ in range(VISITS_TRIED))
            stayed = os.getpid() in group.members()
        except OSError:
            with contextlib.suppress(OSError):
                self.leave()
            return False
        self.give_back(group)
        return not stayed and taken_s < VISIT_MOST_S

    def _timed_visit(self, group: Group) -> float:
        began_s = time.perf_counter()
        self.enter(group)
        self.leave()
        return time.perf_counter() - began_s

    def give_back(self, group: Group) -> None:
        """Take back a group without members."""
        if group.pooled and len(self._pool) < POOL_MAX:
            self._pool.append(group)
            return
        group.close()
        self._dead.append(group)
        self.sweep()

    def sweep(self) -> bool:
        """Remove what could not be removed before; true when nothing is left to remove."""
        self._dead = [group for group in self._dead if not group.remove()]
        return not self._dead

    def remove_strays(self) -> None:
        """Remove empty groups of supervisors that died and whose data folder nobody uses any more."""
        for base in set(self._bases.values()):
            place, own = os.path.split(base)
            for name in _subfolders(place):
                folder = os.path.join(place, name)
                if name.startswith("placet-") and name != own and _is_stray(folder):
                    for inner in _subfolders(folder):
                        with contextlib.suppress(OSError):
                            os.rmdir(os.path.join(folder, inner))
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)

    def kill_leftovers(self) -> bool:
        """Kill everything in groups of an earlier supervisor and remove them; false while something lives."""
        empty = True
        for base in set(self._bases.values()):
            for name in _subfolders(base):
                if name.startswith(self._mark):
                    continue
                folder = os.path.join(base, name)
                with contextlib.suppress(OSError):
                    _write(folder + "/cgroup.kill", "1")
                for pid in (_read(folder + "/cgroup.procs") or "").split():
                    with contextlib.suppress(OSError):
                        os.kill(int(pid), signal.SIGKILL)
                try:
                    os.rmdir(folder)
                except OSError:
                    empty = False
        return empty

    def close(self) -> None:
        """Remove everything that can be removed."""
        for descriptor in self._home:
            os.close(descriptor)
        self._home = []
        for group in self._pool:
            group.close()
            group.remove()
        self._pool = []
        self.sweep()
        for folder in [*self._marks, *set(self._bases.values())]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _pooled(self, processes: int) -> Group | None:
        while self._pool:
            group = self._pool.pop()
            try:
                group.limit_processes(processes)
            except OSError:
                # Somebody removed it, which the kernel allows for empty groups only.
                group.close()
                continue
            return group
        return None

    def _create(self, memory: bool, cpu: bool, pooled: bool) -> Group:
        self._count += 1
        wanted = [KILL, PIDS] + ([MEMORY] if memory else []) + ([CPU] if cpu else [])
        folders = {}
        for kind in wanted:
            if kind in self._bases:
                folder = f"{self._bases[kind]}/{self._mark}-{self._count}"
                os.makedirs(folder, 0o755, exist_ok=True)
                folders[kind] = folder
        return Group(self._count, folders, KILL if KILL in folders else PIDS, pooled)


def _is_stray(folder: str) -> bool:
    """Whether every group in it was made by a process that is dead, and none of this is recent."""
    try:
        if time.time() - os.stat(folder).st_mtime < STRAY_AGE_S:
            return False
    except OSError:
        return False
    for name in _subfolders(folder):
        pid = name.lstrip("g").split("-")[0]
        if not pid.isdigit() or os.path.exists("/proc/" + pid):
            return False
    return True


def _home(kinds: set[str]) -> list[int]:
    """Descriptors through which this process gets back to the groups it was started in."""
    mounts, own = _mounts(), _own_paths()
    found = []
    for kind in sorted(kinds):
        name = "" if kind == KILL or kind not in mounts else kind
        path = own.get(name, "/")
        folder = mounts.get(name, "") + ("" if path == "/" else path)
        try:
            found.append(os.open(folder + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in found:
                os.close(descriptor)
            return []
    return found


def _detect(parent: str) -> tuple[str, dict[str, str]]:
    """The version in use, and per ability the folder below which groups can be made."""
    mounts = _mounts()
    own = _own_paths()
    bases: dict[str, str] = {}
    version = "none"
    if "" in mounts:
        base = _usable_base(mounts[""], own.get("", "/"), parent)
        if base is not None:
            version = "v2"
            bases[KILL] = base
            for kind in _enable_v2(base):
                bases[kind] = base
    for kind in (MEMORY, PIDS, CPU):
        if kind in mounts and kind not in bases:
            base = _usable_base(mounts[kind], own.get(kind, "/"), parent)
            if base is not None:
                version = "v1+v2" if KILL in bases else "v1"
                bases[kind] = base
    if KILL in bases and not _has_kill(bases[KILL]) and PIDS in bases:
        del bases[KILL]
    return version, bases


def _usable_base(mount: str, own: str, parent: str) -> str | None:
    for place in (mount + ("" if own == "/" else own), mount):
        folder = os.path.join(place, parent)
        try:
            os.makedirs(folder, exist_ok=True)
            probe = os.path.join(folder, f"probe-{os.getpid()}")
            os.mkdir(probe)
            os.rmdir(probe)
        except OSError:
            continue
        return folder
    return None


def _has_kill(base: str) -> bool:
    return os.path.exists(base + "/cgroup.kill")


def _enable_v2(base: str) -> list[str]:
    """Switch on controllers for the groups below ``base``; what the machine does not delegate stays off."""
    available = (_read(base + "/cgroup.controllers") or "").split()
    above = os.path.dirname(base)
    if not {MEMORY, PIDS, CPU} & set(available):
        for kind in (MEMORY, PIDS, CPU):
            with contextlib.suppress(OSError):
                _write(above + "/cgroup.subtree_control", "+" + kind)
        available = (_read(base + "/cgroup.controllers") or "").split()
    enabled = []
    for kind in (MEMORY, PIDS, CPU):
        if kind in available:
            with contextlib.suppress(OSError):
                _write(base + "/cgroup.subtree_control", "+" + kind)
                enabled.append(kind)
    return enabled


def _mounts() -> dict[str, str]:
    """Mount points by controller; the empty name is version 2."""
    found: dict[str, str] = {}
    for line in (_read("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) < 5 or len(tail) < 3:
            continue
        if tail[0] == "cgroup2":
            found.setdefault("", fields[4])
        elif tail[0] == "cgroup":
            for option in tail[2].split(","):
                if option in (MEMORY, PIDS, CPU):
                    found.setdefault(option, fields[4])
    return found


def _own_paths() -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in (_read("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):
            paths[name] = path
    return paths


def _limit_memory(folder: str, memory_bytes: int) -> None:
    if os.path.exists(folder + "/memory.max"):
        _write(folder + "/memory.max", str(memory_bytes))
        with contextlib.suppress(OSError):
            _write(folder + "/memory.swap.max", "0")
        with contextlib.suppress(OSError):
            _write(folder + "/memory.oom.group", "1")
        return
    _write(folder + "/memory.limit_in_bytes", str(memory_bytes))
    with contextlib.suppress(OSError):
        _write(folder + "/memory.memsw.limit_in_bytes", str(memory_bytes))


def _limit_cpu(folder: str, cores: float) -> None:
    quota = max(1000, int(cores * PERIOD_US))
    if os.path.exists(folder + "/cpu.max"):
        _write(folder + "/cpu.max", f"{quota} {PERIOD_US}")
        return
    _write(folder + "/cpu.cfs_period_us", str(PERIOD_US))
    _write(folder + "/cpu.cfs_quota_us", str(quota))


def _subfolders(base: str) -> list[str]:
    try:
        with os.scandir(base) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _pairs(path: str) -> list[tuple[str, int]]:
    pairs = []
    for line in (_read(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if value.isdigit():
            pairs.append((key, int(value)))
    return pairs


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
