"""Files in and out of an attempt's containers, as streams. What they mean is known elsewhere."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from placet.adapters.providers.container import names, tars
from placet.adapters.providers.container.api import EngineApi, Refused, named

PIECE_BYTES = 1024 * 1024
PUT_SILENCE_S = 120.0
GET_SILENCE_S = 120.0
NOT_THERE = (404,)
SMALL_MAX = 4 * 1024 * 1024
EVERYBODY = 0o1777


class Changed(OSError):
    """A file became another while it was read."""


async def put(api: EngineApi, container: str, root: str, pieces: AsyncIterator[bytes]) -> None:
    """Unpack an archive below a folder of a container, started or not."""
    await api.put(named("containers", container, "archive"), pieces, PUT_SILENCE_S, path=root)


async def small_files(api: EngineApi, container: str, folder: str) -> dict[str, bytes]:
    """The small regular files directly in a folder, by name; none where container or folder are not there."""
    found: dict[str, bytes] = {}
    try:
        async with api.stream(
            "GET", named("containers", container, "archive"), silence_s=GET_SILENCE_S, path=folder
        ) as pieces:
            reader = tars.TarReader(pieces)
            async for entry in reader.entries():
                _, _, name = entry.path.partition("/")
                if entry.kind == "file" and "/" not in name and entry.size_bytes <= SMALL_MAX:
                    found[name] = b"".join([piece async for piece in reader.data()])
    except Refused as refusal:
        if refusal.status not in NOT_THERE:
            raise
    return found


async def local_tree(source: str, target: str) -> AsyncIterator[bytes]:
    """A local file or folder as members of an archive under another name. Links in it are followed nowhere.

    Raises ``OSError`` when it is neither, cannot be read, or changes meanwhile.
    """
    root = await asyncio.to_thread(Path(source).resolve)
    mode = (await asyncio.to_thread(root.stat)).st_mode
    if stat.S_ISREG(mode):
        async for piece in _local_file(root, target):
            yield piece
        return
    if not stat.S_ISDIR(mode):
        raise OSError(f"{source} is neither a file nor a folder")
    yield tars.header(target, size_bytes=None, mode=0o755)
    for path in await asyncio.to_thread(lambda: sorted(root.rglob("*"))):
        entry = path.lstat()
        inner = f"{target}/{path.relative_to(root).as_posix()}"
        if stat.S_ISDIR(entry.st_mode):
            yield tars.header(inner, size_bytes=None, mode=0o755)
        elif stat.S_ISREG(entry.st_mode):
            async for piece in _local_file(path, inner):
                yield piece


async def _local_file(path: Path, target: str) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        size_bytes = os.fstat(file.fileno()).st_size
        yield tars.header(target, size_bytes=size_bytes, mode=0o444)
        left = size_bytes
        while left:
            piece = await asyncio.to_thread(file.read, min(PIECE_BYTES, left))
            if not piece:
                raise Changed(f"{path} became shorter while it was read")
            left -= len(piece)
            yield piece
        yield tars.padding(size_bytes)
    finally:
        file.close()


def folders(*, inputs: bool, checkpoints: bool) -> bytes:
    """The roots of an attempt's volumes, in which every user of its container may make files."""
    made = [names.PLACE, names.OUTPUTS, names.WORK, *([names.CHECKPOINTS] if checkpoints else [])]
    entries = [tars.header(path.lstrip("/"), size_bytes=None, mode=EVERYBODY) for path in made]
    if inputs:
        entries.append(tars.header(names.INPUTS.lstrip("/"), size_bytes=None, mode=0o755))
    return b"".join(entries)
