"""Tar archives as streams, written and read piece by piece. It opens no file and knows nothing of what they mean."""

import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

BLOCK = 512
# Two empty blocks end an archive; more names than this in one extended header is no archive of an engine.
END = bytes(2 * BLOCK)
HEADER_MAX = 1024 * 1024
SIZE_DIGITS_MAX = 18


class NoArchive(Exception):
    """What came is no tar archive, or it broke off."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One member, by its header: ``kind`` is ``file``, ``folder``, ``symlink``, ``hardlink`` or ``other``."""

    path: str
    kind: str
    size_bytes: int
    target: str = ""


def header(path: str, *, size_bytes: int | None, mode: int, uid: int = 0) -> bytes:
    """The header of a file of that size, or of a folder; its bytes follow, and then ``padding``."""
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid = mode, uid, uid
    if size_bytes is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = size_bytes
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size_bytes: int) -> bytes:
    """What fills the last block of a file."""
    return bytes(-size_bytes % BLOCK)


def small(path: str, data: bytes, mode: int) -> bytes:
    """A whole small file, header and all."""
    return header(path, size_bytes=len(data), mode=mode) + data + padding(len(data))


class TarReader:
    """Reads an archive as it comes: ``entries`` one after the other, and the bytes of the present one if wanted."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._left = 0
        self._pad = 0

    async def entries(self) -> AsyncIterator[Entry]:
        """Each member. Raises ``NoArchive``."""
        more: dict[str, str] = {}
        while True:
            await self._skip(self._left + self._pad)
            self._left = self._pad = 0
            block = await self._exactly(BLOCK)
            if block == bytes(BLOCK):
                return
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise NoArchive(str(error)) from error
            if info.size < 0:
                raise NoArchive("a member has a negative size")
            self._left, self._pad = info.size, -info.size % BLOCK
            if info.type in (tarfile.XHDTYPE, tarfile.XGLTYPE):
                more = _records(await self._whole()) if info.type == tarfile.XHDTYPE else more
                continue
            if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
                word = "path" if info.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
                more[word] = (await self._whole()).rstrip(b"\0").decode("utf-8", "surrogateescape")
                continue
            size = _size(more.get("size"), info.size)
            self._left, self._pad = (size, -size % BLOCK) if info.isreg() else (0, 0)
            yield Entry(
                path=more.get("path", info.name).rstrip("/"),
                kind=_kind(info),
                size_bytes=self._left,
                target=more.get("linkpath", info.linkname),
            )
            more = {}

    async def data(self) -> AsyncIterator[bytes]:
        """The bytes of the present member. Raises ``NoArchive`` when they break off."""
        while self._left:
            piece = await self._some()
            taken, self._held = piece[: self._left], piece[self._left :]
            self._left -= len(taken)
            yield taken

    async def _whole(self) -> bytes:
        if self._left > HEADER_MAX:
            raise NoArchive("an extended header is too long")
        return b"".join([piece async for piece in self.data()])

    async def _some(self) -> bytes:
        if self._held:
            held, self._held = self._held, b""
            return held
        async for piece in self._pieces:
            if piece:
                return piece
        raise NoArchive("it broke off")

    async def _exactly(self, size: int) -> bytes:
        gathered = b""
        while len(gathered) < size:
            gathered += await self._some()
        self._held = gathered[size:] + self._held
        return gathered[:size]

    async def _skip(self, size: int) -> None:
        while size > 0:
            piece = await self._some()
            self._held = piece[size:]
            size -= min(len(piece), size)


def _size(told: str | None, otherwise: int) -> int:
    if told is None:
        return otherwise
    if not (told.isascii() and told.isdigit()) or len(told) > SIZE_DIGITS_MAX:
        raise NoArchive("an extended header states a size that is none")
    return int(told)


def _records(data: bytes) -> dict[str, str]:
    """The words of a pax header: ``<length> <word>=<value>\\n``, one after the other."""
    words: dict[str, str] = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > SIZE_DIGITS_MAX or not len(length) < int(length) <= len(data):
            raise NoArchive("an extended header cannot be read")
        record, data = data[: int(length)], data[int(length) :]
        word, _, value = record[len(length) + 1 : -1].partition(b"=")
        words[word.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return words


def _kind(info: tarfile.TarInfo) -> str:
    if info.isreg():
        return "file"
    if info.isdir():
        return "folder"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "other"
