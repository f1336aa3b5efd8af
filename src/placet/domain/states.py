"""The states of a workload and of an attempt, the tables of their moves, and ``advance``, the only way to move.

State words are written here and nowhere else; the chart in the docs is generated from these tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from placet.domain.errors import ForbiddenMove


class WorkloadState(StrEnum):
    """Where a workload is on its way to one final result."""

    ACCEPTED = "accepted"
    WAITING = "waiting"
    PLACING = "placing"
    RUNNING = "running"
    DELIVERING = "delivering"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Does no move lead out of it?"""
        return self in WORKLOAD_FINAL


class AttemptState(StrEnum):
    """Where one try is; ``UNKNOWN`` means that the outcome of a call is not known, not that it failed."""

    INTENDED = "intended"
    SUBMITTED = "submitted"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    COLLECTED = "collected"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    LOST = "lost"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Desired(StrEnum):
    """What the owner of a workload wants, whatever is observed."""

    RUN = "run"
    STOP = "stop"


class DeliveryState(StrEnum):
    """The outputs, apart from the computing."""

    NONE = "none"
    COMPLETE = "complete"
    PARTIAL = "partial"
    MISSING = "missing"


class IntentState(StrEnum):
    """One provider mutation: written as sent before the first byte leaves, then settled by evidence."""

    SENT = "sent"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    AMBIGUOUS = "ambiguous"


class IntentVerb(StrEnum):
    """The mutations a provider knows."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    RELEASE = "release"


class OrphanState(StrEnum):
    """An allocation that no attempt stands for: seen at its provider, being deleted, or dealt with."""

    LISTED = "listed"
    RELEASING = "releasing"
    CLOSED = "closed"


class DispatchState(StrEnum):
    """A message to a webhook: to be sent, taken by its receiver, or no longer tried."""

    PENDING = "pending"
    TAKEN = "taken"
    GIVEN_UP = "given_up"


W, A = WorkloadState, AttemptState

WORKLOAD_MOVES: Mapping[WorkloadState, frozenset[WorkloadState]] = {
    W.ACCEPTED: frozenset({W.WAITING, W.PLACING, W.FAILED, W.CANCELLED, W.EXPIRED}),
    W.WAITING: frozenset({W.PLACING, W.FAILED, W.CANCELLED, W.EXPIRED}),
    W.PLACING: frozenset({W.WAITING, W.RUNNING, W.DELIVERING, W.FAILED, W.CANCELLED, W.EXPIRED}),
    W.RUNNING: frozenset({W.WAITING, W.DELIVERING, W.FAILED, W.CANCELLED, W.EXPIRED}),
    W.DELIVERING: frozenset({W.WAITING, W.SUCCEEDED, W.FAILED, W.CANCELLED, W.EXPIRED}),
    W.SUCCEEDED: frozenset(),
    W.FAILED: frozenset(),
    W.CANCELLED: frozenset(),
    W.EXPIRED: frozenset(),
}

ATTEMPT_MOVES: Mapping[AttemptState, frozenset[AttemptState]] = {
    A.INTENDED: frozenset({A.SUBMITTED, A.STARTING, A.REFUSED, A.UNKNOWN, A.STOPPING}),
    A.UNKNOWN: frozenset({A.SUBMITTED, A.STARTING, A.RUNNING, A.EXITED, A.REFUSED, A.LOST, A.STOPPING}),
    A.SUBMITTED: frozenset({A.STARTING, A.RUNNING, A.EXITED, A.STOPPING, A.LOST}),
    A.STARTING: frozenset({A.RUNNING, A.EXITED, A.STOPPING, A.LOST}),
    A.RUNNING: frozenset({A.EXITED, A.STOPPING, A.LOST}),
    A.STOPPING: frozenset({A.STOPPED, A.EXITED, A.LOST}),
    A.EXITED: frozenset({A.COLLECTED, A.LOST}),
    A.COLLECTED: frozenset(),
    A.REFUSED: frozenset(),
    A.LOST: frozenset(),
    A.STOPPED: frozenset(),
}

INTENT_MOVES: Mapping[IntentState, frozenset[IntentState]] = {
    IntentState.SENT: frozenset({IntentState.CONFIRMED, IntentState.REFUTED, IntentState.AMBIGUOUS}),
    IntentState.AMBIGUOUS: frozenset({IntentState.CONFIRMED, IntentState.REFUTED}),
    IntentState.CONFIRMED: frozenset(),
    IntentState.REFUTED: frozenset(),
}

ORPHAN_MOVES: Mapping[OrphanState, frozenset[OrphanState]] = {
    OrphanState.LISTED: frozenset({OrphanState.RELEASING, OrphanState.CLOSED}),
    OrphanState.RELEASING: frozenset({OrphanState.CLOSED}),
    OrphanState.CLOSED: frozenset(),
}

DISPATCH_MOVES: Mapping[DispatchState, frozenset[DispatchState]] = {
    DispatchState.PENDING: frozenset({DispatchState.TAKEN, DispatchState.GIVEN_UP}),
    # Whoever asks for it again gets it again.
    DispatchState.TAKEN: frozenset({DispatchState.PENDING}),
    DispatchState.GIVEN_UP: frozenset({DispatchState.PENDING}),
}

WORKLOAD_FINAL = frozenset(state for state, targets in WORKLOAD_MOVES.items() if not targets)
ATTEMPT_FINAL = frozenset(state for state, targets in ATTEMPT_MOVES.items() if not targets)
# An attempt in one of these may be running user code or costing money at this moment.
ATTEMPT_LIVE = frozenset({A.INTENDED, A.UNKNOWN, A.SUBMITTED, A.STARTING, A.RUNNING, A.STOPPING, A.EXITED})

State = TypeVar("State", WorkloadState, AttemptState, IntentState, OrphanState, DispatchState)


def advance(table: Mapping[State, frozenset[State]], current: State, target: State) -> State:
    """``target``, when the table allows the move.

    Raises:
        ForbiddenMove: the table has no such move, or ``current`` is final.
    """
    if target not in table[current]:
        raise ForbiddenMove(f"no move from {current} to {target}")
    return target
