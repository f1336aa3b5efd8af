"""What a simulated machine is at a moment: a function of what was asked of it and the time. No file and no clock here.

All times are milliseconds of one clock. Nothing happens by itself: a machine ages, looked at or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from decimal import ROUND_UP, Decimal
from enum import StrEnum

SECOND_MS = 1000
MICRO = Decimal("0.000001")


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How a machine is to behave; what each field means to a user stands in ``contract/simulated.py``.

    ``None`` and zero mean that the thing does not happen.
    """

    runtime_s: float = 5.0
    exit_code: int = 0
    startup_s: float = 2.0
    log: str | None = None
    faulty_attempts: int = 1
    start_fails: bool = False
    refuse: str = ""
    lost_reply: str = ""
    late_create_s: float = 0.0
    empty_handle: bool = False
    visibility_s: float = 0.0
    lost_page_s: float = 0.0
    rate_limited_s: float = 0.0
    wait_hint: bool = True
    unknown_state_s: float = 0.0
    stops_ignored: int = 0
    stop_refused_while_provisioning: bool = False
    preempt_after_s: float | None = None
    preempt_notice_s: float = 0.0
    host_lost_after_s: float | None = None
    restart_after_s: float | None = None
    price_factor: Decimal = Decimal(1)
    log_lost_bytes: int = 0
    clock_offset_s: int = 0

    def met_by(self, epoch: int) -> "Behaviour":
        """The same for one attempt: later ones than the faulty ones meet nothing bad."""
        if epoch <= self.faulty_attempts:
            return self
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name in LASTING}
        return Behaviour(**kept)


LASTING = frozenset({"runtime_s", "exit_code", "startup_s", "log", "faulty_attempts"})


@dataclass(frozen=True, kw_only=True)
class Order:
    """One machine as it was asked for; ``files`` are the outputs that its program seems to write."""

    key: str
    native_id: str
    deployment: str
    workload_id: str
    epoch: int
    nonce: str
    offer_id: str
    region: str
    price_usd_per_hour: Decimal
    quantum_s: int
    asked_ms: int
    behaviour: Behaviour
    runtime_limit_s: float | None = None
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An order and what was asked since; the times of each kind in order."""

    order: Order
    granted_ms: tuple[int, ...] = ()
    denied_ms: int | None = None
    denied_why: str = ""
    stops_ms: tuple[int, ...] = ()
    deleted_ms: int | None = None


class State(StrEnum):
    """The simulated provider's own words. ``WARMING`` is left out of its documentation on purpose."""

    ABSENT = "absent"
    BUILDING = "building"
    WARMING = "warming_up_v2"
    READY = "ready"
    RUNNING = "running"
    INTERRUPTING = "interrupting"
    EXITED = "exited"
    TIMED_OUT = "timed_out"
    START_FAILED = "start_failed"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    DENIED = "denied"
    VANISHED = "vanished"
    DELETED = "deleted"


OVER = frozenset(
    {State.EXITED, State.TIMED_OUT, State.START_FAILED, State.PREEMPTED, State.STOPPED, State.DENIED, State.VANISHED,
     State.DELETED}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Look:
    """A machine at one moment. ``next_ms`` is when it changes by itself, ``None`` for never."""

    state: State
    made_ms: int
    incarnation: int = 1
    started_ms: int | None = None
    ended_ms: int | None = None
    next_ms: int | None = None
    notes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def over(self) -> bool:
        return self.state in OVER


def look(machine: Machine, now_ms: int) -> Look:
    """What the machine is now."""
    order, how = machine.order, machine.order.behaviour
    made_ms = order.asked_ms + _ms(how.late_create_s)
    if now_ms < made_ms:
        return Look(state=State.ABSENT, made_ms=made_ms, next_ms=made_ms)
    course = _course(machine, made_ms)
    end_ms, end = course.end
    started_ms = course.started(min(now_ms, end_ms))
    if machine.deleted_ms is not None and machine.deleted_ms <= now_ms:
        ended_ms = min(end_ms, machine.deleted_ms)
        return Look(state=State.DELETED, made_ms=made_ms, started_ms=started_ms, ended_ms=ended_ms)
    incarnation = 1 if course.again_ms is None or min(now_ms, end_ms) < course.again_ms else 2
    if now_ms >= end_ms:
        return Look(state=end, made_ms=made_ms, incarnation=incarnation, started_ms=started_ms, ended_ms=end_ms)
    state = course.living(now_ms)
    changes = [at_ms for at_ms in (*course.changes(), end_ms) if at_ms > now_ms and at_ms != NEVER_MS]
    return Look(
        state=state,
        made_ms=made_ms,
        incarnation=incarnation,
        started_ms=started_ms,
        next_ms=min(changes, default=None),
        notes=course.notes(now_ms),
    )


def visible(machine: Machine, now_ms: int) -> bool:
    """Is it in lists, and is its name known?"""
    seen = look(machine, now_ms)
    if seen.state in (State.ABSENT, State.DELETED, State.VANISHED):
        return False
    return now_ms >= seen.made_ms + _ms(machine.order.behaviour.visibility_s)


def page_lost(machine: Machine, now_ms: int) -> bool:
    """Is the page of the list missing on which it stands?"""
    order = machine.order
    return now_ms < order.asked_ms + _ms(order.behaviour.late_create_s) + _ms(order.behaviour.lost_page_s)


def ignores_stop(machine: Machine) -> bool:
    """Would one more request to stop do nothing?"""
    return len(machine.stops_ms) < machine.order.behaviour.stops_ignored


def refuses_stop(machine: Machine, now_ms: int) -> bool:
    """Is it in a state in which it cannot be stopped?"""
    making = look(machine, now_ms).state in (State.ABSENT, State.BUILDING, State.WARMING)
    return making and machine.order.behaviour.stop_refused_while_provisioning


def charged_usd(machine: Machine, now_ms: int) -> Decimal:
    """What the provider has charged so far: in whole quanta, at its own price, which may not be the listed one."""
    seen, order = look(machine, now_ms), machine.order
    if seen.state is State.ABSENT:
        return Decimal(0)
    held_ms = max((now_ms if seen.ended_ms is None else seen.ended_ms) - seen.made_ms, 0)
    quanta = -(-held_ms // (order.quantum_s * SECOND_MS))
    hourly = order.price_usd_per_hour * order.behaviour.price_factor
    return (hourly * quanta * order.quantum_s / 3600).quantize(MICRO, rounding=ROUND_UP)


def log_of(machine: Machine) -> bytes:
    """All that the program would write in the end."""
    order = machine.order
    if order.behaviour.log is not None:
        return order.behaviour.log.encode()
    return (
        f"simulated: attempt {order.epoch} on {order.offer_id}; no program is run\n"
        f"simulated: {order.behaviour.runtime_s:g} s are over, exit code {order.behaviour.exit_code}\n"
    ).encode()


def written_bytes(machine: Machine, now_ms: int) -> int:
    """How much of the log is there, lost bytes included: it grows evenly over the run."""
    seen = look(machine, now_ms)
    if seen.started_ms is None or seen.state is State.START_FAILED:
        return 0
    ran_ms = (now_ms if seen.ended_ms is None else min(now_ms, seen.ended_ms)) - seen.started_ms
    full_ms, size = _ms(machine.order.behaviour.runtime_s), len(log_of(machine))
    return size if ran_ms >= full_ms else size * max(ran_ms, 0) // full_ms


NEVER_MS = 2**62


@dataclass(frozen=True, kw_only=True)
class _Course:
    """The moments of a machine's life as far as they are settled. ``again_ms`` is when the provider restarts it."""

    how: Behaviour
    built_ms: int
    ready_ms: int
    first_ms: int | None
    again_ms: int | None
    second_ms: int | None
    preempted_ms: int | None
    end: tuple[int, State]

    def started(self, at_ms: int) -> int | None:
        """When the program began that is or was running then."""
        begun_ms = self.second_ms if self.again_ms is not None and at_ms >= self.again_ms else self.first_ms
        return begun_ms if begun_ms is not None and begun_ms <= at_ms else None

    def living(self, now_ms: int) -> State:
        if now_ms < self.built_ms:
            return State.BUILDING
        if now_ms < self.ready_ms:
            return State.WARMING
        if self.started(now_ms) is None:
            return State.READY
        return State.INTERRUPTING if self._noticed(now_ms) else State.RUNNING

    def notes(self, now_ms: int) -> tuple[tuple[str, str], ...]:
        if not self._noticed(now_ms) or self.preempted_ms is None:
            return ()
        return (("taken_away_in_s", f"{(self.preempted_ms - now_ms) / SECOND_MS:g}"),)

    def changes(self) -> Iterator[int]:
        yield from (self.built_ms, self.ready_ms)
        if self.again_ms is not None:
            yield self.again_ms
        if self.preempted_ms is not None and self.how.preempt_notice_s:
            yield self.preempted_ms - _ms(self.how.preempt_notice_s)

    def _noticed(self, now_ms: int) -> bool:
        """A notice cannot come before the program began."""
        notice_ms = _ms(self.how.preempt_notice_s)
        return bool(notice_ms) and self.preempted_ms is not None and now_ms >= self.preempted_ms - notice_ms


def _course(machine: Machine, made_ms: int) -> _Course:
    order, how = machine.order, machine.order.behaviour
    built_ms = made_ms + _ms(how.startup_s)
    ready_ms = built_ms + _ms(how.unknown_state_s)
    first_ms = next((max(at_ms, ready_ms) for at_ms in machine.granted_ms), None)
    ends: list[tuple[int, State]] = [(NEVER_MS, State.RUNNING)]
    stops_ms = machine.stops_ms[how.stops_ignored :]
    if stops_ms:
        ends.append((max(stops_ms[0], made_ms), State.STOPPED))
    if machine.denied_ms is not None:
        ends.append((max(machine.denied_ms, ready_ms), State.DENIED))
    again_ms = second_ms = preempted_ms = None
    if first_ms is not None:
        if how.restart_after_s is not None and how.restart_after_s < how.runtime_s:
            again_ms = first_ms + _ms(how.restart_after_s)
            second_ms = next((at_ms for at_ms in machine.granted_ms if at_ms >= again_ms), None)
        if how.preempt_after_s is not None:
            preempted_ms = first_ms + _ms(how.preempt_after_s)
            ends.append((preempted_ms, State.PREEMPTED))
        if how.host_lost_after_s is not None:
            ends.append((first_ms + _ms(how.host_lost_after_s), State.VANISHED))
        ends += _own_ends(order, first_ms if again_ms is None else second_ms)
    return _Course(
        how=how,
        built_ms=built_ms,
        ready_ms=ready_ms,
        first_ms=first_ms,
        again_ms=again_ms,
        second_ms=second_ms,
        preempted_ms=preempted_ms,
        end=min(ends, key=lambda end: end[0]),
    )


def _own_ends(order: Order, started_ms: int | None) -> Iterator[tuple[int, State]]:
    """How the program ends by itself or by its time limit, once it has begun for the last time."""
    if started_ms is None:
        return
    how = order.behaviour
    if how.start_fails:
        yield started_ms, State.START_FAILED
    yield started_ms + _ms(how.runtime_s), State.EXITED
    if order.runtime_limit_s is not None:
        yield started_ms + _ms(order.runtime_limit_s), State.TIMED_OUT


def _ms(seconds: float) -> int:
    return round(seconds * SECOND_MS)
