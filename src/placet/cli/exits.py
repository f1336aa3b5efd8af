"""Exit codes of the command line. They are part of its interface and never change their meaning."""

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    REFUSED = 2
    CANCELLED = 3
    EXPIRED = 4
    DETACHED = 5
    UNREACHABLE = 6
    ERROR = 7
    TIMEOUT = 8
    FAULT = 70
    INTERRUPTED = 130

    @classmethod
    def of_state(cls, state: str) -> "Exit":
        """The code for the state a workload ended in."""
        match state:
            case "succeeded":
                return cls.OK
            case "cancelled":
                return cls.CANCELLED
            case "expired":
                return cls.EXPIRED
            case _:
                return cls.FAILED


MEANINGS: dict[Exit, str] = {
    Exit.OK: "the command did what it says; for `run` and `wait`: the workload succeeded",
    Exit.FAILED: "the workload failed; for `doctor`: something needed is missing",
    Exit.REFUSED: "wrong usage, or the workload was not accepted; nothing was done",
    Exit.CANCELLED: "the workload was cancelled",
    Exit.EXPIRED: "the workload's time was over before it could finish",
    Exit.DETACHED: "`run` left; the workload goes on",
    Exit.UNREACHABLE: "no server answered",
    Exit.ERROR: "the server refused: no such thing, not allowed, not possible now",
    Exit.TIMEOUT: "`wait --timeout` ended first; the workload goes on",
    Exit.FAULT: "a fault of Placet itself; `--debug` shows where",
    Exit.INTERRUPTED: "interrupted from the keyboard",
}
