"""Named moments at which a test kills this process; it does nothing unless the environment asks for it.

The counterpart of ``placet.failpoints``, which explains the variable; nothing is shared, for the runner stands alone.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "PLACET_FAILPOINT"
RECORDS = ("launch.json", "script.py", "inputs.json", "outputs.json", "exit.json", "ready.json")
POINTS = (
    # A record becomes visible
    *("runner.record." + name for name in RECORDS),
    "runner.record.input",
    # One attempt, from its folder to its deletion
    "runner.folder",
    "runner.request",
    "runner.answer",
    "runner.start",
    "runner.log",
    "runner.reaped",
    "runner.input",
    "runner.environment",
    "runner.output",
    "runner.spare",
    "runner.discard",
    # A start after an earlier supervisor
    "runner.kill-leftovers",
    "runner.recovery",
)


def _asked(text: str | None) -> tuple[str, int, str] | None:
    if not text or not text.startswith("runner."):
        return None
    moment, passes, mark = text.split(":", 2)
    point, _, side = moment.rpartition(".")
    if point not in POINTS or side not in ("before", "after"):
        raise ValueError(VARIABLE + ": there is no failpoint " + moment)
    return moment, int(passes), mark


_trap = _asked(os.environ.get(VARIABLE))
_passes = [0]


def before(point: str) -> None:
    """What the point names is about to happen."""
    if _trap is not None:
        _pass(point + ".before")


def after(point: str) -> None:
    """What the point names has happened."""
    if _trap is not None:
        _pass(point + ".after")


def record(path: str) -> str:
    """The point of a record by its file name."""
    name = path.rpartition("/")[2]
    return "runner.record." + (name if name in RECORDS else "input")


def _pass(moment: str) -> None:
    if _trap is None or moment != _trap[0]:
        return
    _passes[0] += 1
    if _passes[0] != _trap[1]:
        return
    try:
        os.close(os.open(_trap[2], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
