"""Slurm's words and ours: states, reasons, refusals, and the lines of its commands taken apart. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from placet.domain.allocations import ErrorKind, ErrorRule, Phase
from placet.domain.failures import Cause

# The states of a job, and what each means for one that our runner has not told of.
STATES: Mapping[str, Phase] = {
    "PENDING": Phase.QUEUED,
    "REQUEUED": Phase.QUEUED,
    "REQUEUE_FED": Phase.QUEUED,
    "REQUEUE_HOLD": Phase.QUEUED,
    "SPECIAL_EXIT": Phase.QUEUED,
    "RESV_DEL_HOLD": Phase.QUEUED,
    "CONFIGURING": Phase.PROVISIONING,
    "POWER_UP_NODE": Phase.PROVISIONING,
    "RUNNING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "COMPLETING": Phase.STOPPING,
    "SIGNALING": Phase.STOPPING,
    "STAGE_OUT": Phase.STOPPING,
    "COMPLETED": Phase.ENDED,
    "FAILED": Phase.ENDED,
    "CANCELLED": Phase.ENDED,
    "TIMEOUT": Phase.ENDED,
    "DEADLINE": Phase.ENDED,
    "NODE_FAIL": Phase.ENDED,
    "BOOT_FAIL": Phase.ENDED,
    "OUT_OF_MEMORY": Phase.ENDED,
    "PREEMPTED": Phase.ENDED,
    "REVOKED": Phase.ENDED,
}
# Why a job is over that our runner could not tell of. What is not listed proves nothing.
CAUSES: Mapping[str, Cause] = {
    "CANCELLED": Cause.STOPPED,
    "TIMEOUT": Cause.TIMEOUT,
    "DEADLINE": Cause.START_TIMEOUT,
    "NODE_FAIL": Cause.LOST,
    "BOOT_FAIL": Cause.LOST,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "PREEMPTED": Cause.PREEMPTED,
    "REVOKED": Cause.STOPPED,
}
# Of a refused submission. Nothing was made, unless the outcome is unknown, which is what no rule fits.
ERRORS = (
    ErrorRule(status=None, kind=ErrorKind.OUTCOME_UNKNOWN, marker="Socket timed out"),
    ErrorRule(status=None, kind=ErrorKind.OUTCOME_UNKNOWN, marker="Zero Bytes were transmitted"),
    ErrorRule(status=None, kind=ErrorKind.OUTCOME_UNKNOWN, marker="Unexpected message received"),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker="Unable to contact slurm controller"),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker="Connection refused"),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker="Unable to process configuration file"),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker="Could not establish a configuration source"),
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker="Requested node configuration is not available"),
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker="More processors requested than permitted"),
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker="Requested partition configuration not available"),
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker="Requested time limit is invalid"),
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker="Node count specification invalid"),
    ErrorRule(status=None, kind=ErrorKind.RATE_LIMITED, marker="Job submit limit"),
    ErrorRule(status=None, kind=ErrorKind.QUOTA, marker="Job violates accounting/QOS policy"),
    ErrorRule(status=None, kind=ErrorKind.QUOTA, marker="QOSMax"),
    ErrorRule(status=None, kind=ErrorKind.QUOTA, marker="AssocMax"),
    ErrorRule(status=None, kind=ErrorKind.QUOTA, marker="AssocGrp"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Invalid account"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Invalid qos"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Access/permission denied"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="User's group not permitted"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Requested reservation is invalid"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Invalid partition name"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Protocol authentication error"),
    ErrorRule(status=None, kind=ErrorKind.AUTH, marker="Munge"),
    ErrorRule(status=None, kind=ErrorKind.INVALID_REQUEST, marker="Invalid generic resource"),
    ErrorRule(status=None, kind=ErrorKind.INVALID_REQUEST, marker="Batch script"),
)

BAR = "|"
# What people may write freely comes last: a bar in it moves nothing else.
QUEUE_FORMAT = "%i|%T|%r|%V|%S|%e|%N|%P|%j|%k"
ACCOUNT_FORMAT = "JobIDRaw,JobName,State,ExitCode,Reason,Submit,Start,End,NodeList,Partition"
NEVER = ("", "N/A", "NONE", "None", "Unknown")
DAY_S = 86_400
DIGITS_MAX = 15


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job as one of the commands told it. ``exit_code`` and ``signal`` are those of the batch script.

    ``comment`` is told by the queue only. Times are milliseconds of 1970, UTC; a start that lies ahead is an estimate.
    """

    id: str
    name: str
    state: str
    reason: str = ""
    submit_ms: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    nodes: str = ""
    partition: str = ""
    exit_code: int | None = None
    signal: int | None = None
    comment: str = ""
    queued: bool = False

    @property
    def over(self) -> bool:
        """It is at its end, and nothing of it runs; a state that nobody knows is none."""
        return STATES.get(self.state) is Phase.ENDED

    @property
    def began(self) -> bool:
        """It was given nodes, ever."""
        return bool(self.nodes) and self.nodes not in ("None assigned", "(null)")


def queue_lines(text: str) -> list[Job]:
    """What ``squeue`` printed; a line that cannot be read is no job of ours.

    Only a line feed ends a line: of the other marks that end one for Python, a comment may hold any.
    """
    found = []
    for line in text.split("\n"):
        words = line.split(BAR, 9)
        if len(words) == 10 and is_count(words[0]):
            found.append(
                Job(
                    id=words[0],
                    name=words[8],
                    state=_state(words[1]),
                    reason=_told(words[2]),
                    submit_ms=_time(words[3]) or 0,
                    start_ms=_time(words[4]),
                    end_ms=_time(words[5]),
                    nodes=_told(words[6]),
                    partition=words[7],
                    comment=words[9],
                    queued=True,
                )
            )
    return found


def account_lines(text: str) -> list[Job]:
    """What ``sacct -P`` printed."""
    found = []
    for line in text.split("\n"):
        words = line.split(BAR)
        if len(words) == 10 and is_count(words[0]):
            code, _, number = words[3].partition(":")
            state = _state(words[2])
            found.append(
                Job(
                    id=words[0],
                    name=words[1],
                    state=state,
                    reason=_told(words[4]),
                    submit_ms=_time(words[5]) or 0,
                    start_ms=_time(words[6]),
                    end_ms=_time(words[7]),
                    nodes="" if words[8] == "None assigned" else _told(words[8]),
                    partition=words[9],
                    exit_code=int(code) if is_count(code) else None,
                    signal=int(number) if is_count(number) and int(number) else None,
                )
            )
    return found


def is_count(text: str) -> bool:
    """Whether it is a number that can be used: superscripts are digits too, and a long row of nines is no count."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def limit_s(text: str) -> float | None:
    """A time of Slurm's, ``[D-]HH:MM:SS`` or shorter; ``None`` is no limit, or a word that is no time."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(?:(\d{1,9}):)?(\d{1,9})", text.strip(), re.ASCII)
    if match is None:
        return None
    days, first, second, last = (int(word) if word else None for word in match.groups())
    if days is not None:
        # Days are followed by hours, minutes, seconds, and may stop after any of them.
        parts = [part for part in (first, second, last) if part is not None]
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return float(days * DAY_S + hours * 3600 + minutes * 60 + seconds)
    if first is None:
        return float((last or 0) * 60)
    if second is None:
        return float(first * 60 + (last or 0))
    return float(first * 3600 + second * 60 + (last or 0))


def _state(text: str) -> str:
    """``CANCELLED by 1000`` and ``COMPLETED+`` are told without their tail."""
    return text.split(" ")[0].rstrip("+*")


def _told(text: str) -> str:
    return "" if text in NEVER else text


def _time(text: str) -> int | None:
    return int(text) * 1000 if is_count(text) else None
