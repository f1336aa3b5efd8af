"""Inputs of a spec as seen from this machine: aliases become what they stand for, the missing is found early."""

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from placet.adapters.objects.places import SCHEMES
from placet.adapters.objects.sources import OBJECT, Readable
from placet.domain.allocations import ResolvedInput
from placet.domain.problems import Problem
from placet.domain.spec import Input, InputKind, RuntimeKind, Spec

OBJECTS = tuple(f"{scheme}://" for scheme in SCHEMES)
# A folder that cannot be added up within these bounds has no known size.
ENTRIES_MAX = 100_000
MEASURED_WITHIN_S = 1.0


class LocalInputs:
    """Resolves sources with the operator's ``storage://`` aliases (name to absolute folder or URL)."""

    def __init__(
        self, storage: Mapping[str, str], readable: Readable | None = None, *, private: Sequence[Path] = ()
    ) -> None:
        self._storage = dict(storage)
        self._private = tuple(os.path.realpath(folder) for folder in private)
        self._readable = readable or Readable(prefixes=())

    def resolve(self, spec: Spec) -> tuple[ResolvedInput, ...]:
        """Every input with its source settled; nothing is read. An unknown alias stays as it is."""
        return tuple(self._resolve(wanted) for wanted in spec.inputs)

    def complete(self, spec: Spec) -> Spec:
        """The spec with the sizes of those inputs that are on this machine, as they are now. It may block."""
        if not spec.inputs:
            return spec
        return replace(spec, inputs=tuple(self._measured(wanted) for wanted in spec.inputs))

    def _measured(self, wanted: Input) -> Input:
        if wanted.kind not in (InputKind.PATH, InputKind.STORAGE):
            return wanted
        kind, source = self._settled(wanted)
        if wanted.kind is InputKind.STORAGE and kind == "path" and not self._inside(wanted, source):
            return wanted
        size_bytes = size_of(source) if kind == "path" else None
        return wanted if size_bytes is None else replace(wanted, size_bytes=size_bytes)

    def check(self, spec: Spec) -> tuple[Problem, ...]:
        """What is missing now: unknown aliases, paths and scripts that are not there or cannot be read."""
        problems = [self._problem(index, wanted) for index, wanted in enumerate(spec.inputs)]
        script = spec.runtime.script
        if script is not None and not _readable(script):
            problems.append(
                Problem(
                    code="missing_input",
                    field="runtime.script",
                    what=f"there is no readable file {script}",
                    why="the script is read on this machine when the workload starts",
                    fix="check the path, or put the program into runtime.script_text",
                )
            )
        problems += self._trespassing(spec)
        return tuple(problem for problem in problems if problem is not None)

    def _trespassing(self, spec: Spec) -> Iterator[Problem]:
        """What would show a program the server's own folders: its token, its database, what others have computed."""
        asked = [("runtime.script", spec.runtime.script, False)]
        if spec.runtime.kind is not RuntimeKind.CONTAINER:  # whose folders are the image's
            asked.append(("runtime.working_directory", spec.runtime.working_directory, False))
        for index, wanted in enumerate(spec.inputs):
            kind, source = self._settled(wanted)
            asked.append((f"inputs[{index}].source", source if kind == "path" else None, True))
        for field, path, whole in asked:
            if path is not None and self._leads_inside(path, whole=whole):
                yield Problem(
                    code="private_folder",
                    field=field,
                    what=f"{path} leads into the server's own data folder" + (" or holds it" if whole else ""),
                    why="its token, its database and the outputs of others are there",
                    fix="name a folder beside it, or move the data folder (PLACET_DATA_DIR)",
                )

    def _leads_inside(self, path: str, *, whole: bool) -> bool:
        """``whole``: all that is below the path would be shown too."""
        real = Path(os.path.realpath(path))
        return any(
            real.is_relative_to(folder) or (whole and Path(folder).is_relative_to(real)) for folder in self._private
        )

    def _resolve(self, wanted: Input) -> ResolvedInput:
        kind, source = self._settled(wanted)
        return ResolvedInput(name=wanted.name, kind=kind, source=source, sha256=wanted.sha256)

    def _settled(self, wanted: Input) -> tuple[str, str]:
        match wanted.kind:
            case InputKind.TEXT:
                return "text", wanted.source
            case InputKind.HTTP:
                return "http", wanted.source
            case InputKind.PATH:
                return "path", _path(wanted.source)
            case InputKind.STORAGE:
                return self._stored(wanted.source)

    def _inside(self, wanted: Input, source: str) -> bool:
        """Does a storage source have an alias, and stay in its folder?"""
        known = not wanted.source.startswith(OBJECTS) and urlsplit(wanted.source).netloc in self._storage
        return known and not _escapes(source, self._storage, wanted.source)

    def _stored(self, source: str) -> tuple[str, str]:
        if source.startswith(OBJECTS):
            return OBJECT, source
        parts = urlsplit(source)
        target = self._storage.get(parts.netloc)
        rest = unquote(parts.path).lstrip("/")
        if target is None:
            return "path", source
        if target.startswith(("http://", "https://", *OBJECTS)):
            kind = "http" if target.startswith("http") else OBJECT
            return kind, f"{target.rstrip('/')}/{rest}" if rest else target
        return "path", os.path.join(_path(target), rest) if rest else _path(target)

    def _problem(self, index: int, wanted: Input) -> Problem | None:
        field = f"inputs[{index}].source"
        if wanted.kind is InputKind.STORAGE and wanted.source.startswith(OBJECTS):
            why = self._readable.why_not(wanted.source)
            return _unreadable(field, wanted.source, why) if why else None
        if wanted.kind is InputKind.STORAGE and urlsplit(wanted.source).netloc not in self._storage:
            known = ", ".join(sorted(self._storage)) or "none is configured"
            return Problem(
                code="missing_input",
                field=field,
                what=f"there is no storage alias {urlsplit(wanted.source).netloc!r}",
                why="storage:// names are defined by the operator",
                fix=f"use a configured alias ({known}), or add it to the settings under [storage]",
            )
        kind, source = self._settled(wanted)
        if wanted.kind is InputKind.STORAGE and kind == "path" and _escapes(source, self._storage, wanted.source):
            return Problem(
                code="bad_source",
                field=field,
                what=f"{wanted.source} leaves its storage folder",
                why="an alias gives access to what is below it and to nothing else",
                fix="remove the .. parts",
            )
        if kind == "path" and not _readable(source):
            return Problem(
                code="missing_input",
                field=field,
                what=f"there is no readable file or folder at {source}",
                why="the input must be there before anything runs",
                fix="check the path; it is looked up on the machine of the server",
            )
        return None


def _unreadable(field: str, source: str, why: str) -> Problem:
    return Problem(
        code="bad_source",
        field=field,
        what=f"{source} cannot be read",
        why=why,
        fix="name one object that specs may read, or use an https:// link that is signed for the time it needs",
    )


def size_of(path: str, entries_max: int = ENTRIES_MAX, within_s: float = MEASURED_WITHIN_S) -> int | None:
    """The bytes of a file, or of all files in a folder, links not followed; ``None`` where that is not found out."""
    over_s = time.monotonic() + within_s
    try:
        facts = os.stat(path)
        if not stat.S_ISDIR(facts.st_mode):
            return facts.st_size if stat.S_ISREG(facts.st_mode) else None
        total, seen, folders = 0, 0, [path]
        while folders:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    seen += 1
                    if seen > entries_max or time.monotonic() > over_s:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None
    return total


def _path(source: str) -> str:
    return unquote(urlsplit(source).path) if source.startswith("file://") else source


def _readable(path: str) -> bool:
    """A file or a folder that may be read; opening a pipe or a device could wait for ever."""
    return (os.path.isfile(path) or os.path.isdir(path)) and os.access(path, os.R_OK)


def _escapes(path: str, storage: Mapping[str, str], source: str) -> bool:
    root = Path(_path(storage[urlsplit(source).netloc])).resolve()
    return not Path(path).resolve().is_relative_to(root)
