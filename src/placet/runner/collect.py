"""Collects declared outputs of an ended attempt into ``collected/`` with sizes and digests, and writes the manifest.

Small sets are dealt with at once; anything larger by a child process, so that ten gigabytes do not stop the loop.
"""

from __future__ import annotations

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
TRIES_MAX = 2


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
        attempt.errand_pid = fork_call(lambda: _collect_all(attempt.folder, outputs))
        self._world.loop.child(attempt.errand_pid, lambda _status, _usage: self._collected(attempt, tries))

    def _collected(self, attempt: Attempt, tries: int) -> None:
        attempt.errand_pid = 0
        manifest = read_record(attempt.path("outputs.json"))
        if manifest is None and tries < TRIES_MAX:
            self._fork(attempt, tries + 1)
            return
        if manifest is None:
            attempt.note("collection_failed", "the collecting process ended without a manifest")
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
    manifest = _take_all(folder, plans, skipped)
    write_record(os.path.join(folder, "outputs.json"), manifest)
    return manifest


def _collect_all(folder: str, outputs: list[Output]) -> None:
    collect(folder, outputs, ENTRIES_MAX, 2**62)


def _take_all(folder: str, plans: list[tuple[Output, list[Found]]], skipped: list[Json]) -> Json:
    target = os.path.join(folder, "collected")
    os.makedirs(target, mode=0o700, exist_ok=True)
    taken: dict[tuple[str, tuple[str, ...]], Json] = {}
    entries: list[Json] = []
    missing: list[str] = []
    for output, files in plans:
        seen: set[str] = set()
        root = os.open(os.path.join(folder, output.root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for found in files:
                if found.path.casefold() in seen:
                    skipped.append(
                        {
                            "output": output.name,
                            "path": found.path,
                            "reason": "differs from another only in case or form",
                        }
                    )
                    continue
                identity = (output.root, found.parts)
                try:
                    if identity not in taken:
                        taken[identity] = _take(root, found, target, len(taken))
                except OSError as error:
                    skipped.append({"output": output.name, "path": found.path, "reason": str(error)})
                    continue
                seen.add(found.path.casefold())
                entries.append({"name": output.name, "path": found.path, **taken[identity]})
        finally:
            os.close(root)
        if not seen:
            missing.append(output.name)
    return {"outputs": entries, "missing": missing, "skipped": skipped}


def _take(root: int, found: Found, target: str, number: int) -> Json:
    """Move or copy one file out; the digest is of the bytes that are kept."""
    kept = os.path.join(target, str(number))
    source = open_file(root, found.parts)
    try:
        facts = os.fstat(source)
        if facts.st_nlink == 1 and _move(root, found, kept, facts):
            size, digest = _copy(source, -1)
        else:
            file = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                size, digest = _copy(source, file)
            finally:
                os.close(file)
    finally:
        os.close(source)
    return {"size_bytes": size, "sha256": digest, "file": kept}


def _move(root: int, found: Found, kept: str, facts: os.stat_result) -> bool:
    """Rename the very file that is open; nothing of the attempt lives any more, so it cannot change afterwards."""
    try:
        os.rename("/".join(found.parts), kept, src_dir_fd=root)
        moved = os.stat(kept, follow_symlinks=False)
    except OSError:
        return False
    if (moved.st_dev, moved.st_ino) == (facts.st_dev, facts.st_ino):
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
