"""The simulated cloud: a journal in a file, shared by every process that opens it. It has no process of its own.

What was asked is appended as facts; what is, follows from them and the time. So a server may be killed at any moment,
and its machines go on. The answers are those of a cloud: a status, a text, and what was asked for.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from placet.adapters.providers.simulated.behaviour import (
    SECOND_MS,
    Behaviour,
    Machine,
    Order,
    State,
    ignores_stop,
    look,
    page_lost,
    refuses_stop,
    visible,
)

PAGE = 50
# A journal of this size is written anew. The name of what is deleted is not used again for so long.
JOURNAL_BYTES = 8 * 1024 * 1024
KEPT_MS = 7 * 86_400 * SECOND_MS

OK, CUT = 200, 0
NO_ROOM = "no capacity"
NO_QUOTA = "quota exceeded"
NAME_TAKEN = "another machine bears this name"
NAME_SPENT = "this name was used and deleted"
IN_THE_MAKING = "cannot be stopped while it is being made"
TOO_MANY = "too many requests"
NO_REPLY = "the connection was cut"


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of the journal. ``bar``: no machine of that name is ever made; ``tried``: an order came for the first
    time."""

    what: str
    key: str
    at_ms: int
    order: Order | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the cloud answers. A status of 0 is no answer at all. ``wait_s`` is its hint of when to come again."""

    status: int = OK
    text: str = ""
    wait_s: float | None = None
    machine: Machine | None = None

    @property
    def good(self) -> bool:
        return self.status == OK


@dataclass(frozen=True, kw_only=True)
class Page:
    """A part of a list in the order of names, and how many there are in all."""

    machines: tuple[Machine, ...]
    after: str | None
    total: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Fact)


class Cloud:
    """Every call reads what other processes wrote before it answers; blocking, and quick."""

    def __init__(self, folder: Path, now_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._now_ms = now_ms
        self._guard = threading.Lock()
        self._machines: dict[str, Machine] = {}
        self._barred: dict[str, int] = {}
        self._tried: dict[str, int] = {}
        self._read_bytes = 0
        self._inode = 0
        self._compact_at_bytes = JOURNAL_BYTES
        self.revision = 0

    def open(self) -> None:
        """Make the folder; what is there goes on being there."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            pass

    # What is asked of it. Each method is one call.

    def create(self, order: Order, most: int) -> Reply:
        """Make a machine, unless there are ``most`` of its kind already. The name is unique."""
        with self._locked() as journal:
            now_ms, how = self._now_ms(), order.behaviour
            if order.key in self._barred:
                return Reply(status=409, text=NAME_SPENT)
            known = self._machines.get(order.key)
            if known is not None:
                return self._known(known, order)
            slow = self._too_fast(order.key, how, now_ms, journal)
            if slow is not None:
                return slow
            if how.refuse == "quota":
                return Reply(status=403, text=f"{NO_QUOTA} for {order.offer_id}")
            if how.refuse == "capacity" or self._taken(order.offer_id, now_ms) >= most:
                return Reply(status=503, text=f"{NO_ROOM} for {order.offer_id} in {order.region}")
            if how.lost_reply == "before_effect":
                return Reply(status=CUT, text=NO_REPLY)
            self._append(journal, Fact(what="order", key=order.key, at_ms=now_ms, order=order))
            made = self._machines[order.key]
            if self._read_bytes > self._compact_at_bytes:
                self._compact()
            return _told(how, made)

    def get(self, key: str) -> Reply:
        """One machine by its name."""
        with self._read():
            now_ms, machine = self._now_ms(), self._machines.get(key)
            if machine is None or not visible(machine, now_ms):
                return Reply(status=404, text="there is no such machine")
            return self._slow(machine, now_ms) or Reply(machine=machine)

    def page(self, after: str = "", deployment: str | None = None, name: str | None = None) -> Page:
        """A page of what is visible, of one deployment or one name if any is named."""
        with self._read():
            now_ms = self._now_ms()
            wanted = [
                machine
                for key, machine in sorted(self._machines.items())
                if (deployment is None or machine.order.deployment == deployment)
                and (name is None or key == name)
                and visible(machine, now_ms)
            ]
            rest = [machine for machine in wanted if machine.order.key > after]
            page, more = rest[:PAGE], len(rest) > PAGE
            lost = any(page_lost(machine, now_ms) for machine in page)
            return Page(
                machines=() if lost else tuple(page),
                after=page[-1].order.key if more else None,
                total=len(wanted),
            )

    def permit(self, key: str, nonce: str, granted: bool, why: str) -> Reply:
        """Let the program begin, or not; the first word counts, but for a machine that waits again."""
        with self._locked() as journal:
            now_ms, machine = self._now_ms(), self._machines.get(key)
            if machine is None or machine.order.nonce != nonce:
                return Reply(status=404, text="there is no such machine")
            if look(machine, now_ms).state is State.READY:
                self._append(journal, Fact(what="grant" if granted else "deny", key=key, at_ms=now_ms, why=why))
            return Reply(machine=self._machines[key])

    def stop(self, key: str) -> Reply:
        """Ask for an end. A name that is not known is never used again."""
        with self._locked() as journal:
            now_ms, machine = self._now_ms(), self._machines.get(key)
            if machine is None:
                self._bar(journal, key, now_ms)
                return Reply()
            if refuses_stop(machine, now_ms):
                return Reply(status=409, text=IN_THE_MAKING)
            slow = self._slow(machine, now_ms)
            if slow is None and not look(machine, now_ms).over:
                self._append(journal, Fact(what="stop", key=key, at_ms=now_ms))
            return slow or Reply(machine=self._machines[key])

    def delete(self, key: str) -> Reply:
        """Delete for good; what lives is stopped by it, unless it ignores that."""
        with self._locked() as journal:
            now_ms, machine = self._now_ms(), self._machines.get(key)
            if machine is None:
                self._bar(journal, key, now_ms)
                return Reply()
            if refuses_stop(machine, now_ms):
                return Reply(status=409, text=IN_THE_MAKING)
            slow = self._slow(machine, now_ms)
            if slow is not None:
                return slow
            if not look(machine, now_ms).over and ignores_stop(machine):
                self._append(journal, Fact(what="stop", key=key, at_ms=now_ms))
            elif machine.deleted_ms is None:
                self._append(journal, Fact(what="delete", key=key, at_ms=now_ms))
            return Reply(machine=self._machines[key])

    def known(self) -> list[Machine]:
        """Everything, as of the last call."""
        with self._guard:
            return list(self._machines.values())

    def machines(self) -> Mapping[str, Machine]:
        """Everything, as only the cloud itself knows it."""
        with self._read():
            return dict(self._machines)

    # How it is kept.

    def _known(self, known: Machine, order: Order) -> Reply:
        if known.order.nonce != order.nonce:
            return Reply(status=409, text=NAME_TAKEN)
        if known.deleted_ms is not None:
            return Reply(status=409, text=NAME_SPENT)
        return Reply(machine=known)

    def _taken(self, offer_id: str, now_ms: int) -> int:
        return sum(
            machine.deleted_ms is None and machine.order.offer_id == offer_id and not look(machine, now_ms).over
            for machine in self._machines.values()
        )

    def _too_fast(self, key: str, how: Behaviour, now_ms: int, journal: int) -> Reply | None:
        if not how.rate_limited_s:
            return None
        if key not in self._tried:
            self._append(journal, Fact(what="tried", key=key, at_ms=now_ms))
        return _later(how, self._tried[key], now_ms)

    def _slow(self, machine: Machine, now_ms: int) -> Reply | None:
        key, how = machine.order.key, machine.order.behaviour
        return _later(how, self._tried.get(key, machine.order.asked_ms), now_ms) if how.rate_limited_s else None

    def _bar(self, journal: int, key: str, now_ms: int) -> None:
        if key not in self._barred:
            self._append(journal, Fact(what="bar", key=key, at_ms=now_ms))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The journal for writing, with all that it holds read; nobody else writes meanwhile."""
        with self._guard, contextlib.ExitStack() as held:
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            journal = os.open(self._folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            held.callback(os.close, journal)
            self._take_in(journal)
            yield journal

    @contextlib.contextmanager
    def _read(self) -> Iterator[None]:
        with self._guard:
            journal = os.open(self._folder / "journal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._take_in(journal)
            finally:
                os.close(journal)
            yield

    def _take_in(self, journal: int) -> None:
        """What was written since the last look; a line that is not whole is left for the next one."""
        facts = os.fstat(journal)
        if facts.st_ino != self._inode:
            self._inode, self._read_bytes = facts.st_ino, 0
            self._machines, self._barred, self._tried = {}, {}, {}
        if facts.st_size <= self._read_bytes:
            return
        data = os.pread(journal, facts.st_size - self._read_bytes, self._read_bytes)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            # Only a power cut or a full disk leaves half a line; a simulation loses no more than that by it.
            with contextlib.suppress(msgspec.DecodeError):
                self._apply(_decoder.decode(line))

    def _append(self, journal: int, fact: Fact) -> None:
        line = _encoder.encode(fact) + b"\n"
        torn = os.fstat(journal).st_size > self._read_bytes
        os.write(journal, b"\n" + line if torn else line)
        self._take_in(journal)

    def _apply(self, fact: Fact) -> None:
        self.revision += 1
        machine = self._machines.get(fact.key)
        match fact.what:
            case "order" if fact.order is not None:
                self._machines[fact.key] = Machine(order=fact.order)
            case "bar":
                self._barred[fact.key] = fact.at_ms
            case "tried":
                self._tried[fact.key] = fact.at_ms
            case _ if machine is not None:
                self._machines[fact.key] = _after(machine, fact)

    def _compact(self) -> None:
        """Write the journal anew: of what is deleted only the name is kept, for a week. Only under the lock."""
        oldest_ms = self._now_ms() - KEPT_MS
        spent = self._barred | {
            key: machine.deleted_ms for key, machine in self._machines.items() if machine.deleted_ms is not None
        }
        facts = [Fact(what="bar", key=key, at_ms=at_ms) for key, at_ms in spent.items() if at_ms > oldest_ms]
        for key, machine in self._machines.items():
            if key not in spent:
                facts += _facts(machine)
        text = b"".join(_encoder.encode(fact) + b"\n" for fact in facts)
        part = self._folder / "journal.part"
        part.write_bytes(text)
        part.chmod(0o600)
        part.replace(self._folder / "journal")
        self._compact_at_bytes = max(JOURNAL_BYTES, 2 * len(text))


def _told(how: Behaviour, machine: Machine) -> Reply:
    """How the maker of an order hears of what it made."""
    if how.lost_reply == "server_error":
        return Reply(status=500, text="internal error")
    if how.lost_reply == "after_effect" or how.late_create_s:
        return Reply(status=CUT, text=NO_REPLY)
    if how.empty_handle:
        return Reply(machine=replace(machine, order=replace(machine.order, native_id="")))
    return Reply(machine=machine)


def _later(how: Behaviour, since_ms: int, now_ms: int) -> Reply | None:
    left_s = how.rate_limited_s - (now_ms - since_ms) / SECOND_MS
    if left_s <= 0:
        return None
    return Reply(status=429, text=TOO_MANY, wait_s=left_s if how.wait_hint else None)


def _after(machine: Machine, fact: Fact) -> Machine:
    match fact.what:
        case "grant":
            return replace(machine, granted_ms=(*machine.granted_ms, fact.at_ms))
        case "deny":
            return replace(machine, denied_ms=fact.at_ms, denied_why=fact.why)
        case "stop":
            return replace(machine, stops_ms=(*machine.stops_ms, fact.at_ms))
        case "delete":
            return replace(machine, deleted_ms=fact.at_ms)
        case _:
            return machine  # a newer version writes more


def _facts(machine: Machine) -> Iterator[Fact]:
    order = machine.order
    yield Fact(what="order", key=order.key, at_ms=order.asked_ms, order=order)
    yield from (Fact(what="grant", key=order.key, at_ms=at_ms) for at_ms in machine.granted_ms)
    if machine.denied_ms is not None:
        yield Fact(what="deny", key=order.key, at_ms=machine.denied_ms, why=machine.denied_why)
    yield from (Fact(what="stop", key=order.key, at_ms=at_ms) for at_ms in machine.stops_ms)
    if machine.deleted_ms is not None:
        yield Fact(what="delete", key=order.key, at_ms=machine.deleted_ms)
