"""The time in which user code may run: start, watch the bounds, end it, make sure that nothing of it is left,
record.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from functools import partial

from placet.runner import causes, failpoints, processes, program
from placet.runner.disk import CutFiles, Tally
from placet.runner.faults import said
from placet.runner.loop import signalled
from placet.runner.records import wall_ms, write_record
from placet.runner.streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Callable

    from placet.runner.attempt import Attempt
    from placet.runner.spawn import Program
    from placet.runner.world import World

    Then = Callable[[Attempt], None]

LEFT_ALIVE_FIRST_S = 0.002
LEFT_ALIVE_MOST_S = 1.0
DISK_SCAN_S = 0.5
HELD_PIPE_S = 0.2
RECORD_AGAIN_S = 1.0
# Files carry the time of the kernel's last tick, which is a little behind the clock.
FILE_TIME_BEHIND_S = 1.0
# A working folder of the user's may be anything; its own folders are looked at before it.
LOOKED_AT_MOST = 100_000
# This process is in the group for the moment in which it starts the program.
ROOM_FOR_US = 8


class Running:
    """Runs attempts one by one through ``start`` to their exit record, then calls ``exited``."""

    def __init__(self, world: World, exited: Then) -> None:
        self._world = world
        self._exited = exited

    def start(self, attempt: Attempt, interpreter: str = "") -> None:
        """Start the program of a prepared attempt."""
        try:
            self._start(attempt, interpreter)
        except OSError as error:
            self.end_unstarted(attempt, causes.CAUSE_START_FAILED, "cannot be started: " + str(error))
            return
        limits = attempt.launch.limits
        later = self._world.loop.later
        if limits.runtime_s is not None:
            attempt.timers["runtime"] = later(limits.runtime_s, lambda: self._overdue(attempt))
        if limits.disk_bytes is not None:
            attempt.timers["disk"] = later(DISK_SCAN_S, lambda: self._scan(attempt, None))
        self._world.gauge.watch(attempt, self._world.settings.path)

    def end(self, attempt: Attempt, cause: str, detail: str, grace_s: float) -> None:
        """Ask the program to end, and make it end after the grace time. The first cause stays; a shorter grace
        counts.
        """
        if attempt.ending is None:
            attempt.ending = cause
            attempt.ending_detail = detail
            attempt.enter(causes.STOPPING)
            self._world.changed(attempt)
            if grace_s > 0 and attempt.ended_ticks is None:
                self._terminate(attempt)
        earlier = attempt.timers.pop("grace", None)
        if earlier is not None:
            earlier.cancel()
        attempt.timers["grace"] = self._world.loop.later(grace_s, lambda: self._kill(attempt))

    def end_unstarted(self, attempt: Attempt, cause: str, detail: str) -> None:
        """Record the end of an attempt whose program never began."""
        attempt.ended_as(cause, detail)
        attempt.ran = False
        self._close_report(attempt)
        for stream in list(attempt.streams.values()):
            stream.close()
        self._settle(attempt)

    def _start(self, attempt: Attempt, interpreter: str) -> None:
        world = self._world
        launch = attempt.launch
        attempt.sandboxed = launch.wants_sandbox and world.bubblewrap is not None
        limits = launch.limits
        try:
            attempt.group = world.groups.acquire(limits.memory_bytes, limits.cpu_cores, limits.processes)
        except OSError as error:
            # No bound could be set: that is this machine's failure and says nothing about the program.
            self.end_unstarted(attempt, causes.CAUSE_MACHINE, f"no control group could be made: {said(error)}")
            return
        ends: list[int] = []
        try:
            for name in (causes.STDOUT, causes.STDERR):
                path = attempt.path("logs", name)
                closed = partial(self._stream_closed, attempt)
                stream = Stream(world.loop, name, path, limits.log_bytes, closed, attempt.masked())
                ends.append(stream.open())
                attempt.streams[name] = stream
            what = program.describe(world, attempt, ends[0], ends[1], interpreter)
            attempt.note("mechanisms", program.held_by(world, attempt))
            attempt.enter(causes.STARTING)
            failpoints.before("runner.start")
            if self._start_at_once(attempt, what):
                return
            attempt.report, what.report = self._report_channel(attempt.sandboxed)
            ends.append(what.report)
            if attempt.sandboxed:
                what.kept = what.report
                what.argv = [str(what.report) if word == "{channel}" else word for word in what.argv]
            what.groups = attempt.group.join if attempt.group else ()
            attempt.pid = world.spawner.start(what)
        finally:
            for end in ends:
                os.close(end)
        self._watch_main(attempt)
        world.loop.watch(attempt.report, lambda: self._read_report(attempt))

    def _start_at_once(self, attempt: Attempt, what: Program) -> bool:
        """The cheap way, for a plain program in a plain group: no copy of this process and no wait for a report."""
        world = self._world
        group = attempt.group
        plain = not what.limits and not attempt.sandboxed and attempt.launch.workdir is None
        if group is None or not group.pooled or not world.groups.visits or not plain:
            return False
        path = world.spawner.find(what)
        if path is None or attempt.launch.limits.processes < ROOM_FOR_US:
            return False
        world.groups.enter(group)
        try:
            attempt.pid = world.spawner.start_at_once(what, path)
        except OSError as error:
            attempt.note("start_errno", errno.errorcode.get(error.errno or 0, str(error.errno)))
            attempt.note("start_step", "exec")
            raise
        finally:
            world.groups.leave()
        self._watch_main(attempt)
        self._begun(attempt)
        return True

    def _watch_main(self, attempt: Attempt) -> None:
        failpoints.after("runner.start")
        self._world.loop.child(attempt.pid, lambda status, usage: self._main_ended(attempt, status, usage))

    def _report_channel(self, sandboxed: bool) -> tuple[int, int]:
        if not sandboxed:
            read_end, write_end = os.pipe()
            os.set_blocking(read_end, False)
            return read_end, write_end
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        return ours.detach(), theirs.detach()

    # What the starting child says.

    def _read_report(self, attempt: Attempt) -> None:
        while attempt.report >= 0:
            try:
                said = os.read(attempt.report, 4096)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            for line in said.decode("ascii", "replace").splitlines():
                self._reported(attempt, line.split())
            if not said:
                if not attempt.sandboxed and "start_errno" not in attempt.evidence:
                    self._begun(attempt)
                self._close_report(attempt)

    def _reported(self, attempt: Attempt, words: list[str]) -> None:
        if words[0] == "S":
            self._begun(attempt)
        elif words[0] == "X":
            attempt.inner_status = int(words[1])
        elif words[0] == "E":
            number = int(words[1])
            attempt.note("start_errno", errno.errorcode.get(number, str(number)))
            attempt.note("start_step", words[2])

    def _begun(self, attempt: Attempt) -> None:
        if attempt.ran:
            return
        attempt.ran = True
        attempt.started_ms = wall_ms()
        if attempt.phase == causes.STARTING:
            attempt.enter(causes.RUNNING)
        self._world.changed(attempt)

    def _close_report(self, attempt: Attempt) -> None:
        if attempt.report >= 0:
            self._world.loop.unwatch(attempt.report)
            os.close(attempt.report)
            attempt.report = -1

    # The bounds.

    def _overdue(self, attempt: Attempt) -> None:
        limits = attempt.launch.limits
        self.end(attempt, causes.CAUSE_TIMEOUT, f"ran longer than {limits.runtime_s or 0:g} s", limits.grace_s)

    def _scan(self, attempt: Attempt, tally: Tally | None) -> None:
        most = attempt.launch.limits.disk_bytes or 0
        if tally is None:
            tally = Tally(_own(attempt))
        total = tally.step()
        if total is None and tally.total_bytes <= most:
            attempt.timers["disk"] = self._world.loop.later(0.0, lambda: self._scan(attempt, tally))
            return
        attempt.usage["disk_bytes"] = tally.total_bytes
        if tally.total_bytes > most:
            self.end(attempt, causes.CAUSE_DISK_LIMIT, f"wrote more than {most} bytes", 0.0)
            return
        attempt.timers["disk"] = self._world.loop.later(DISK_SCAN_S, lambda: self._scan(attempt, None))

    # The end.

    def _terminate(self, attempt: Attempt) -> None:
        if attempt.sandboxed and attempt.report >= 0:
            try:
                os.write(attempt.report, b"T")
            except OSError:
                self._kill(attempt)
            return
        try:
            os.killpg(attempt.pid, signal.SIGTERM)
        except OSError:
            # Not yet the leader of its own session: it has not begun.
            processes.kill([attempt.pid])

    def _kill(self, attempt: Attempt) -> None:
        if attempt.group is not None:
            attempt.group.kill()
        else:
            processes.kill(processes.belonging(attempt.key, attempt.pid, attempt.ended_ticks))
        if attempt.ended_ticks is None:
            # The main process may not have joined its group yet. Once it is reaped, its number may be a stranger's.
            processes.kill([attempt.pid])
        if "grace" in attempt.timers:
            attempt.timers["grace"] = self._world.loop.later(LEFT_ALIVE_MOST_S, lambda: self._kill(attempt))

    def _main_ended(self, attempt: Attempt, status: int, usage: resource.struct_rusage) -> None:
        failpoints.before("runner.reaped")
        attempt.cancel_timers()
        self._world.gauge.leave(attempt)
        attempt.ended_ticks = processes.ticks_now()
        self._read_report(attempt)
        self._close_report(attempt)
        attempt.exited_ms = wall_ms()
        attempt.usage["cpu_s"] = round(usage.ru_utime + usage.ru_stime, 6)
        attempt.usage["peak_memory_bytes"] = usage.ru_maxrss * 1024
        if attempt.sandboxed and attempt.inner_status is not None:
            status = attempt.inner_status
        failpoints.after("runner.reaped")
        self._contain(attempt, status, LEFT_ALIVE_FIRST_S)

    def _contain(self, attempt: Attempt, status: int, pause_s: float) -> None:
        """The main process's end is the end: whatever it left behind is killed before anything is recorded."""
        left = self._alive(attempt)
        if not left:
            self._conclude(attempt, status)
            return
        attempt.note("left_alive", max(len(left), int(attempt.evidence.get("left_alive", 0))))
        if attempt.group is not None:
            attempt.group.kill()
        else:
            processes.kill(left)
        again_s = min(pause_s * 2, LEFT_ALIVE_MOST_S)
        attempt.timers["contain"] = self._world.loop.later(pause_s, lambda: self._contain(attempt, status, again_s))

    def _alive(self, attempt: Attempt) -> list[int]:
        if attempt.group is not None:
            return attempt.group.members()
        return processes.belonging(attempt.key, attempt.pid, attempt.ended_ticks)

    def _conclude(self, attempt: Attempt, status: int) -> None:
        attempt.cancel_timers()
        attempt.logs = attempt.logs or {}
        for stream in list(attempt.streams.values()):
            stream.drain()
        if not all(stream.done for stream in attempt.streams.values()):
            # Only a process outside the attempt can still hold the pipe.
            attempt.timers["pipes"] = self._world.loop.later(HELD_PIPE_S, lambda: self._abandon_pipes(attempt, status))
            return
        if attempt.launch.limits.disk_bytes is not None and attempt.ending is None and attempt.ran and status != 0:
            since_s = (attempt.started_ms or 0) / 1000 - FILE_TIME_BEHIND_S
            most = attempt.launch.limits.disk_bytes
            cut = CutFiles(_written(self._world, attempt), most, since_s, LOOKED_AT_MOST)
            self._measure(attempt, status, Tally(_own(attempt)), cut)
            return
        self._classify(attempt, status)
        self._settle(attempt)

    def _measure(self, attempt: Attempt, status: int, used: Tally, cut: CutFiles) -> None:
        """What failed beside its disk limit: was the limit reached?

        The signal says so only of the main process. A shell reports a child that died of it as a number, a program
        that ignores it sees a failed write; but the file that was cut is then as long as the limit.
        """
        most = attempt.launch.limits.disk_bytes or 0
        if used.step() is None or cut.step() is None:
            attempt.timers["measure"] = self._world.loop.later(0.0, lambda: self._measure(attempt, status, used, cut))
            return
        attempt.usage["disk_bytes"] = used.total_bytes
        if cut.count:
            attempt.note("disk_limit_reached", f"a file of {most} bytes")
        elif used.total_bytes > most:
            attempt.note("disk_limit_reached", f"{used.total_bytes} bytes in all")
        self._classify(attempt, status)
        self._settle(attempt)

    def _abandon_pipes(self, attempt: Attempt, status: int) -> None:
        for stream in list(attempt.streams.values()):
            stream.drain()
            if not stream.done:
                attempt.note("pipe_held_by_a_stranger", stream.name)
                stream.close()
        self._conclude(attempt, status)

    def _classify(self, attempt: Attempt, status: int) -> None:
        ended_ms = attempt.exited_ms
        attempt.exit_code, attempt.signal = signalled(status)
        ooms = 0
        if attempt.group is not None:
            ooms = attempt.group.oom_kills_since_start()
            peak = attempt.group.peak_memory_bytes()
            if peak is not None:
                attempt.usage["peak_memory_bytes"] = peak
        elif self._world.ambient is not None:
            ooms = self._world.ambient.oom_kills_since_start()
        if ooms:
            attempt.note("oom_kills", ooms)
        attempt.ended_as(*_cause(attempt, ooms))
        attempt.exited_ms = ended_ms
        if attempt.cause == causes.CAUSE_START_FAILED:
            attempt.exit_code = None
            attempt.signal = None

    def _settle(self, attempt: Attempt) -> None:
        """Free what the attempt held and write the exit record; nothing is told before that is done."""
        attempt.cancel_timers()
        attempt.enter(causes.EXITED)
        if attempt.group is not None:
            self._world.groups.give_back(attempt.group)
            attempt.group = None
        self._world.capacity.give_back(attempt.key)
        self._world.capacity_changed = True
        self._record(attempt)

    def _record(self, attempt: Attempt) -> None:
        try:
            write_record(attempt.path("exit.json"), attempt.exit_record())
        except OSError as error:
            if os.path.isdir(attempt.folder):
                # A full disk passes; an outcome that was told and then forgotten would not.
                attempt.note("record_delayed_by", said(error))
                attempt.timers["record"] = self._world.loop.later(RECORD_AGAIN_S, lambda: self._record(attempt))
                return
            attempt.note("record_impossible", "the folder of the attempt was deleted")
        attempt.recorded = True
        self._world.changed(attempt)
        self._exited(attempt)

    def _stream_closed(self, attempt: Attempt) -> None:
        """Nothing to do: the end of the main process decides, and it drains."""


def _own(attempt: Attempt) -> list[str]:
    """The folders whose contents count against the disk limit."""
    return [attempt.path(name) for name in attempt.folders]


def _written(world: World, attempt: Attempt) -> list[str]:
    """Where a file can be that its program wrote and the limit cut; what we fetched for it was not written by it."""
    folders = [attempt.path(name) for name in attempt.folders if name != "inputs"]
    if attempt.launch.checkpoints:
        folders.append(program.checkpoints(world, attempt))
    # A tally takes the last first.
    return [attempt.launch.workdir, *folders] if attempt.launch.workdir else folders


def _cause(attempt: Attempt, ooms: int) -> tuple[str, str]:
    """The cause by proof, and a sentence."""
    if attempt.ending is not None:
        return attempt.ending, attempt.ending_detail
    if not attempt.ran:
        step = attempt.evidence.get("start_step", "sandbox")
        name = attempt.evidence.get("start_errno", "")
        number = getattr(errno, str(name), 0)
        reason = os.strerror(number) if number else "the sandbox could not be set up, see stderr"
        return causes.CAUSE_START_FAILED, f"could not begin ({step}): {reason}"
    if ooms and attempt.exit_code != 0:
        return causes.CAUSE_OOM, f"the kernel killed {ooms} of its processes for lack of memory"
    if attempt.signal == signal.SIGXFSZ:
        return causes.CAUSE_DISK_LIMIT, "wrote a file longer than the disk limit"
    reached = attempt.evidence.get("disk_limit_reached")
    if reached and attempt.signal is None:
        return causes.CAUSE_DISK_LIMIT, f"exited with code {attempt.exit_code} at the disk limit: left {reached}"
    if attempt.signal == signal.SIGKILL:
        return causes.CAUSE_KILLED, "killed by SIGKILL from outside; nothing proves why"
    if attempt.signal is not None:
        return causes.CAUSE_SIGNALLED, f"ended by {_signal_name(attempt.signal)}"
    return causes.CAUSE_EXITED, f"exited with code {attempt.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
