"""One attempt as the runner knows it, and the two documents made from it: the exit record and the observation."""

from __future__ import annotations

import time

from placet.runner import causes
from placet.runner.records import wall_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from placet.runner.groups import Group
    from placet.runner.launch import Launch
    from placet.runner.loop import Timer
    from placet.runner.masking import Mask, Masked
    from placet.runner.streams import Stream

    Json = Dict[str, Any]

EVIDENCE_TEXT_MAX = 4096
FOLDERS = ("work", "tmp", "outputs", "inputs")


class Attempt:
    """Mutable state of one attempt; everything that must outlive the supervisor is in its folder."""

    def __init__(self, launch: Launch, folder: str, incarnation: str) -> None:
        self.launch = launch
        self.key = launch.key
        self.folder = folder
        self.incarnation = incarnation
        self.sequence = 0
        self.phase = ""
        self.phases: list[Json] = []
        # When it was accepted; a later supervisor reads it from the disk.
        self.created_ms: int | None = None
        self._phase_began_s: float | None = None  # not of this process
        # The permit: None until a controller answered.
        self.permit: bool | None = None
        self.permit_asks = 0
        # The running program.
        self.pid = 0
        # When the main process was reaped; its number may belong to a stranger from then on.
        self.ended_ticks: int | None = None
        self.report = -1
        self.sandboxed = False
        self.inner_status: int | None = None
        self.group: Group | None = None
        self.streams: dict[str, Stream] = {}
        self._mask: Mask | None = None
        # The log of an environment in the making, which belongs to its build.
        self.install: Stream | None = None
        self.timers: dict[str, Timer] = {}
        self.errand_pid = 0
        # Why it is being ended, once it is; the first reason stays.
        self.ending: str | None = None
        self.ending_detail = ""
        # The end.
        self.cause: str | None = None
        self.detail = ""
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.ran: bool | None = False
        self.started_ms: int | None = None
        self.exited_ms: int | None = None
        self.usage: Json = {}
        self.evidence: Json = {}
        self.logs: Json = {}
        self.delivery: Json = {"outputs": [], "missing": [], "skipped": []}
        # What stands in the way of the outputs, or did in the end; it says nothing of how the program ended.
        self.problem = ""
        # Nothing of the end is told before its record is on the disk.
        self.recorded = False
        self.release_wanted = False

    @property
    def live(self) -> bool:
        """Whether something of it may still run or must still be collected."""
        return self.phase != causes.ENDED

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of its own: one is enough when nothing goes in or comes out."""
        launch = self.launch
        return FOLDERS if launch.inputs or launch.outputs or launch.wants_sandbox else FOLDERS[:1]

    def path(self, *parts: str) -> str:
        """A path in the attempt's folder."""
        return "/".join((self.folder, *parts))

    def masked(self) -> Masked | None:
        """A way through which no secret of the attempt comes; ``None`` where it has none."""
        hide = self.launch.hide
        if not hide:
            return None
        from placet.runner import masking  # few attempts have secrets

        if self._mask is None:
            self._mask = masking.Mask(self.launch.env[name] for name in hide)
        return masking.Masked(self._mask)

    def enter(self, phase: str) -> None:
        """Move to a phase and note how long the one before took."""
        now_s = time.monotonic()
        if self.phases:
            began_s, by_the_wall = self._phase_began_s, wall_ms() - self.phases[-1]["began_ms"]
            passed_ms = max(0, by_the_wall) if began_s is None else int((now_s - began_s) * 1000)
            self.phases[-1]["duration_ms"] = passed_ms
        self.phases.append({"phase": phase, "began_ms": wall_ms()})
        self._phase_began_s = now_s
        self.phase = phase
        self.sequence += 1

    def note(self, name: str, value: object) -> None:
        """Keep a piece of evidence, bounded."""
        self.evidence[name] = value[:EVIDENCE_TEXT_MAX] if isinstance(value, str) else value

    def cancel_timers(self) -> None:
        """Let none of its timers fire."""
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()

    def ended_as(self, cause: str, detail: str) -> None:
        """Settle how it ended."""
        self.cause = cause
        self.detail = detail[:EVIDENCE_TEXT_MAX]
        self.exited_ms = wall_ms()

    def exit_record(self) -> Json:
        """What ``exit.json`` holds: enough to rebuild the observation."""
        for name, stream in self.streams.items():
            self.logs[name] = stream.account()
        return {
            "key": self.key,
            "nonce": self.launch.nonce,
            "incarnation": self.incarnation,
            "sequence": self.sequence,
            "cause": self.cause,
            "detail": self.detail,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "ran": self.ran,
            "started_ms": self.started_ms,
            "exited_ms": self.exited_ms,
            "usage": self.usage,
            "evidence": self.evidence,
            "logs": self.logs,
            "phases": self.phases,
        }

    def restore(self, record: Json) -> None:
        """Take over an exit record of an earlier supervisor."""
        self.recorded = True
        self.incarnation = str(record.get("incarnation") or self.incarnation)
        self.sequence = int(record.get("sequence") or 0)
        self.cause = record.get("cause")
        self.detail = str(record.get("detail") or "")
        self.exit_code = record.get("exit_code")
        self.signal = record.get("signal")
        self.ran = record.get("ran")
        self.started_ms = record.get("started_ms")
        self.exited_ms = record.get("exited_ms")
        self.usage = record.get("usage") or {}
        self.evidence = record.get("evidence") or {}
        self.logs = record.get("logs") or {}
        self.phases = list(record.get("phases") or [])

    def observation(self) -> Json:
        """All that is known now."""
        ended = self.recorded
        launch = self.launch
        logs = dict(self.logs)
        if not ended:
            logs.update({name: stream.account() for name, stream in self.streams.items()})
            if self.install is not None:
                logs[causes.INSTALL] = {**self.install.account(), "sealed": False}
        document: Json = {
            "key": self.key,
            "nonce": launch.nonce,
            "deployment": launch.deployment,
            "workload_id": launch.workload_id,
            "epoch": launch.epoch,
            "incarnation": self.incarnation,
            "sequence": self.sequence,
            "phase": self.phase,
            "phases": self.phases,
            "observed_ms": wall_ms(),
            "created_ms": self.created_ms,
            "started_ms": self.started_ms,
            "ran": self.ran,
            "evidence": self.evidence,
            "logs": logs,
        }
        if ended:
            document.update(
                problem=self.problem,
                cause=self.cause,
                detail=self.detail,
                exit_code=self.exit_code,
                signal=self.signal,
                ended_ms=self.exited_ms,
                usage=self.usage,
            )
        if self.phase == causes.ENDED:
            document.update(self.delivery)
        return document
