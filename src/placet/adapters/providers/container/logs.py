"""Logs of a container: the engine's frames taken apart, and byte offsets within one stream."""

from collections.abc import AsyncIterator

from placet.adapters.providers.container.api import EngineApi, Refused, named
from placet.adapters.providers.container.translate import STREAMS

HEADER = 8
FRAME_MAX = 16 * 1024 * 1024
SILENCE_S = 60.0
NUMBERS = {0: "stdin", 1: "stdout", 2: "stderr"}


class NotFrames(Exception):
    """What came is not what an engine sends for a container without a terminal."""


async def frames(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, bytes]]:
    """The stream and the bytes of each frame. Raises ``NotFrames``."""
    held = b""
    async for piece in pieces:
        held += piece
        while len(held) >= HEADER:
            size = int.from_bytes(held[4:HEADER], "big")
            if held[0] not in NUMBERS or held[1:4] != b"\0\0\0" or size > FRAME_MAX:
                raise NotFrames
            if len(held) < HEADER + size:
                break
            yield NUMBERS[held[0]], held[HEADER : HEADER + size]
            held = held[HEADER + size :]


async def read(api: EngineApi, container: str, stream: str) -> AsyncIterator[bytes]:
    """All that is there of one stream now; nothing where there is no such container."""
    if stream not in STREAMS:
        return
    place = named("containers", container, "logs")
    out, err = stream == "stdout", stream == "stderr"
    try:
        async with api.stream("GET", place, silence_s=SILENCE_S, stdout=out, stderr=err) as pieces:
            async for name, data in frames(pieces):
                if name == stream:
                    yield data
    except Refused as refusal:
        if refusal.status != 404:
            raise


async def sizes(api: EngineApi, container: str) -> dict[str, int]:
    """How many bytes are there of each stream."""
    found = dict.fromkeys(STREAMS, 0)
    place = named("containers", container, "logs")
    try:
        async with api.stream("GET", place, silence_s=SILENCE_S, stdout=True, stderr=True) as pieces:
            async for name, data in frames(pieces):
                if name in found:
                    found[name] += len(data)
    except Refused as refusal:
        if refusal.status != 404:
            raise
    return found
