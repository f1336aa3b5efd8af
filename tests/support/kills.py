"""One kill at one failpoint: a server, a few workloads of all kinds, the kill, the restart, and what became of it all.

The server or the supervisor dies at the moment itself, by its own hand; nobody has to hit it from outside.
"""

import os
import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from placet.adapters.providers.local.link import RUNNER
from placet.adapters.providers.local.machine import interpreter
from placet.contract.words import Scope
from placet.domain.records import EventKind
from placet.domain.states import AttemptState, IntentVerb, WorkloadState
from placet.failpoints import POINTS, VARIABLE, Point, attempt_point, intent_point, workload_point
from placet.runner import failpoints as runner
from placet.runner.service import TAKEN
from placet.sdk.client import Client
from placet.sdk.errors import ClientError
from tests.support.mixture import COUNTED, PATIENCE_S, Kind, Mixture, nothing_left
from tests.support.servers import Marks, Nursery, ServerProcess, make_marks, servers, supervisors_of
from tests.support.waiting import wait_until

SIDES = ("before", "after")


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The moment of the kill. ``first`` is an earlier kill, which leaves what this one is about."""

    point: str
    side: str
    passes: int = 1
    first: "Cut | None" = None

    @property
    def moment(self) -> str:
        return f"{self.point}.{self.side}"

    @property
    def of_runner(self) -> bool:
        return self.point in runner.POINTS

    @property
    def loses(self) -> bool:
        """Does a supervisor die in it, so that what ran is lost and tried again?"""
        return self.of_runner or (self.first is not None and self.first.loses)

    @property
    def name(self) -> str:
        before = "" if self.first is None else f" after {self.first.name}"
        return self.moment + (f" pass {self.passes}" if self.passes > 1 else "") + before

    def asked(self, mark: Path) -> dict[str, str]:
        return {VARIABLE: f"{self.moment}:{self.passes}:{mark}"}


@dataclass(kw_only=True)
class Verdict:
    """``reached`` is false when nothing passed the point; ``fault`` says what was wrong in the end."""

    cut: Cut
    store: str
    reached: bool = False
    fault: str = ""
    took_s: float = 0.0

    @property
    def word(self) -> str:
        return "FAULT" if self.fault else "right" if self.reached else "not reached"


# A loss in which a program was running, and a submit that nobody ever sent.
LOSS = Cut(point="runner.start", side="after")
UNSENT = Cut(point=Point.SUBMIT, side="before")
# A submit whose answer nobody heard.
UNHEARD = Cut(point=Point.SUBMIT, side="after")
ANY = Cut(point=Point.ACCEPT, side="after")

# What is only there to be passed after an earlier kill.
AFTERWARDS: Mapping[str, Cut] = {
    Point.SUCCESSION: ANY,
    attempt_point(AttemptState.SUBMITTED): UNHEARD,
    attempt_point(AttemptState.UNKNOWN): UNSENT,
    attempt_point(AttemptState.REFUSED): UNSENT,
    attempt_point(AttemptState.LOST): LOSS,
    "runner.kill-leftovers": LOSS,
    "runner.recovery": LOSS,
}
# What these few workloads on this machine do not come by, and who does.
ELSEWHERE: Mapping[str, str] = {
    workload_point(WorkloadState.ACCEPTED): f"it is the point `{Point.ACCEPT}`",
    intent_point(IntentVerb.RELEASE): "a release is repeated until it is proven and has no intent",
    Point.PERMIT_REFUSAL: "takes a cancel between a submit and its permit: tests/sim/test_engine.py",
    Point.BUDGET: "takes an operator: tests/e2e/test_budgets.py",
    Point.ORPHANS: "takes a provider that lists what nobody owns: tests/e2e/test_orphans.py",
    Point.SECRET: "takes a secret: tests/e2e/test_secrets.py",
    Point.HOOK: "takes a webhook: tests/e2e/test_webhooks.py",
    Point.HOOK_SENT: "takes a webhook: tests/e2e/test_webhooks.py",
    Point.SWEEP: "takes a create that lands after its attempt was given up: tests/e2e/test_orphans.py",
    "runner.record.ready.json": "takes a package index: tests/e2e/test_supervisor_python.py",
    "runner.environment": "takes a package index: tests/e2e/test_supervisor_python.py",
    "runner.record.inputs.json": "takes a web server: tests/e2e/test_supervisor_files.py",
    "runner.input": "takes a web server: tests/e2e/test_supervisor_files.py",
    "runner.record.input": "takes an input given as text, which no spec can have yet",
}


def cuts(*, passes: Sequence[int] = (1,)) -> list[Cut]:
    """Every moment that can be reached here, in the order of the registries."""
    return [
        Cut(point=str(point), side=side, passes=number, first=AFTERWARDS.get(point))
        for point in (*POINTS, *runner.POINTS)
        if point not in ELSEWHERE
        for side in SIDES
        for number in passes
    ]


def few_kinds(marks: Marks) -> tuple[Kind, ...]:
    """One of each ending, and one of each way to get there."""
    counted = COUNTED.format(marks=marks.file)
    retry: dict[str, object] = {"retry": {"attempts": 2, "backoff_seconds": 0.05}}
    output: dict[str, object] = {"outputs": [{"name": "answer", "path": "answer.txt"}]}
    soon: dict[str, object] = {"constraints": {"deadline": "+1s"}}
    return (
        Kind(name="with an output", body="echo said; echo 42 > answer.txt", fields=output),
        Kind(name="quick", body=":"),
        Kind(name="second time lucky", body=f"{counted}; [ $times -ge 2 ] || exit 3", starts=(2,), fields=retry),
        Kind(name="never", body="exit 4", state="failed", starts=(2,), fields=retry),
        Kind(name="cancelled", body="sleep 600", state="cancelled", cancelled=True, once_started=True),
        Kind(name="a script", body="", starts=(0,), fields={"runtime": {"type": "python", "script_text": "print(1)"}}),
        Kind(name="too late", body="sleep 600", state="expired", after_loss="failed", starts=(0, 1), fields=soon),
    )


@dataclass(kw_only=True)
class Sweep:
    """Kills at one moment after the other, each in a folder of its own."""

    nursery: Nursery
    folder: Path
    store: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def kill(self, cut: Cut) -> Verdict:
        """Everything must end as it does without the kill; what does not is the verdict's ``fault``."""
        verdict = Verdict(cut=cut, store=self.store)
        began_s = monotonic()
        try:
            verdict.reached = self._kill(cut)
        except (AssertionError, ClientError) as error:
            verdict.fault = str(error)
        verdict.took_s = monotonic() - began_s
        return verdict

    def _kill(self, cut: Cut) -> bool:
        self.folder.mkdir(parents=True)
        marks = make_marks(self.folder)
        with servers(self.nursery, self.folder, dict(self.settings), start=False) as [server]:
            stages = [each for each in (cut.first, cut) if each is not None]
            mixture: Mixture | None = None
            for number, stage in enumerate(stages):
                mark = self.folder / f"mark-{number}"
                self._launch_armed(server, stage, mark)
                mixture = mixture or self._mixture(server, marks, cut)
                self._wait_killed(server, mixture, stage, mark)
                server.kill()
            reached = (self.folder / f"mark-{len(stages) - 1}").exists()
            assert mixture is not None
            self._settle(server, mixture)
        return reached

    def _launch_armed(self, server: ServerProcess, stage: Cut, mark: Path) -> None:
        if stage.of_runner:
            start_supervisor(server.data_dir / "local", stage.asked(mark))
            server.settings = self.settings
        else:
            server.settings = {**self.settings, **stage.asked(mark)}
        server.launch()

    def _mixture(self, server: ServerProcess, marks: Marks, cut: Cut) -> Mixture:
        kinds = few_kinds(marks)
        mixture = Mixture(
            servers=[server], marks=marks, count=len(kinds), chance=random.Random(1), of=kinds, exact=not cut.loses
        )
        if cut.point in (Point.QUOTE_KEY, Point.REVOCATION):
            mixture.errand(errand)
        return mixture

    def _wait_killed(self, server: ServerProcess, mixture: Mixture, stage: Cut, mark: Path) -> None:
        """Until the point was passed, or everything has ended without it."""

        def over() -> bool:
            if stage.of_runner and mark.exists():
                return True
            if not server.alive:
                assert mark.exists(), f"the server ended by itself:\n{server.log[-4000:]}"
                return True
            return mixture.ended()

        wait_until(over, PATIENCE_S, f"a kill at {stage.name}")
        if not mark.exists():
            server.close()  # what is passed on the way out
            assert mark.exists() or "Traceback" not in server.log, server.log[-4000:]

    def _settle(self, server: ServerProcess, mixture: Mixture) -> None:
        server.settings = self.settings
        server.start()
        mixture.wait_submitted()
        with server.client() as client:
            mixture.wait_finished(client, PATIENCE_S)
            mixture.check(client)
            for workload_id in mixture.ids.values():
                check_result(client, workload_id)
        nothing_left(self.folder, server.data_dir / "local")
        assert "Traceback" not in server.log, server.log[-4000:]
        server.close()


def errand(client: Client) -> None:
    """What else writes."""
    client.estimate(command=["true"])
    issued = client.create_token("short-lived", [Scope.READ])
    client.revoke_token(issued.id)


def check_result(client: Client, workload_id: str) -> None:
    """One result, told the same twice, and told of by one event."""
    told = client.result_text(workload_id)
    assert told == client.result_text(workload_id)
    finals = [
        event
        for event in client.events(workload_id)
        if event.kind == EventKind.MOVED and WorkloadState(event.to_state or "").final
    ]
    assert len(finals) == 1, f"{workload_id}: {finals}"


def start_supervisor(folder: Path, environment: Mapping[str, str]) -> None:
    """One that dies at its moment, in place of any that is there; servers take the one that they find."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [interpreter(), "-I", "-S", str(RUNNER), f"--data={folder}", "--idle-exit-s=20"]
    surroundings = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **environment}

    def ours() -> bool:
        for pid in supervisors_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        done = subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, timeout=20, check=False, cwd="/")
        return done.stdout != TAKEN  # one may have been on its way that is not to be seen yet

    wait_until(ours, 20, "the folder to be free for a supervisor")
