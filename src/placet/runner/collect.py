"""Collects declared outputs of an ended attempt into ``collected/`` with sizes and digests, and writes the manifest.

Small sets are dealt with at once; anything larger by a child process, so that ten gigabytes do not stop the loop.
"""

from __future__ import annotations

import contextlib
import os

from placet.runner import causes
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
            attempt.enter(causes.COLLECTING)
            self._world.changed(attempt)
            try:
                manifest = collect(attempt.folder, attempt.launch.outputs, AT_ONCE_ENTRIES, AT_ONCE_BYTES)
            except (TooMuch, OSError):
                self._fork(attempt, 1)
                return
        self._finish(attempt, manifest)

    def _fork(self, attempt: Attempt, tries: int) -> None:
        outputs = attempt.launch.outputs
        try:
            attempt.errand_pid = fork_call(lambda: _collect_all(attempt.folder, outputs))
        except OSError:
            self._collected(attempt, tries)
            return
        self._world.loop.child(attempt.errand_pid, lambda _status, _usage: self._collected(attempt, tries))

    def _collected(self, attempt: Attempt, tries: int) -> None:
        attempt.errand_pid = 0
        manifest = read_record(attempt.path("outputs.json"))
        if manifest is None and tries < TRIES_MAX:
            # A full disk or a crowded machine passes.
            pause_s = TRY_AGAIN_S * 4.0 ** (tries - 1)
            attempt.timers["collect"] = self._world.loop.later(pause_s, lambda: self._fork(attempt, tries + 1))
            return
        if manifest is None:
            attempt.note("collection_failed", f"no manifest after {tries} tries; the supervisor's log says why")
            missing = [output.name for output in attempt.launch.outputs]
            manifest = {"outputs": [], "missing": missing, "skipped": []}
        self._finish(attempt, manifest)

    def _finish(self, attempt: Attempt, manifest: Json) -> None:
        attempt.delivery = manifest
        self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        attempt.enter(causes.ENDED)
        self._world.changed(attempt)
        self._ended(attempt)


def collect(folder: str, outputs: list[Output], entries_max: int, bytes_max: int) -> Json:
    """Collect and write the manifest; raises ``TooMuch`` before anything was touched when a bound is passed."""
    plans = []
    skipped: list[Json] = []
    total = 0
    for output in outputs:
        walk = Walk(os.path.join(folder, output.root), output.pattern, entries_max)
        total += sum(found.size_bytes for found in walk.files)
        if total > bytes_max:
            raise TooMuch
        plans.append((output, walk.files))
        skipped += [{"output": output.name, **item} for item in walk.skipped]
    taking = _Taking(folder, skipped)
    for output, files in plans:
        taking.take_all(output, files)
    manifest = {"outputs": taking.outputs, "missing": taking.missing, "skipped": taking.skipped}
    write_record(os.path.join(folder, "outputs.json"), manifest)
    return manifest


def _collect_all(folder: str, outputs: list[Output]) -> None:
    collect(folder, outputs, ENTRIES_MAX, 2**62)


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
            return str(error)
        self.outputs.append({"name": output.name, "path": found.path, **self._taken[identity]})
        return None


def _take(root: int, found: Found, target: str, number: int) -> Json:
    """Link or copy one file out; the digest is of the bytes that are kept. Safe to repeat after a crash."""
    kept = os.path.join(target, str(number))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(kept)
    source = open_file(root, found.parts)
    try:
        facts = os.fstat(source)
        if facts.st_nlink == 1 and _link(root, found, kept, facts):
            size, digest = _copy(source, -1)
        else:
            file = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                size, digest = _copy(source, file)
            finally:
                os.close(file)
    finally:
        os.close(source)
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
