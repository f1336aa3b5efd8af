"""Where the commands of the cluster are run and the shared folder is reached: this machine. No word of Slurm's."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ANSWER_BYTES_MAX = 64 * 1024 * 1024
# Of a shell, and ours, for a program that is not there.
NOT_FOUND = 127


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said; ``data`` is its standard output as it came."""

    code: int
    out: str
    err: str
    data: bytes = b""

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

    async def is_file(self, path: Path) -> bool:
        """Whether a file is there."""

    async def read_some(self, folder: Path, names: Sequence[str]) -> Mapping[str, bytes]:
        """What is in those of these files that are there; each is one line."""

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

    async def is_file(self, path: Path) -> bool:
        return await asyncio.to_thread(path.is_file)

    async def read_some(self, folder: Path, names: Sequence[str]) -> Mapping[str, bytes]:
        return await asyncio.to_thread(_read_some, folder, names)

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


# Writes to a descriptor what a command reads, and closes it.
Feed = Callable[[int], None]


async def run_here(
    line: Sequence[str],
    environment: Mapping[str, str],
    *,
    limit_s: float,
    stdin: bytes = b"",
    feed: Feed | None = None,
) -> Answer:
    """One command in a session of its own, which is ended when its time is over or nobody waits any more."""
    read_end, write_end = os.pipe() if feed is not None else (asyncio.subprocess.PIPE, -1)
    try:
        transport, said = await asyncio.get_running_loop().subprocess_exec(
            _Said, *line, stdin=read_end, env=dict(environment), start_new_session=True
        )
    except FileNotFoundError:
        _close(write_end)
        return Answer(code=NOT_FOUND, out="", err=f"{line[0]}: there is no such program")
    except OSError as error:
        _close(write_end)
        raise Unreachable(f"{line[0]} cannot be started: {error}") from error
    finally:
        if feed is not None:
            os.close(read_end)
    feeding = asyncio.ensure_future(asyncio.to_thread(feed, write_end)) if feed is not None else None
    entry = transport.get_pipe_transport(0)
    if isinstance(entry, asyncio.WriteTransport):
        entry.write(stdin)
        entry.close()
    try:
        async with asyncio.timeout(limit_s):
            await said.closed.wait()
    except TimeoutError:
        raise Overdue(f"{line[0]} did not answer within {limit_s:g} s") from None
    finally:
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
            await said.ended.wait()
        # Somebody else may hold what it wrote to, as the kept connection of ssh does: that is not waited for.
        transport.close()
        if feeding is not None:
            await asyncio.gather(feeding, return_exceptions=True)
    out, err = bytes(said.data[1]), bytes(said.data[2])
    return Answer(code=transport.get_returncode() or 0, out=_text(out), err=_text(err), data=out)


class _Said(asyncio.SubprocessProtocol):
    """What a process says, and when it is over: ``ended`` when it is dead, ``closed`` when all is read as well."""

    def __init__(self) -> None:
        self.data = {1: bytearray(), 2: bytearray()}
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if len(self.data[fd]) < ANSWER_BYTES_MAX:
            self.data[fd] += data

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.closed.set()


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


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


def _read_some(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    found = {name: _read(folder / name) for name in names}
    return {name: data for name, data in found.items() if data is not None}


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


def own_uv() -> tuple[Path, str] | None:
    """The ``uv`` beside this Python or on the path, and a word that changes with it."""
    beside = Path(sys.executable).parent / "uv"
    found = beside if beside.exists() else shutil.which("uv")
    if found is None:
        return None
    facts = os.stat(found)
    return Path(found).resolve(), f"{facts.st_size:x}-{facts.st_mtime_ns:x}"


def _copy(source: Path, target: Path) -> None:
    """Whole or not at all, with the bits that make it a program."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part-{os.getpid()}-{os.urandom(4).hex()}")
    if source.is_dir():
        shutil.copytree(source, part, symlinks=False)
    else:
        shutil.copy(source, part)
    part.replace(target)
