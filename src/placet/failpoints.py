"""Named moments at which a test kills this process; it does nothing unless the environment asks for it.

Every commit and every effect passes one before and one after. The runner has its own list, for it imports nothing.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

from placet.domain.records import EventKind, Transition
from placet.domain.states import AttemptState, IntentState, IntentVerb, WorkloadState

T = TypeVar("T")

# ``<point>.before`` or ``<point>.after``, which pass of it kills, and a file that is made at that moment: while it
# exists nothing is killed again, so that whatever is started anew may have the same environment.
VARIABLE = "PLACET_FAILPOINT"


class Point(StrEnum):
    """What happens between a ``before`` and an ``after``."""

    # A server's start
    MIGRATION = "migration"
    CREDENTIAL_FILE = "credential-file"
    WORKER_NOTE = "worker-note"
    # The front door
    ACCEPT = "accept"
    QUOTE_KEY = "quote-key"
    CREDENTIAL = "credential"
    REVOCATION = "revocation"
    BUDGET = "budget"
    REPLY = "reply"
    # Ownership
    BEAT = "beat"
    CLAIM = "claim"
    SUCCESSION = "succession"
    RETIREMENT = "retirement"
    # Any transaction of the store
    COMMIT = "commit"
    # What a transition may write besides moves and intents
    WISH = "wish"
    HANDLE = "handle"
    PERMIT = "permit"
    PERMIT_REFUSAL = "permit-refusal"
    MANIFEST = "manifest"
    VERDICT = "verdict"
    RELEASED = "released"
    # Effects at a provider
    SUBMIT = "submit"
    PERMIT_ANSWER = "permit-answer"
    CANCEL = "cancel"
    RELEASE = "release"
    ORPHANS = "orphans"
    SWEEP = "sweep"
    REQUEST = "request"
    ANSWER = "answer"
    # Effects at the artifact store
    ADOPT = "adopt"
    OUTPUT_MANIFEST = "output-manifest"
    KEEP_PARTS = "keep-parts"
    KEEP_LOG = "keep-log"
    ARTIFACT_PART = "artifact-part"
    ARTIFACT_NAME = "artifact-name"
    # Messages to webhooks
    HOOK = "hook"
    HOOK_SENT = "hook-sent"
    # Secrets of tenants
    SECRET = "secret"  # noqa: S105 - a name


def workload_point(state: str) -> str:
    """The move of a workload to this state."""
    return f"workload.{state}"


def attempt_point(state: str) -> str:
    """The move of an attempt to this state."""
    return f"attempt.{state}"


def intent_point(verb: str) -> str:
    """The intent of this mutation."""
    return f"intent.{verb}"


POINTS: tuple[str, ...] = (
    *Point,
    *map(workload_point, WorkloadState),
    *map(attempt_point, AttemptState),
    *map(intent_point, IntentVerb),
)


class _Trap:
    """The one moment that was asked for, and how often it is still passed unharmed."""

    def __init__(self, asked: str) -> None:
        self._moment, passes, self._mark = asked.split(":", 2)
        self._left = int(passes)
        self._lock = threading.Lock()  # some moments are passed by threads
        point, _, side = self._moment.rpartition(".")
        if point not in POINTS or side not in ("before", "after"):
            raise ValueError(f"{VARIABLE}: there is no failpoint {self._moment}")

    def passed(self, points: Sequence[str], side: str) -> None:
        if self._moment not in (f"{point}.{side}" for point in points):
            return
        with self._lock:
            self._left -= 1
            if self._left == 0 and _made(self._mark):
                os.kill(os.getpid(), signal.SIGKILL)

    @contextlib.contextmanager
    def around(self, points: Sequence[str]) -> Iterator[None]:
        self.passed(points, "before")
        yield
        self.passed(points, "after")

    async def passing(self, points: Sequence[str], work: Awaitable[T]) -> T:
        with self.around(points):
            return await work


_OFF = contextlib.nullcontext()
_trap: _Trap | None = None


def arm(asked: str | None) -> None:
    """Set the trap that the variable asks for; one of the runner's is none of ours."""
    global _trap  # noqa: PLW0603 - one check of one name is all that a moment costs
    _trap = _Trap(asked) if asked and not asked.startswith("runner.") else None


arm(os.environ.get(VARIABLE))


def passing(what: str | Sequence[Transition], work: Awaitable[T]) -> Awaitable[T]:
    """The work itself, with the moments of a point, or of the transitions that it writes, around it."""
    return work if _trap is None else _trap.passing([what] if isinstance(what, str) else moments(what), work)


def around(point: Point) -> contextlib.AbstractContextManager[None]:
    """The moments around what is not awaited. An exception within skips the later one."""
    return _OFF if _trap is None else _trap.around([point])


def moments(transitions: Sequence[Transition]) -> list[str]:
    """Every point that these transitions are about."""
    found: dict[str, None] = {}
    for transition in transitions:
        found |= dict.fromkeys(_told(transition))
        found |= {intent_point(each.verb): None for each in transition.intents if each.state is IntentState.SENT}
        wrote = {
            Point.HANDLE: any(attempt.handle is not None for attempt in transition.attempts),
            Point.MANIFEST: bool(transition.artifacts),
            Point.VERDICT: transition.result is not None,
            Point.RELEASED: any(
                attempt.released_ms == transition.workload.updated_ms for attempt in transition.attempts
            ),
        }
        found |= {point: None for point, holds in wrote.items() if holds}
    return list(found)


def _told(transition: Transition) -> Iterator[str]:
    for event in transition.events:
        match event.kind:
            case EventKind.MOVED:
                yield workload_point(event.to_state or "")
            case EventKind.ATTEMPT_MOVED:
                yield attempt_point(event.to_state or "")
            case EventKind.INTENT_SENT if event.to_state is not None:  # the first of an attempt
                yield attempt_point(event.to_state)
            case EventKind.DESIRED:
                yield Point.WISH
            case EventKind.PERMIT_GRANTED:
                yield Point.PERMIT
            case EventKind.PERMIT_REFUSED:
                yield Point.PERMIT_REFUSAL
            case _:
                continue


def _made(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True
