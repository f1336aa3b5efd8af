"""Where the commands of the cluster are run and the shared folder is reached: another machine, by the program ``ssh``.

One connection is kept and used by all calls. What is run there is one line for its shell, each word quoted, so that
nothing that comes from outside can be more than a word.
"""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from placet.adapters.providers.slurm.site import Answer, Feed, Overdue, Unreachable, run_here

# The exit code of ssh itself; a command could use it too, but none of ours does.
SSH_FAILED = 255
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,254}")
# Said before anything was sent.
NEVER_SENT = (
    "Could not resolve hostname",
    "Connection refused",
    "No route to host",
    "Network is unreachable",
    "Connection timed out",
    "Permission denied",
    "Host key verification failed",
    "Too many authentication failures",
)
# Of what a login there sets; it is expanded there.
KEPT = 'HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" PATH="$PATH"'
NOT_THERE = 44
CONNECT_LIMIT_S = 30.0
FILE_LIMIT_S = 60.0
COPY_LIMIT_S = 3600.0
MARK = b"=="
SHOW_NAMED = "printf '==%s ' \"$f\""
SHOW_FOLDER = "printf '==%s ' \"${f%/*}\""


class SshSite:
    """``host`` is a name of ``~/.ssh/config`` or ``user@host``; keys and hosts are the operator's affair."""

    def __init__(self, host: str, environment: Mapping[str, str], own: Mapping[str, str], program: str = "ssh") -> None:
        if HOST.fullmatch(host) is None:
            raise ValueError(f"not the name of a host: {host[:80]!r}")
        self._host = host
        self._environment = dict(environment)
        self._own = dict(own)
        self._program = program
        self._folder = ""
        self._turn = asyncio.Lock()

    @property
    def _socket(self) -> str:
        return f"{self._folder}/c"

    @property
    def here(self) -> bool:
        return False

    async def run(self, line: Sequence[str], *, limit_s: float, stdin: bytes = b"") -> Answer:
        words = [f"{name}={value}" for name, value in self._environment.items()]
        script = f"exec env -i {KEPT} {shlex.join([*words, *line])}"
        return await self._shell(script, limit_s=limit_s, stdin=stdin)

    async def make_folder(self, path: Path) -> bool:
        parent, folder = shlex.quote(str(path.parent)), shlex.quote(str(path))
        made = f"if mkdir -- {folder} 2>/dev/null; then echo made; else [ -d {folder} ]; fi"
        script = f"umask 077; mkdir -p -- {parent} && {made}"
        return "made" in (await self._good(script)).out

    async def write(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        part = f"{path}.part-{os.getpid()}-{os.urandom(4).hex()}"
        there, folder = shlex.quote(part), shlex.quote(str(path.parent))
        script = f"[ -d {folder} ] || exit {NOT_THERE}; umask 077; cat > {there} && chmod {mode:o} {there}"
        answer = await self._shell(f"{script} && mv -f -- {there} {shlex.quote(str(path))}", stdin=data)
        self._checked(answer, path)

    async def read(self, path: Path) -> bytes | None:
        name = shlex.quote(str(path))
        answer = await self._shell(f"[ -f {name} ] || exit {NOT_THERE}; cat -- {name}")
        return None if answer.code == NOT_THERE else self._checked(answer, path).data

    async def is_file(self, path: Path) -> bool:
        return (await self._shell(f"[ -f {shlex.quote(str(path))} ]")).good

    async def read_some(self, folder: Path, names: Sequence[str]) -> Mapping[str, bytes]:
        # Each of these files is one line, written by us or by our runner.
        words = shlex.join(names)
        return await self._lines(folder, f'for f in {words}; do [ -f "$f" ] && {SHOW_NAMED} && cat -- "$f"; done')

    async def read_each(self, folder: Path, name: str) -> Mapping[str, bytes]:
        return await self._lines(folder, f'for f in */{name}; do [ -f "$f" ] && {SHOW_FOLDER} && cat -- "$f"; done')

    async def _lines(self, folder: Path, script: str) -> dict[str, bytes]:
        found = {}
        answer = await self._good(f"cd {shlex.quote(str(folder))} 2>/dev/null || exit 0; {script}; exit 0")
        for line in answer.data.split(b"\n"):
            head, _, text = line.partition(b" ")
            if head.startswith(MARK):
                found[head[len(MARK) :].decode("ascii", "replace")] = text
        return found

    async def piece(self, path: Path, offset: int, length: int) -> bytes:
        name = shlex.quote(str(path))
        script = (
            f"[ -f {name} ] && [ ! -L {name} ] || exit {NOT_THERE}; tail -c +{offset + 1} -- {name} | head -c {length}"
        )
        answer = self._checked(await self._shell(script), path)
        return answer.data

    async def remove(self, path: Path) -> bool:
        name = shlex.quote(str(path))
        answer = await self._shell(f"rm -rf -- {name}; [ ! -e {name} ] && [ ! -L {name} ]", limit_s=COPY_LIMIT_S)
        return answer.good

    async def bring(self, source: Path, target: Path) -> None:
        folder, name = shlex.quote(str(target.parent)), shlex.quote(target.name)
        part = shlex.quote(f".part-{os.urandom(4).hex()}")
        script = (
            f"umask 077; mkdir -p -- {folder} && cd {folder} && mkdir {part} && tar -C {part} -xf - "
            f"&& mv -f -- {part}/{name} {name} && rmdir {part}"
        )
        if not await asyncio.to_thread(source.exists):
            raise FileNotFoundError(source)
        feed = partial(_pack, source, target.name)
        self._checked(await self._shell(script, feed=feed, limit_s=COPY_LIMIT_S), target)

    async def close(self) -> None:
        folder = self._folder
        if folder:
            line = [self._program, "-Oexit", *self._options(), "--", self._host]
            with contextlib.suppress(Unreachable, Overdue):
                await run_here(line, self._own, limit_s=CONNECT_LIMIT_S)
            self._folder = ""
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _good(self, script: str) -> Answer:
        answer = await self._shell(script)
        if not answer.good:
            raise OSError(f"at {self._host}: {answer.err.strip()[:400] or f'exit code {answer.code}'}")
        return answer

    async def _shell(
        self, script: str, *, limit_s: float = FILE_LIMIT_S, stdin: bytes = b"", feed: Feed | None = None
    ) -> Answer:
        # The login shell there may be any; what follows is for sh.
        await self._connect()
        line = [self._program, *self._options(), "--", self._host, f"exec /bin/sh -c {shlex.quote(script)}"]
        answer = await run_here(line, self._own, limit_s=limit_s, stdin=stdin, feed=feed)
        if answer.code != SSH_FAILED:
            return answer
        said = answer.err.strip()[:400]
        if any(word in said for word in NEVER_SENT):
            raise Unreachable(f"{self._host}: {said}")
        raise Overdue(f"{self._host}: the connection broke: {said}")

    async def _connect(self) -> None:
        """The connection that all calls use. Where it cannot be made, each makes its own and says what is wrong."""
        async with self._turn:
            if not self._folder:
                # A socket's path is short, and only its owner may use it.
                self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="placet-ssh-")
            if await asyncio.to_thread(os.path.exists, self._socket):
                return
            line = [self._program, "-fNM", *self._options(), "--", self._host]
            null = asyncio.subprocess.DEVNULL
            # It stays in the background, with whatever it was given; so it is given nothing.
            process = await asyncio.create_subprocess_exec(
                *line, stdin=null, stdout=null, stderr=null, env=self._own, start_new_session=True
            )
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    def _checked(self, answer: Answer, path: Path) -> Answer:
        if answer.code == NOT_THERE:
            raise FileNotFoundError(f"{self._host}: {path}")
        if not answer.good:
            raise OSError(f"{self._host}: {path}: {answer.err.strip()[:400] or answer.code}")
        return answer

    def _options(self) -> list[str]:
        return [
            "-oBatchMode=yes",
            f"-oControlPath={self._socket}",
            "-oServerAliveInterval=15",
            "-oServerAliveCountMax=3",
            "-oConnectTimeout=15",
            "-oForwardAgent=no",
            "-oForwardX11=no",
            "-T",
        ]


def _pack(source: Path, name: str, descriptor: int) -> None:
    """Write the file or folder as an archive; whoever reads it says what is wrong with it."""
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(descriptor, "wb") as file,
        tarfile.open(fileobj=file, mode="w|", dereference=True) as archive,
    ):
        archive.add(source, arcname=name)
