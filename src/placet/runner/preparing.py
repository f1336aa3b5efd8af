"""What happens between the permit and the start: the environment is built, the inputs are brought into place."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat

from placet.runner import causes, program
from placet.runner.environments import Environments, is_network_trouble
from placet.runner.faults import NO_SPACE, said
from placet.runner.records import read_record, write_bytes, write_record
from placet.runner.spawn import fork_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.attempt import Attempt
    from placet.runner.launch import Input
    from placet.runner.world import World

    Json = Dict[str, Any]
    Prepared = Callable[[Attempt, str], None]
    Failed = Callable[[Attempt, str, str], None]


class Preparing:
    """Calls ``prepared`` with the interpreter, or ``failed`` with a cause and a sentence."""

    def __init__(self, world: World, environments: Environments, prepared: Prepared, failed: Failed) -> None:
        self._world = world
        self._environments = environments
        self._prepared = prepared
        self._failed = failed

    def begin(self, attempt: Attempt) -> None:
        """Prepare a permitted attempt."""
        try:
            program.make_folders(self._world, attempt)
            python = attempt.launch.python
            if python is not None and python.text is not None:
                write_bytes(attempt.path("script.py"), python.text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            self._failed(attempt, causes.CAUSE_START_FAILED, f"cannot make its folders: {said(error)}")
            return
        if attempt.launch.python is None:
            self._inputs(attempt, "")
            return
        attempt.enter(causes.ENVIRONMENT)
        self._world.changed(attempt)
        self._environments.need(attempt, lambda interpreter, failure: self._built(attempt, interpreter, failure))

    def abandon(self, attempt: Attempt) -> None:
        """Stop preparing; nothing is called back any more."""
        self._environments.leave(attempt)
        if attempt.errand_pid:
            with contextlib.suppress(OSError):
                os.killpg(attempt.errand_pid, signal.SIGKILL)
            attempt.errand_pid = 0

    def _built(self, attempt: Attempt, interpreter: str, failure: str) -> None:
        if attempt.phase != causes.ENVIRONMENT:
            return
        if failure:
            attempt.note("network_trouble", is_network_trouble(failure))
            self._failed(attempt, causes.CAUSE_ENVIRONMENT, failure)
            return
        self._inputs(attempt, interpreter)

    def _inputs(self, attempt: Attempt, interpreter: str) -> None:
        if not attempt.launch.inputs:
            self._prepared(attempt, interpreter)
            return
        attempt.enter(causes.INPUTS)
        self._world.changed(attempt)
        remote = [item for item in attempt.launch.inputs if item.kind == "http"]
        for item in attempt.launch.inputs:
            try:
                if item.kind != "http":
                    _place(attempt, item)
            except OSError as error:
                self._failed(
                    attempt,
                    causes.CAUSE_INPUT,
                    f"input {item.name!r}: {said(error) if error.errno in NO_SPACE else error}",
                )
                return
        if not remote:
            self._prepared(attempt, interpreter)
            return
        try:
            pid = fork_call(lambda: _fetch_all(attempt, remote))
        except OSError as error:
            self._failed(attempt, causes.CAUSE_START_FAILED, f"cannot start the download: {said(error)}")
            return
        attempt.errand_pid = pid
        self._world.loop.child(pid, lambda status, _usage: self._fetched(attempt, pid, status, interpreter))

    def _fetched(self, attempt: Attempt, pid: int, status: int, interpreter: str) -> None:
        if attempt.errand_pid != pid:
            return
        attempt.errand_pid = 0
        report = read_record(attempt.path("inputs.json")) or {}
        if status == 0 and not report.get("failure"):
            attempt.note("inputs", report.get("fetched"))
            self._prepared(attempt, interpreter)
            return
        self._failed(attempt, causes.CAUSE_INPUT, str(report.get("failure") or "the download ended unexpectedly"))


def _place(attempt: Attempt, item: Input) -> None:
    """Make a local input visible.

    A link and not a copy: inputs can be far larger than the free space, and a hard link would let the program change
    the original as easily. Inside the sandbox the same path is bound read-only; without it the evidence says that
    nothing protects the original.
    """
    target = attempt.path("inputs", item.name)
    if item.kind == "text":
        write_bytes(target, item.source.encode("utf-8", "surrogateescape"))
        os.chmod(target, 0o400)
        return
    mode = os.stat(item.source).st_mode
    if stat.S_ISDIR(mode):
        os.listdir(item.source)
    elif stat.S_ISREG(mode):
        with open(item.source, "rb"):
            pass
    else:
        # Opening a pipe or a device may wait for ever, and everything else with it.
        raise OSError(errno.EINVAL, "neither a file nor a folder", item.source)
    os.symlink(os.path.realpath(item.source), target)


def _fetch_all(attempt: Attempt, remote: list[Input]) -> None:
    """Runs in a child of its own: the guarded client blocks, the loop must not; only here its modules are loaded."""
    from placet.runner import fetch

    most_bytes = attempt.launch.limits.disk_bytes or fetch.BYTES_MAX
    fetched: Json = {}
    failure = ""
    for item in remote:
        try:
            got = fetch.fetch(
                item.source,
                attempt.path("inputs", item.name),
                allowed_hosts=attempt.launch.allowed_hosts,
                bytes_max=most_bytes,
                sha256=item.sha256,
            )
        except fetch.Refused as error:
            failure = f"input {item.name!r}: {error}"
            break
        fetched[item.name] = got
    write_record(attempt.path("inputs.json"), {"fetched": fetched, "failure": failure})
