"""Collects declared outputs of an ended attempt into ``collected/`` with sizes and digests, and writes the manifest.

Small sets are dealt with at once; anything larger by a child process, so that ten gigabytes do not stop the loop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from placet.runner import causes, failpoints
from placet.runner.faults import NO_SPACE
from placet.runner.records import read_record, write_record
from placet.runner.spawn import fork_call
from placet.runner.walk import Found, TooMuch, Walk, open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.attempt import Attempt
    from placet.runner.launch import Output
    from placet.runner.world import World

    Json = Dict[str, Any]
    Then = Callable[[Attempt], None]

AT_ONCE_BYTES = 4 * 1024 * 1024
AT_ONCE_ENTRIES = 256
PIECE_BYTES = 1024 * 1024
ENTRIES_MAX = 1_000_000
TRIES_MAX = 5
TRY_AGAIN_S = 0.2
TRY_AGAIN_MOST_S = 10.0
# So long outputs of a program that ended well wait for room on a full disk.
WAIT_FOR_SPACE_S = 1800.0
# The exit status of a collecting child that found no room.
STATUS_NO_SPACE = 2


class Collecting:
    """Brings an exited attempt to its end, then calls ``ended``."""

    def __init__(self, world: World, ended: Then) -> None:
        self._world = world
        self._ended = ended

    def begin(self, attempt: Attempt) -> None:
        """Collect what was declared; an attempt that never ran or declared nothing has nothing to collect."""
        if not attempt.launch.outputs or not os.path.isdir(attempt.path("work")):
            self._end(attempt)
            return
        manifest = read_record(attempt.path("outputs.json"))
        if manifest is None:
            settings = self._world.settings
            limit_s = settings.collect_limit_s
            attempt.enter(causes.COLLECTING)
            self._world.changed(attempt)
            try:
                outputs = attempt.launch.outputs
                manifest = collect(attempt.folder, outputs, AT_ONCE_ENTRIES, AT_ONCE_BYTES, settings.output_bytes)
            except (TooMuch, OSError):
                overdue = f"collecting took longer than {limit_s:g} s (local.collect_seconds)"
                attempt.timers["collect_limit"] = self._world.loop.later(limit_s, lambda: self.stop(attempt, overdue))
                self._fork(attempt, _Tries())
                return
        self._finish(attempt, manifest)

    def stop(self, attempt: Attempt, why: str) -> None:
        """Give up collecting; what was to be collected stays where it is until the attempt is released."""
        if attempt.phase != causes.COLLECTING:
            return
        if attempt.errand_pid:
            # It is not reaped before its number is forgotten, so the number is still its own.
            with contextlib.suppress(OSError):
                os.kill(attempt.errand_pid, signal.SIGKILL)
            attempt.errand_pid = 0
        self._give_up(attempt, why)

    def _fork(self, attempt: Attempt, tries: _Tries) -> None:
        outputs, output_bytes = attempt.launch.outputs, self._world.settings.output_bytes
        try:
            pid = fork_call(lambda: _collect_all(attempt.folder, outputs, output_bytes))
        except OSError:
            self._again(attempt, tries, "")
            return
        attempt.errand_pid = pid
        self._world.loop.child(pid, lambda status, _usage: self._collected(attempt, pid, status, tries))

    def _collected(self, attempt: Attempt, pid: int, status: int, tries: _Tries) -> None:
        if attempt.errand_pid != pid:
            return
        attempt.errand_pid = 0
        manifest = read_record(attempt.path("outputs.json"))
        if manifest is not None:
            self._finish(attempt, manifest)
            return
        no_space = os.WIFEXITED(status) and os.WEXITSTATUS(status) == STATUS_NO_SPACE
        self._again(attempt, tries, "no space left on the disk for the outputs" if no_space else "")

    def _again(self, attempt: Attempt, tries: _Tries, problem: str) -> None:
        """A full disk or a crowded machine passes; what a failed program left is not worth a long wait."""
        tries.count += 1
        waits = bool(problem) and attempt.exit_code == 0 and time.monotonic() - tries.began_s < WAIT_FOR_SPACE_S
        if not waits and tries.count >= TRIES_MAX:
            self._give_up(attempt, problem or f"collecting failed {tries.count} times; the supervisor's log says why")
            return
        if problem and problem != attempt.problem:
            attempt.problem = problem
            attempt.sequence += 1
            self._world.changed(attempt)
        pause_s = min(TRY_AGAIN_S * 4.0 ** min(tries.count - 1, 10), TRY_AGAIN_MOST_S)
        attempt.timers["collect"] = self._world.loop.later(pause_s, lambda: self._fork(attempt, tries))

    def _give_up(self, attempt: Attempt, problem: str) -> None:
        attempt.note("collection_failed", problem)
        missing = [output.name for output in attempt.launch.outputs]
        self._finish(attempt, {"outputs": [], "missing": missing, "skipped": [], "problem": problem})

    def _finish(self, attempt: Attempt, manifest: Json) -> None:
        attempt.cancel_timers()
        attempt.problem = str(manifest.pop("problem", ""))
        if attempt.problem:
            attempt.problem += f"; the files are still in {attempt.folder}"
        attempt.delivery = manifest
        self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        attempt.enter(causes.ENDED)
        self._world.changed(attempt)
        self._ended(attempt)


class _Tries:
    """How often and since when one collection was tried."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.count = 0


def collect(folder: str, outputs: list[Output], entries_max: int, bytes_max: int, output_bytes: int = 0) -> Json:
    """Collect and write the manifest; raises ``TooMuch`` before anything was touched when a bound is passed.

    Outputs that measure more than ``output_bytes`` together (0: than the disk could hold, so that holes are not
    hashed for hours) are left alone; the manifest then has a ``problem``. Raises ``OSError`` for a full disk.
    """
    plans = []
    skipped: list[Json] = []
    total = on_disk = 0
    for output in outputs:
        walk = Walk(os.path.join(folder, output.root), output.pattern, entries_max)
        total += sum(found.size_bytes for found in walk.files)
        on_disk += sum(found.disk_bytes for found in walk.files)
        plans.append((output, walk.files))
        skipped += [{"output": output.name, **item} for item in walk.skipped]
    problem = _too_large(folder, total, on_disk, output_bytes)
    if problem:
        return _refused(folder, outputs, problem)
    if total > bytes_max:
        raise TooMuch
    taking = _Taking(folder, skipped)
    for output, files in plans:
        taking.take_all(output, files)
    manifest = {"outputs": taking.outputs, "missing": taking.missing, "skipped": taking.skipped}
    write_record(os.path.join(folder, "outputs.json"), manifest)
    return manifest


def _too_large(folder: str, total: int, on_disk: int, output_bytes: int) -> str:
    """Files without holes measure what they take on the disk, give or take a block each: those are never too large."""
    if output_bytes:
        limit, what = output_bytes, "than local.output_limit allows"
    else:
        facts = os.statvfs(folder)
        limit, what = facts.f_bavail * facts.f_frsize + on_disk, "than the disk could hold"
    if total <= limit or (not output_bytes and total <= AT_ONCE_BYTES):
        return ""
    return f"the outputs measure {total} bytes together, holes counted, which is more {what} ({limit})"


def _refused(folder: str, outputs: list[Output], problem: str) -> Json:
    manifest = {"outputs": [], "missing": [output.name for output in outputs], "skipped": [], "problem": problem}
    write_record(os.path.join(folder, "outputs.json"), manifest)
    return manifest


def _collect_all(folder: str, outputs: list[Output], output_bytes: int) -> None:
    """What the child does. It ends by itself when there is no room: that is for its parent to judge."""
    try:
        collect(folder, outputs, ENTRIES_MAX, 2**62, output_bytes)
    except TooMuch:
        _refused(folder, outputs, f"the outputs are more than {ENTRIES_MAX} files and folders")
    except OSError as error:
        if error.errno in NO_SPACE:
            os._exit(STATUS_NO_SPACE)
        raise


class _Taking:
    """Takes the files of one walk after the other; the manifest grows with it."""

    def __init__(self, folder: str, skipped: list[Json]) -> None:
        self._folder = folder
        self._target = os.path.join(folder, "collected")
        os.makedirs(self._target, mode=0o700, exist_ok=True)
        self._taken: dict[tuple[str, tuple[str, ...]], Json] = {}
        # A path names one artifact, whichever of the two roots it was found below.
        self._roots: dict[str, str] = {}
        self.outputs: list[Json] = []
        self.missing: list[str] = []
        self.skipped = skipped

    def take_all(self, output: Output, files: list[Found]) -> None:
        """Take what one declared output matched."""
        seen: set[str] = set()
        root = os.open(os.path.join(self._folder, output.root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for found in files:
                reason = self._clash(output, found, seen) or self._take(output, root, found)
                if reason is None:
                    seen.add(found.path.casefold())
                else:
                    self.skipped.append({"output": output.name, "path": found.path, "reason": reason})
        finally:
            os.close(root)
        if not seen:
            self.missing.append(output.name)

    def _clash(self, output: Output, found: Found, seen: set[str]) -> str | None:
        if found.path.casefold() in seen:
            return "differs from another only in case or form"
        if self._roots.setdefault(found.path, output.root) != output.root:
            return "has the same path as a file of another output below the other folder"
        return None

    def _take(self, output: Output, root: int, found: Found) -> str | None:
        identity = (output.root, found.parts)
        try:
            if identity not in self._taken:
                self._taken[identity] = _take(root, found, self._target, len(self._taken))
        except OSError as error:
            if error.errno in NO_SPACE:
                raise  # the file is there: only its collection is wanting
            return str(error)
        self.outputs.append({"name": output.name, "path": found.path, **self._taken[identity]})
        return None


def _take(root: int, found: Found, target: str, number: int) -> Json:
    """Link or copy one file out; the digest is of the bytes that are kept. Safe to repeat after a crash."""
    kept = os.path.join(target, str(number))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(kept)
    failpoints.before("runner.output")
    source = open_file(root, found.parts)
    try:
        facts = os.fstat(source)
        if facts.st_nlink == 1 and _link(root, found, kept, facts):
            size, digest = _copy(source, -1)
        else:
            file = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                size, digest = _copy(source, file)
            except OSError:
                os.unlink(kept)  # half a copy on a full disk is in the way of everything else
                raise
            finally:
                os.close(file)
    finally:
        os.close(source)
    failpoints.after("runner.output")
    return {"size_bytes": size, "sha256": digest, "file": kept}


def _link(root: int, found: Found, kept: str, facts: os.stat_result) -> bool:
    """Give the very file that is open a second name.

    It had no other name and nothing of the attempt lives any more, so nobody can change it through the first one.
    """
    try:
        os.link("/".join(found.parts), kept, src_dir_fd=root, follow_symlinks=False)
        linked = os.stat(kept, follow_symlinks=False)
    except OSError:
        return False
    if (linked.st_dev, linked.st_ino) == (facts.st_dev, facts.st_ino):
        return True
    os.unlink(kept)
    return False


def _copy(source: int, target: int) -> tuple[int, str]:
    import hashlib

    digest = hashlib.sha256()
    size = 0
    while True:
        piece = os.read(source, PIECE_BYTES)
        if not piece:
            return size, digest.hexdigest()
        size += len(piece)
        digest.update(piece)
        view = memoryview(piece)
        while target >= 0 and view:
            view = view[os.write(target, view) :]
