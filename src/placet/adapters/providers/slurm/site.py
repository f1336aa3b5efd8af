"""Where the commands of the cluster are run and the shared folder is reached: this machine. No word of Slurm's."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ANSWER_BYTES_MAX = 64 * 1024 * 1024
NOT_FOUND = 127


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def good(self) -> bool:
        return self.code == 0


class Unreachable(Exception):
    """The place cannot be reached; what was asked was not carried out."""


class Overdue(Exception):
    """No answer within the limit; whether it was carried out is not known."""


class Site(Protocol):
    """Commands, and files below the shared folder. Every call raises ``Unreachable`` and may raise ``Overdue``."""

    @property
    def here(self) -> bool:
        """Whether its files are files of this machine."""

    async def run(self, line: Sequence[str], *, limit_s: float, stdin: bytes = b"") -> Answer:
        """Run one command; a program that is not there answers with code 127."""

    async def make_folder(self, path: Path) -> bool:
        """Make it, parents included; false when it was there. Of several who ask, one is told that it made it."""

    async def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Whole or not at all."""

    async def read(self, path: Path) -> bytes | None:
        """All of it; ``None`` when it is not there."""

    async def read_each(self, folder: Path, name: str) -> Mapping[str, bytes]:
        """What is in the file of that name in each folder directly below."""

    async def piece(self, path: Path, offset: int, length: int) -> bytes:
        """Some bytes of it; none when it is shorter. Raises ``FileNotFoundError`` when it is not there."""

    async def remove(self, path: Path) -> bool:
        """Delete it with all below; true when it is gone."""

    async def bring(self, source: Path, target: Path) -> None:
        """Copy a file or a folder of this machine there."""

    async def close(self) -> None:
        """Let go of what is held open."""


class HereSite:
    """This machine: a login node, or any that has the commands and the shared folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)

    @property
    def here(self) -> bool:
        return True

    async def run(self, line: Sequence[str], *, limit_s: float, stdin: bytes = b"") -> Answer:
        return await run_here(line, self._environment, limit_s=limit_s, stdin=stdin)

    async def make_folder(self, path: Path) -> bool:
        return await asyncio.to_thread(_make_folder, path)

    async def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        await asyncio.to_thread(_write, path, data, mode)

    async def read(self, path: Path) -> bytes | None:
        return await asyncio.to_thread(_read, path)

    async def read_each(self, folder: Path, name: str) -> Mapping[str, bytes]:
        return await asyncio.to_thread(_read_each, folder, name)

    async def piece(self, path: Path, offset: int, length: int) -> bytes:
        return await asyncio.to_thread(_piece, path, offset, length)

    async def remove(self, path: Path) -> bool:
        return await asyncio.to_thread(_remove, path)

    async def bring(self, source: Path, target: Path) -> None:
        await asyncio.to_thread(_copy, source, target)

    async def close(self) -> None:
        return


async def run_here(
    line: Sequence[str], environment: Mapping[str, str], *, limit_s: float, stdin: bytes = b""
) -> Answer:
    """One command in a session of its own, which is ended when its time is over or nobody waits any more."""
    try:
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except FileNotFoundError:
        return Answer(code=NOT_FOUND, out="", err=f"{line[0]}: there is no such program")
    except OSError as error:
        raise Unreachable(f"{line[0]} cannot be started: {error}") from error
    try:
        async with asyncio.timeout(limit_s):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        raise Overdue(f"{line[0]} did not answer within {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Answer(code=process.returncode or 0, out=_text(out), err=_text(err))


def _text(data: bytes) -> str:
    return data[:ANSWER_BYTES_MAX].decode("utf-8", "replace")


def _make_folder(path: Path) -> bool:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _write(path: Path, data: bytes, mode: int) -> None:
    part = path.with_name(f"{path.name}.part-{os.getpid()}-{os.urandom(4).hex()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        # Another machine is to read it, whatever becomes of this one.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.replace(path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_each(folder: Path, name: str) -> dict[str, bytes]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return {}
    found = {}
    for each in names:
        data = _read(folder / each / name)
        if data is not None:
            found[each] = data
    return found


def _piece(path: Path, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not os.path.lexists(path)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=False)
    else:
        shutil.copyfile(source, target)
