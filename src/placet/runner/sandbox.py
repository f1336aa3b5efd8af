"""The bubblewrap command line that gives a program ``/inputs`` and ``/outputs`` over an otherwise read-only machine.

It is a matter of names and of guarding what must not be written, not a prison for hostile code.
"""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

# Bound in another way than the rest of the root folder, or made anew.
# Inside, this name leads to the scratch folder of the attempt.
PRIVATE_TMP = "/tmp"  # noqa: S108 - never the shared one
PLACES = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap")
TRIAL_S = 10.0
SPECIAL = ("proc", "dev", "tmp", "inputs", "outputs", "sys")


class Sandbox:
    """What one attempt sees. ``writable`` and ``readable`` are host paths that keep their names inside."""

    __slots__ = ("cwd", "hidden", "inputs", "outputs", "readable", "scratch", "writable")

    def __init__(self, cwd: str, scratch: str, outputs: str, hidden: Sequence[str]) -> None:
        self.cwd = cwd
        self.scratch = scratch
        self.outputs = outputs
        # Folders of which only what is listed is seen; the outer before the inner.
        self.hidden = sorted(hidden, key=len)
        self.inputs: list[tuple[str, str]] = []
        self.writable: list[str] = []
        self.readable: list[str] = []


def find(folder: str) -> str | None:
    """The bubblewrap program, if it is installed and this machine lets it work; ``folder`` is one of ours."""
    for path in PLACES:
        if os.access(path, os.X_OK) and _works(path, folder):
            return path
    return None


def _works(program: str, folder: str) -> bool:
    """Many machines forbid namespaces to some users or in some places; only a trial tells."""
    trial = command_line(program, Sandbox("/", folder, folder, [folder]), ["/bin/true"], [])
    try:
        ended = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def command_line(program: str, sandbox: Sandbox, argv: Sequence[str], inner: Sequence[str]) -> list[str]:
    """The whole command line."""
    line = [program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--new-session"]
    if os.getuid() == 0:
        # Root without its powers, except to read what it could read before.
        line += ["--cap-drop", "ALL", "--cap-add", "CAP_DAC_READ_SEARCH"]
    line += _root()
    line += ["--proc", "/proc", "--dev-bind", "/dev", "/dev", "--bind", sandbox.scratch, PRIVATE_TMP]
    named = [("--ro-bind", path) for path in sandbox.readable] + [("--bind", path) for path in sandbox.writable]
    # What is named may lie around a hidden folder, which must stay hidden in it, or inside one.
    within = [(how, path) for how, path in named if is_within(path, sandbox.hidden)]
    for how, path in (each for each in named if each not in within):
        line += [how, path, path]
    for path in sandbox.hidden:
        line += ["--tmpfs", path]
    for how, path in within:
        line += [how, path, path]
    line += ["--dir", "/inputs"]
    for name, source in sandbox.inputs:
        line += ["--ro-bind", source, "/inputs/" + name]
    line += ["--bind", sandbox.outputs, "/outputs", "--remount-ro", "/", "--chdir", sandbox.cwd, "--"]
    return line + list(inner) + list(argv)


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether the path is one of these folders or lies in one."""
    real = os.path.realpath(path)
    return any(real == folder or real.startswith(folder + "/") for folder in folders)


def _root() -> list[str]:
    line: list[str] = []
    kept: dict[str, str] = {}
    with os.scandir("/") as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name in SPECIAL:
                continue
            if entry.is_symlink():
                line += ["--symlink", os.readlink(entry.path), entry.path]
            elif entry.is_dir():
                kept[entry.path] = entry.path
    for path in kept:
        line += ["--ro-bind", path, path]
    if os.path.isdir("/sys"):
        line += ["--ro-bind", "/sys", "/sys"]
    return line
