"""What /proc says about processes and the disk. It starts and stops nothing."""

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
FLUSHES_COLUMN = 18
OWN_USER, OWN_SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM = 11, 12, 13, 14


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Resident memory of one process."""

    now_bytes: int
    peak_bytes: int


def cpu_ms_of_self() -> float:
    """This process and the children it has waited for."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both) * 1000


def cpu_ms(pids: Iterable[int], with_children: bool = True) -> float:
    """The processes and, if asked, the children they have waited for; a process that is gone counts nothing."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        columns = [OWN_USER, OWN_SYSTEM] + ([CHILDREN_USER, CHILDREN_SYSTEM] if with_children else [])
        total += sum(int(fields[column]) for column in columns) * TICK_MS
    return total


def memory(pid: int) -> Memory:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Vm")
    )
    return Memory(now_bytes=_kilobytes(fields["VmRSS"]), peak_bytes=_kilobytes(fields["VmHWM"]))


def forget_peak(pid: int) -> None:
    """Starts the peak anew from what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def children_of(pid: int) -> list[int]:
    """Direct children that live now."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def processes_naming(text: str) -> list[int]:
    """Every process whose command line or environment holds the text; ours are told by their data folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                said = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if text.encode() in said:
                found.append(int(folder.name))
    return sorted(found)


def disk_flushes() -> int:
    """Flush requests completed by all disks since boot, everybody's included; 0 where the kernel does not tell."""
    rows = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return sum(int(row[FLUSHES_COLUMN]) for row in rows if len(row) > FLUSHES_COLUMN)


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * 1024
