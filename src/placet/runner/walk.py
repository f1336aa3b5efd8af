"""Finds declared outputs below a folder without ever following a link, and says what was left out and why."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    Json = Dict[str, Any]

FILES_MAX = 100_000
DEPTH_MAX = 32
NAME_BYTES_MAX = 512
SKIPPED_MAX = 1000
MAGIC = frozenset("*?[")
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class TooMuch(Exception):
    """More entries than this walk may look at."""


class Found:
    """One regular file, by the parts of its path below the root."""

    __slots__ = ("disk_bytes", "parts", "size_bytes")

    def __init__(self, parts: tuple[str, ...], size_bytes: int, disk_bytes: int) -> None:
        self.parts = parts
        self.size_bytes = size_bytes
        # What it takes on the disk; holes take nothing.
        self.disk_bytes = disk_bytes

    @property
    def path(self) -> str:
        """The normalised relative path."""
        return unicodedata.normalize("NFC", "/".join(self.parts))


class Walk:
    """One pass over one root for one pattern. ``entries_max`` bounds the work."""

    def __init__(self, root: str, pattern: str, entries_max: int) -> None:
        self.files: list[Found] = []
        self.skipped: list[Json] = []
        self._left = entries_max
        self._pattern = pattern
        fixed, self._matcher = matcher(pattern)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._descend(fixed)
        finally:
            os.close(self._root)

    def _descend(self, fixed: list[str]) -> None:
        folder = os.dup(self._root)
        try:
            for index, part in enumerate(fixed):
                last = index == len(fixed) - 1 and self._matcher is None
                try:
                    entry = os.stat(part, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    return
                if last and not stat.S_ISDIR(entry.st_mode):
                    self._take(tuple(fixed), entry)
                    return
                if not stat.S_ISDIR(entry.st_mode):
                    self._skip(tuple(fixed[: index + 1]), "is a link or no folder")
                    return
                inner = os.open(part, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            self._below(folder, tuple(fixed))
        finally:
            os.close(folder)

    def _below(self, folder: int, parts: tuple[str, ...]) -> None:
        if len(parts) > DEPTH_MAX:
            self._skip(parts, "is nested too deeply")
            return
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            self._left -= 1
            if self._left < 0:
                raise TooMuch
            path = (*parts, name)
            try:
                entry = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(entry.st_mode):
                self._enter(folder, name, path)
            elif self._matcher is None or self._matcher.match("/".join(path)):
                self._take(path, entry)

    def _enter(self, folder: int, name: str, path: tuple[str, ...]) -> None:
        try:
            inner = os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder)
        except OSError as error:
            self._skip(path, f"cannot be opened: {os.strerror(error.errno or 0)}")
            return
        try:
            self._below(inner, path)
        finally:
            os.close(inner)

    def _take(self, parts: tuple[str, ...], entry: os.stat_result) -> None:
        reason = _unfit_name(parts) or _unfit_kind(entry)
        if reason is not None:
            self._skip(parts, reason)
        elif len(self.files) >= FILES_MAX:
            self._skip(parts, "is one file too many")
        else:
            self.files.append(Found(parts, entry.st_size, entry.st_blocks * 512))

    def _skip(self, parts: tuple[str, ...], reason: str) -> None:
        if len(self.skipped) < SKIPPED_MAX:
            path = "/".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")
            self.skipped.append({"path": path[:NAME_BYTES_MAX], "reason": reason})


def open_file(root: int, parts: tuple[str, ...]) -> int:
    """A descriptor of the regular file, no component of its path being a link. Raises ``OSError``."""
    folder = os.dup(root)
    try:
        for part in parts[:-1]:
            inner = os.open(part, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(parts[-1], OPEN_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.ELOOP, "not a regular file")
    return file


class Matcher:
    """What a relative path must match. The work is bounded by parts times folders, however many stars there are."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[str]) -> None:
        # No expression stands for a part that is `**`: any number of folders, and at the end at least one name.
        self._parts = [None if part == "**" else re.compile(_translate_part(part) + r"\Z") for part in parts]

    def match(self, path: str) -> bool:
        """Whether the whole path, without `/` at its ends, is meant."""
        at = self._skipped({0})
        for name in path.split("/"):
            at = self._skipped({onward for place in at for onward in self._after(place, name)})
        return len(self._parts) in at

    def _after(self, place: int, name: str) -> tuple[int, ...]:
        if place == len(self._parts):
            return ()
        part = self._parts[place]
        if part is None:
            return (place, place + 1) if place == len(self._parts) - 1 else (place,)
        return (place + 1,) if part.match(name) else ()

    def _skipped(self, places: set[int]) -> set[int]:
        """A `**` with something behind it may stand for no folder at all."""
        found = set(places)
        for place in sorted(places):
            onward = place
            while onward < len(self._parts) - 1 and self._parts[onward] is None:
                onward += 1
                found.add(onward)
        return found


def matcher(pattern: str) -> tuple[list[str], Matcher | None]:
    """The leading parts without magic characters, and what the whole relative path must match, if there is magic."""
    parts = pattern.split("/") if pattern else []
    fixed: list[str] = []
    for part in parts:
        if MAGIC & set(part):
            break
        fixed.append(part)
    return fixed, None if len(fixed) == len(parts) else Matcher(parts)


def _translate_part(part: str) -> str:
    """What is between two stars is found at the first place that fits, for good: trying others would change nothing.

    A repeated group is how that is said before Python 3.11.
    """
    first, *others = _pieces(part)
    if not others:
        return first
    out = first
    for number, piece in enumerate(others[:-1]):
        out += f"(?=(?P<s{number}>[^/]*?{piece}))(?P=s{number})"
    return out + "[^/]*" + others[-1]


def _pieces(part: str) -> list[str]:
    """The expressions of what is before, between and after the stars; stars beside one another are one."""
    pieces = [""]
    index = 0
    while index < len(part):
        character = part[index]
        close = part.find("]", index + 2) if character == "[" else -1
        if character == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif close > 0:
            pieces[-1] += _translate_set(part[index + 1 : close])
            index = close
        else:
            pieces[-1] += re.escape(character)
        index += 1
    return pieces


def _translate_set(inside: str) -> str:
    """``[...]`` of a pattern: characters are escaped, a range that runs backwards is empty, and ``/`` never fits."""
    negated = inside.startswith("!") and len(inside) > 1
    characters = inside[1:] if negated else inside
    out = ""
    index = 0
    while index < len(characters):
        if characters[index + 1 : index + 2] == "-" and index + 2 < len(characters):
            first, last = characters[index], characters[index + 2]
            out += re.escape(first) + "-" + re.escape(last) if first <= last else ""
            index += 3
        else:
            out += re.escape(characters[index])
            index += 1
    if negated:
        return "[^/" + out + "]"
    return "(?!/)[" + out + "]" if out else "(?!)"


def _unfit_name(parts: tuple[str, ...]) -> str | None:
    path = "/".join(parts)
    try:
        size = len(unicodedata.normalize("NFC", path).encode("utf-8"))
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if size > NAME_BYTES_MAX:
        return "has too long a name"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path) or "\\" in path:
        return "has a name with control characters"
    return None


def _unfit_kind(entry: os.stat_result) -> str | None:
    if stat.S_ISREG(entry.st_mode):
        return None
    if stat.S_ISLNK(entry.st_mode):
        return "is a symbolic link"
    return "is a device, pipe or socket"
