"""Is the machine what was offered? Asked before any data moves. What cannot be found out is not held against it."""

from __future__ import annotations

import os
import shutil
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    Json = Dict[str, Any]
    Gpus = List[Dict[str, Any]]

ANSWER_WITHIN_S = 20.0
MIB = 1024 * 1024
QUESTION = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
# A driver keeps some of the memory that its data sheet names; a kernel keeps some of the machine's.
GPU_MEMORY_SHARE = 0.9
MEMORY_SHARE = 0.9


def facts(folder: str, path: str) -> Json:
    """What this machine has, as far as it can be told."""
    found: Json = {"cpus": _cpus(), "memory_bytes": _memory_bytes(), "disk_free_bytes": _disk_free_bytes(folder)}
    gpus = _gpus(path)
    if gpus is not None:
        found["gpus"] = gpus
    return found


def shortfall(wanted: Json, found: Json) -> str:
    """What is less than what was offered, in one sentence; empty when nothing is."""
    words = []
    for name, unit in (("cpus", "processors"), ("memory_bytes", "bytes of memory"), ("disk_free_bytes", "free bytes")):
        least, has = wanted.get(name), found.get(name)
        share = MEMORY_SHARE if name == "memory_bytes" else 1.0
        if least and has is not None and has < int(least * share):
            words.append(f"{has} {unit} instead of {least}")
    words += _gpu_shortfall(wanted, found)
    return "the machine is not what was offered: " + "; ".join(words) if words else ""


def _gpu_shortfall(wanted: Json, found: Json) -> list[str]:
    count = int(wanted.get("gpus") or 0)
    gpus = found.get("gpus")
    if not count or gpus is None:
        return []
    if len(gpus) < count:
        return [f"{len(gpus)} GPUs instead of {count}"]
    least = int(wanted.get("gpu_memory_bytes") or 0)
    small = [gpu for gpu in gpus if gpu["memory_bytes"] < int(least * GPU_MEMORY_SHARE)]
    return [f"a GPU ({gpu['name']}) with {gpu['memory_bytes']} bytes instead of {least}" for gpu in small[:1]]


def _gpus(path: str) -> Gpus | None:
    """The GPUs that may be used here; ``None`` when nobody can be asked."""
    program = shutil.which("nvidia-smi", path=path)
    if program is None:
        return None
    line = [program, *QUESTION]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible:
        # Where devices are not confined, it would show those of others too.
        line.append("--id=" + visible)
    try:
        done = subprocess.run(line, capture_output=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return parsed(done.stdout.decode("utf-8", "replace"))


def parsed(text: str) -> Gpus:
    """The answer of nvidia-smi; a line that cannot be read is left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[1].isdigit():
            found.append({"name": words[0], "memory_bytes": int(words[1]) * MIB, "driver": words[2]})
    return found


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _disk_free_bytes(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
