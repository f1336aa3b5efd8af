"""Captures what a program writes: bytes from a pipe into a file, bounded, never blocking the program.

A stream is addressed by byte offsets. What exceeds the bound is still read and counted, so the program goes on; the
loss is recorded as a gap. What a mask hides is hidden before it is written.
"""

from __future__ import annotations

import fcntl
import os

from placet.runner import failpoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.loop import Loop
    from placet.runner.masking import Masked

    Json = Dict[str, Any]

READ_BYTES = 1024 * 1024
PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031

# One buffer for all streams: memory stays flat whatever programs write.
_buffer = bytearray(READ_BYTES)
_view = memoryview(_buffer)


class Stream:
    """One captured stream. The file appears with the first byte."""

    __slots__ = (
        "_changed",
        "_closed",
        "_file",
        "_loop",
        "_masked",
        "_widened",
        "kept_bytes",
        "most_bytes",
        "name",
        "path",
        "pipe",
        "total_bytes",
        "why_lost",
    )

    def __init__(
        self,
        loop: Loop,
        name: str,
        path: str,
        most_bytes: int,
        closed: Callable[[], None],
        masked: Masked | None = None,
    ) -> None:
        self._masked = masked
        self._loop = loop
        self._closed = closed
        self._file = -1
        self._widened = False
        self._changed: Callable[[], None] | None = None
        self.name = name
        self.path = path
        self.most_bytes = most_bytes
        self.total_bytes = 0
        self.kept_bytes = 0
        self.why_lost = ""
        self.pipe = -1

    def open(self) -> int:
        """The end for the program to write to; the caller closes it after the start."""
        self.pipe, write_end = os.pipe()
        os.set_blocking(self.pipe, False)
        self._loop.watch(self.pipe, self._readable)
        return write_end

    @property
    def done(self) -> bool:
        """Whether the end was reached or the stream was closed."""
        return self.pipe < 0

    def drain(self) -> None:
        """Take everything that is in the pipe now; called when nobody can write any more."""
        while self.pipe >= 0 and self._read():
            pass

    def close(self) -> None:
        """Stop reading, whoever may still hold the other end; idempotent."""
        if self.pipe >= 0:
            self._loop.unwatch(self.pipe)
            os.close(self.pipe)
            self.pipe = -1
            if self._masked is not None:
                self._write(memoryview(self._masked.end()))
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            self._closed()

    def account(self) -> Json:
        """Byte counts and gaps; final once the stream is done."""
        waiting = 0 if self._masked is None or self.why_lost else self._masked.waiting_bytes
        lost = self.total_bytes - self.kept_bytes - waiting
        gaps: list[Json] = []
        if lost:
            gaps.append({"offset": self.kept_bytes, "dropped_bytes": lost, "why": self.why_lost})
        return {"bytes_total": self.total_bytes, "bytes_kept": self.kept_bytes, "sealed": self.done, "gaps": gaps}

    def _readable(self) -> None:
        # One read per turn: a program that never stops writing does not starve the others.
        self._read()

    def _read(self) -> bool:
        try:
            count = os.readv(self.pipe, [_buffer])
        except BlockingIOError:
            return False
        except OSError:
            count = 0
        if count == 0:
            self.close()
            return False
        if count >= 65536 and not self._widened:
            self._widened = True
            self._widen()
        self._keep(count)
        return True

    def _keep(self, count: int) -> None:
        self.total_bytes += count
        if self._masked is None:
            self._write(_view[:count])
        elif not self.why_lost:
            self._write(memoryview(self._masked.feed(bytes(_view[:count]))))

    def _write(self, data: memoryview) -> None:
        if self.why_lost:
            return
        count = len(data)
        room = self.most_bytes - self.kept_bytes
        try:
            if self._file < 0 and room > 0 and count:
                self._create()
            end = min(count, room)
            start = 0
            while start < end:
                failpoints.before("runner.log")
                written = os.write(self._file, data[start:end])
                failpoints.after("runner.log")
                start += written
                self.kept_bytes += written
        except OSError as error:
            self.why_lost = os.strerror(error.errno or 0)
            return
        if count > room:
            self.why_lost = f"limit of {self.most_bytes} bytes"

    def _create(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            os.rename(self.path + ".new", self.path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        self._file = os.open(self.path, flags, 0o600)

    def _widen(self) -> None:
        try:
            fcntl.fcntl(self.pipe, F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            return
