"""The connection to the supervisor: starts one when none answers, pipelines requests, passes hints on, reconnects.

Requests made in one turn of the event loop leave in one write. A request is never sent twice.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from placet.domain.errors import OutcomeUnknown, Unavailable
from placet.failpoints import Point, around

RUNNER = Path(__file__).resolve().parents[3] / "runner" / "supervisor.py"
LINE_BYTES_MAX = 256 * 1024 * 1024
START_LIMIT_S = 30.0
GREETINGS = 3
RECONNECT_FIRST_S = 0.05
RECONNECT_MOST_S = 5.0
ADDRESS_BYTES_MAX = 100
LOG_TAIL_BYTES = 2000

Json = dict[str, Any]  # a decoded document of the protocol


class Refused(Exception):
    """The supervisor understood the request and refused it; nothing was changed."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Link:
    """One supervisor, by its folder. ``greeted`` is called after every connect, ``hinted`` for every hint."""

    def __init__(
        self,
        folder: Path,
        start: tuple[str, ...],
        call_limit_s: float,
        greet: Callable[["Link"], Awaitable[None]],
        hinted: Callable[[Json], None],
    ) -> None:
        self._folder = folder
        self._start_command = start
        self._call_limit_s = call_limit_s
        self._greet = greet
        self._hinted = hinted
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        self._unsent: list[bytes] = []
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether a supervisor is listening to us now."""
        return self._writer is not None

    async def open(self) -> None:
        """Connect, starting a supervisor if need be. Raises ``Unavailable``."""
        async with self._connecting:
            if self._writer is None:
                await self._connect()

    async def close(self) -> None:
        """Hang up; what runs goes on running. Idempotent."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        self._hang_up()

    async def call(self, verb: str, **fields: object) -> Json:
        """The answer to one request.

        Raises ``Refused``, ``Unavailable`` (it was not sent) or ``OutcomeUnknown`` (it was, and no answer came).
        """
        if self._writer is None:
            if self._closed:
                raise Unavailable("the local provider is closed")
            await self.open()
        return await self._ask(verb, fields)

    async def _ask(self, verb: str, fields: Json) -> Json:
        self._number += 1
        number = self._number
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send({"id": number, "verb": verb, **fields})
        try:
            async with asyncio.timeout(self._call_limit_s):
                reply = await answer
        except TimeoutError:
            raise OutcomeUnknown(f"the supervisor did not answer {verb} within {self._call_limit_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
        refusal = reply.get("refused")
        if refusal is not None:
            raise Refused(refusal["code"], refusal["detail"])
        result: Json = reply["ok"]
        return result

    def _send(self, document: Json) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(_encode(document))

    def _flush(self) -> None:
        lines, self._unsent = self._unsent, []
        if self._writer is not None:
            with around(Point.REQUEST):
                self._writer.write(b"\n".join([*lines, b""]))

    async def _connect(self) -> None:
        """One that leaves while it is greeted, because nobody had needed it for long, is followed by a new one."""
        for left in reversed(range(GREETINGS)):
            await self._reach()
            try:
                await self._greet(self)
            except (Refused, OutcomeUnknown) as error:
                gone = self._writer is None
                if self._reading is not None:
                    self._reading.cancel()
                    self._reading = None
                self._hang_up()
                if not (gone and left):
                    raise Unavailable(f"the supervisor does not take our greeting: {error}") from error
            else:
                return

    async def _reach(self) -> None:
        try:
            reader, writer = await self._dial()
        except OSError:
            await self._start_supervisor()
            try:
                reader, writer = await self._dial()
            except OSError as error:
                raise Unavailable(f"the supervisor does not answer: {error}") from error
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader), name="supervisor link")

    async def greeting(self, verb: str, **fields: object) -> Json:
        """A call made while greeting, when the link is not open to others yet."""
        return await self._ask(verb, fields)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder = self._folder / "supervisor"
        address = str(folder / "sock")
        if len(os.fsencode(address)) <= ADDRESS_BYTES_MAX:
            return await asyncio.open_unix_connection(address, limit=LINE_BYTES_MAX)
        # The address of a unix socket is short: reach it through a descriptor of its folder.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(f"/proc/self/fd/{descriptor}/sock")
            channel.setblocking(False)
            return await asyncio.open_unix_connection(sock=channel, limit=LINE_BYTES_MAX)
        except OSError:
            channel.close()
            raise
        finally:
            os.close(descriptor)

    async def _start_supervisor(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = await asyncio.create_subprocess_exec(
                *self._start_command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"the supervisor cannot be started: {error}") from error
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_LIMIT_S):
                said = await process.stdout.readline()
                await process.wait()
        except TimeoutError:
            raise Unavailable("the supervisor did not come up in time") from None
        if said.strip() not in (b"ready", b"taken"):
            raise Unavailable(f"the supervisor could not start: {self._log_tail()}")
        if said.strip() == b"taken":
            await self._wait_for_other()

    async def _wait_for_other(self) -> None:
        """Another supervisor holds the folder; it may be on its way up or down."""
        try:
            async with asyncio.timeout(self._call_limit_s):
                # Nothing announces the file; the wait is bounded by the limit above.
                while not (self._folder / "supervisor" / "sock").exists():  # noqa: ASYNC110 - see above
                    await asyncio.sleep(RECONNECT_FIRST_S)
        except TimeoutError:
            raise Unavailable("another supervisor has the folder and does not listen") from None

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / "supervisor" / "log").read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace")
        return "it left no log"

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._heard(json.loads(line))
        except (OSError, ValueError):
            pass  # a broken connection looks the same as a closed one from here on
        finally:
            self._hang_up()
        if not self._closed and self._reading is asyncio.current_task():
            self._reading = asyncio.create_task(self._reconnect(), name="supervisor reconnect")

    def _heard(self, document: Json) -> None:
        number = document.get("id")
        if number is None:
            self._hinted(document)
            return
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            with around(Point.ANSWER):
                waiting.set_result(document)

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown("the supervisor went away before it answered"))

    async def _reconnect(self) -> None:
        """Without a connection no permit can be answered: come back as soon as possible."""
        pause_s = RECONNECT_FIRST_S
        while not self._closed:
            # The task that connects is replaced by the one that reads; only one of them is ever kept.
            try:
                await self.open()
            except (Unavailable, TimeoutError, OSError):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RECONNECT_MOST_S)
            else:
                return


def _encode(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")
