"""A hundred small workloads of all kinds, submitted and cancelled stubbornly, and what must have become of each."""

import gc
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from placet.domain.records import EventKind
from placet.sdk.client import Client
from placet.sdk.errors import ServerFault, Unreachable
from placet.sdk.location import answers
from tests.support.servers import Marks, ServerProcess, processes_of
from tests.support.waiting import wait_until

T = TypeVar("T")

PATIENCE_S = 60
THREADS = 16


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of workload: its program, and how often it must have started and how it must have ended."""

    name: str
    body: str
    state: str = "succeeded"
    starts: tuple[int, ...] = (1,)
    fields: dict[str, object] = field(default_factory=dict)
    cancelled: bool = False
    # How it may end as well where an attempt is lost: there may be no time for another.
    after_loss: str = ""
    # Cancelled as soon as its program has left its first mark, else at once.
    once_started: bool = False


# How often the program itself has started, whatever number its attempt has.
COUNTED = 'times=$(grep -c "^start $PLACET_WORKLOAD_ID " {marks})'


def kinds(marks: Marks) -> tuple[Kind, ...]:
    """Ten kinds, so that a hundred workloads have ten of each."""
    counted = COUNTED.format(marks=marks.file)
    retry: dict[str, object] = {"retry": {"attempts": 2, "backoff_seconds": 0.2}}
    output: dict[str, object] = {"outputs": [{"name": "answer", "path": "answer.txt"}]}
    return (
        Kind(name="quick", body=":"),
        Kind(name="quick too", body="echo said"),
        Kind(name="a second", body="sleep 1"),
        Kind(name="three seconds", body="sleep 3"),
        Kind(name="with an output", body="echo 42 > answer.txt", fields=output),
        Kind(name="slow with an output", body="sleep 2; echo 42 > answer.txt", fields=output),
        Kind(name="second time lucky", body=f"{counted}; [ $times -ge 2 ] || exit 3", starts=(2,), fields=retry),
        Kind(name="never", body="exit 4", state="failed", starts=(2,), fields=retry),
        Kind(name="no output", body=":", state="failed", fields=output),
        Kind(name="cancelled", body="sleep 600", state="cancelled", starts=(0, 1), cancelled=True),
    )


@dataclass(kw_only=True)
class Mixture:
    """Submits and cancels over servers that come and go: what was not answered is asked again with the same key."""

    servers: Sequence[ServerProcess]
    marks: Marks
    count: int
    chance: random.Random
    of: tuple[Kind, ...] = ()
    # Whether each program must have started as often as its kind says: not so where attempts are lost.
    exact: bool = True
    ids: dict[int, str] = field(default_factory=dict)
    answers_lost: int = 0

    def __post_init__(self) -> None:
        self._kinds = self.of or kinds(self.marks)
        self._threads = ThreadPoolExecutor(THREADS)
        self._lock = threading.Lock()
        self._futures = [self._threads.submit(self._one, number, self.chance.random()) for number in range(self.count)]

    def wait_submitted(self) -> None:
        """Until every submit and every cancel was answered; raises what went wrong."""
        for future in self._futures:
            future.result(timeout=2 * PATIENCE_S)
        self._threads.shutdown()

    def errand(self, act: Callable[[Client], object]) -> None:
        """One more thing to be done stubbornly besides."""
        self._futures.append(self._threads.submit(self._stubborn, 0, act))

    def ended(self) -> bool:
        """Has everything that was asked for been answered, and come to an end as far as one server says?"""
        if not all(future.done() for future in self._futures) or not answers(self.servers[0].socket):
            return False
        try:
            with self.servers[0].client() as client:
                return all(client.get(one).finished_at is not None for one in list(self.ids.values()))
        except (Unreachable, ServerFault):
            return False

    def kind(self, number: int) -> Kind:
        return self._kinds[number % len(self._kinds)]

    def _one(self, number: int, drawn: float) -> None:
        kind = self.kind(number)
        document = {"runtime": {"type": "process", "command": self.marks.script(kind.body)}, **kind.fields}
        first = int(drawn * len(self.servers))
        workload = self._stubborn(first, lambda client: client.submit(document, key=f"mix-{number}"))
        with self._lock:
            self.ids[number] = workload.id
        if kind.once_started:
            wait_until(lambda: self._started(workload.id), PATIENCE_S, f"the start of {kind.name}")
        if kind.cancelled:
            self._stubborn(first + 1, lambda client: client.cancel(workload.id))

    def _started(self, workload_id: str) -> bool:
        return any(known == workload_id for _, known, _ in self.marks.lines())

    def _stubborn(self, first: int, act: Callable[[Client], T]) -> T:
        """Ask one server after the other until one answers."""
        turn = [first]

        def once() -> tuple[T] | None:
            server = self.servers[turn[0] % len(self.servers)]
            turn[0] += 1
            if not answers(server.socket):
                return None
            try:
                with server.client() as client:
                    return (act(client),)
            except Unreachable:
                return None
            except ServerFault:
                with self._lock:
                    self.answers_lost += 1
                return None

        answer = wait_until(once, PATIENCE_S, "an answer of any server")
        assert answer is not None
        return answer[0]

    def wait_finished(self, client: Client, timeout_s: float) -> None:
        """Until all are final; names those that are not."""

        def open_ones() -> dict[str, str]:
            unfinished = {}
            for number, workload_id in self.ids.items():
                view = client.get(workload_id)
                if view.finished_at is None:
                    unfinished[workload_id] = f"{self.kind(number).name}: {view.state} {view.reason}"
            return unfinished

        left: dict[str, str] = {}

        def done() -> bool:
            left.clear()
            left.update(open_ones())
            return not left

        try:
            wait_until(done, timeout_s, "all to finish")
        except AssertionError as error:
            told = [
                f"{key}: {value}\n" + "\n".join(f"    {event}" for event in client.events(key))
                for key, value in left.items()
            ]
            raise AssertionError("\n".join([str(error), *told])) from None

    def check(self, client: Client) -> None:
        """Everybody ended as it must, with a result, after exactly the starts that it must have had."""
        assert len(self.ids) == self.count
        assert len(set(self.ids.values())) == self.count
        self.marks.check()
        starts = Counter(workload_id for kind, workload_id, _ in self.marks.lines() if kind == "start")
        wrong = []
        for number, workload_id in sorted(self.ids.items()):
            kind, result = self.kind(number), client.result(workload_id)
            told = [f"{attempt.epoch} {attempt.state} {attempt.failure}" for attempt in client.attempts(workload_id)]
            often_enough = starts[workload_id] in kind.starts or not self.exact
            as_it_must = result.state in ((kind.state,) if self.exact else (kind.state, kind.after_loss))
            if not as_it_must or not often_enough:
                wrong.append(f"{kind.name} {workload_id}: {result.state}, {starts[workload_id]} starts, {told}")
            if kind.state == "succeeded" and "outputs" in kind.fields:
                (artifact,) = client.artifacts(workload_id)
                assert artifact.size_bytes == 3
            check_account(client, workload_id, result.state)
        assert not wrong, "\n".join(wrong)
        assert starts.keys() <= set(self.ids.values()), "a program ran that nobody submitted"


def check_account(client: Client, workload_id: str, state: str) -> None:
    """The events alone lead to where the record is, step by step, and no epoch was intended or permitted twice."""
    events = list(client.events(workload_id))
    at: dict[int | None, str | None] = {}
    for event in events:
        if event.kind in (EventKind.ACCEPTED, EventKind.INTENT_SENT, EventKind.MOVED, EventKind.ATTEMPT_MOVED):
            whose = None if event.kind in (EventKind.ACCEPTED, EventKind.MOVED) else event.epoch
            if event.kind != EventKind.INTENT_SENT or event.to_state is not None:  # a cancel is no move
                assert event.from_state == at.get(whose), f"{workload_id}: {event} after {at.get(whose)}"
                at[whose] = event.to_state
    assert at.pop(None) == state
    assert at == {attempt.epoch: attempt.state for attempt in client.attempts(workload_id)}
    grants = Counter(event.epoch for event in events if event.kind == EventKind.PERMIT_GRANTED)
    assert set(grants.values()) <= {1}, f"{workload_id}: granted {grants}"


def seed() -> int:
    """The seed of this run, printed so that a failure shows it."""
    drawn = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={drawn}")  # noqa: T201 - a failing schedule is found again by its seed
    return drawn


def settle(mixture: Mixture) -> None:
    """The servers live in peace from here on: everything ends, and ends as it must."""
    for server in mixture.servers:
        server.wait_ready()
    mixture.wait_submitted()
    with mixture.servers[0].client() as client:
        mixture.wait_finished(client, PATIENCE_S)
        mixture.check(client)
    gc.collect()  # what the interrupted connections left is complained of here, not in another test


def nothing_left(folder: Path, local: Path) -> None:
    """No attempt's folder and no process but servers and the supervisor."""

    def left() -> list[str]:
        attempts = [path.name for path in (local / "attempts").iterdir()]
        strangers = [
            line for line in processes_of(folder).values() if "supervisor.py" not in line and "run_server" not in line
        ]
        return attempts + strangers

    seen: list[str] = []

    def nothing() -> bool:
        seen[:] = left()
        return not seen

    try:
        wait_until(nothing, 20, "everything to be released")
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None
