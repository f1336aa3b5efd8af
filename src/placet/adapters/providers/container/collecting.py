"""What an ended container left: its declared outputs with sizes and digests, read through the engine as archives."""

import hashlib
import unicodedata
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from placet.adapters.providers.container import names, tars
from placet.adapters.providers.container.api import EngineApi, Refused, named
from placet.domain.allocations import FoundOutput
from placet.runner.launch import Output
from placet.runner.walk import DEPTH_MAX, FILES_MAX, NAME_BYTES_MAX, SKIPPED_MAX, matcher

Json = dict[str, Any]

SILENCE_S = 120.0
UNFIT = {"symlink": "is a symbolic link", "other": "is a device, pipe or socket"}


class TooMuch(Exception):
    """The outputs are more than may be collected."""


@dataclass(kw_only=True)
class Collected:
    """What was found, and what was left out."""

    outputs: list[FoundOutput] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    bytes: int = 0


async def collect(
    api: EngineApi, container: str, declared: Sequence[Json], folder: str, bytes_max: int | None
) -> Collected:
    """Find each declared output. Raises ``TooMuch``, and what a call of the engine raises."""
    done = Collected()
    for output in map(Output, declared):
        before = len(done.outputs)
        await _one(api, container, output, _root(output, folder), done, bytes_max)
        if len(done.outputs) == before:
            done.missing.append(output.name)
    return done


async def read(api: EngineApi, container: str, location: str, offset: int) -> AsyncIterator[bytes]:
    """The bytes of one file of a container. Raises ``FileNotFoundError``."""
    try:
        async with api.stream(
            "GET", named("containers", container, "archive"), silence_s=SILENCE_S, path=location
        ) as pieces:
            reader = tars.TarReader(pieces)
            async for entry in reader.entries():
                if entry.kind != "file":
                    break
                left = offset
                async for piece in reader.data():
                    taken, left = piece[left:], max(left - len(piece), 0)
                    if taken:
                        yield taken
                return
    except Refused as refusal:
        if refusal.status != 404:
            raise
    raise FileNotFoundError(f"{location} is not there any more")


async def _one(
    api: EngineApi, container: str, output: Output, root: str, done: Collected, bytes_max: int | None
) -> None:
    fixed, match = matcher(output.pattern)
    start = "/".join([root, *fixed]) or "/"
    try:
        async with api.stream(
            "GET", named("containers", container, "archive"), silence_s=SILENCE_S, path=start
        ) as pieces:
            reader = tars.TarReader(pieces)
            linked: dict[str, FoundOutput] = {}
            async for entry in reader.entries():
                below = entry.path.split("/")[1:]
                parts = [*fixed, *below]
                if entry.kind == "folder" or (match is not None and not match.match("/".join(parts))):
                    continue
                if match is not None and not below:
                    continue  # the pattern wants something below a folder, and this is a file
                reason = _unfit(parts, entry)
                if reason:
                    _skip(done, parts, reason)
                    continue
                if len(done.outputs) >= FILES_MAX:
                    raise TooMuch(f"more than {FILES_MAX} files")
                found = await _found(reader, entry, output.name, parts, root, linked)
                if found is None:
                    _skip(done, parts, "is a link to what is not collected")
                    continue
                linked[entry.path] = found
                done.bytes += found.size_bytes
                if bytes_max is not None and done.bytes > bytes_max:
                    raise TooMuch(f"more than {bytes_max} bytes")
                done.outputs.append(found)
    except Refused as refusal:
        if refusal.status != 404:
            raise


async def _found(
    reader: tars.TarReader, entry: tars.Entry, name: str, parts: list[str], root: str, linked: dict[str, FoundOutput]
) -> FoundOutput | None:
    path = unicodedata.normalize("NFC", "/".join(parts))
    location = "/".join([root, *parts])
    if entry.kind == "hardlink":
        same = linked.get(entry.target)
        if same is None:
            return None
        return FoundOutput(name=name, path=path, size_bytes=same.size_bytes, sha256=same.sha256, location=location)
    digest = hashlib.sha256()
    async for piece in reader.data():
        digest.update(piece)
    return FoundOutput(name=name, path=path, size_bytes=entry.size_bytes, sha256=digest.hexdigest(), location=location)


def _root(output: Output, folder: str) -> str:
    """Where to look for it."""
    return names.OUTPUTS if output.root == "outputs" else folder.rstrip("/")


def _unfit(parts: list[str], entry: tars.Entry) -> str:
    path = "/".join(parts)
    if entry.kind in UNFIT:
        return UNFIT[entry.kind]
    try:
        size = len(unicodedata.normalize("NFC", path).encode("utf-8"))
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if size > NAME_BYTES_MAX:
        return "has too long a name"
    if len(parts) > DEPTH_MAX:
        return "is nested too deeply"
    control = any(unicodedata.category(character) in ("Cc", "Cs") for character in path)
    return "has a name with control characters" if control or "\\" in path else ""


def _skip(done: Collected, parts: list[str], reason: str) -> None:
    if len(done.skipped) < SKIPPED_MAX:
        path = "/".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")
        done.skipped.append(f"{path[:NAME_BYTES_MAX]}: {reason}")
