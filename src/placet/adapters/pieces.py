"""Files read in pieces of bounded size, in threads. It knows nothing of what they mean."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

PIECE_BYTES = 1024 * 1024


async def read_file(folder: Path, location: str, offset: int) -> AsyncIterator[bytes]:
    """The bytes of a regular file below the folder, from an offset on.

    Raises ``FileNotFoundError`` when there is none, also for a path that leaves the folder.
    """
    path = Path(location)
    if ".." in path.parts or not path.is_relative_to(folder):
        raise FileNotFoundError(f"{location} is not in {folder}")
    descriptor = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        at = offset
        while piece := await asyncio.to_thread(os.pread, descriptor, PIECE_BYTES, at):
            at += len(piece)
            yield piece
    finally:
        os.close(descriptor)
