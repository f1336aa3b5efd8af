"""Server-sent events, parsed from bytes as they come. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass

# A peer that never ends a line must not fill the memory.
LONGEST_EVENT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ServerEvent:
    """One event; ``id`` is what a resumed stream is asked to go on after."""

    kind: str
    data: str
    id: str | None = None


class StreamTooLarge(Exception):
    """One event is larger than any that Placet sends."""


class EventParser:
    """Feed it pieces of the body; it gives the events that are complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind = ""
        self._data: list[str] = []
        self._data_size = 0
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that this piece completes.

        Raises:
            StreamTooLarge: an event or line has no end in sight.
        """
        self._rest += piece
        lines = self._rest.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LONGEST_EVENT_BYTES:
            raise StreamTooLarge("a line of the event stream has no end")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", errors="replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
                self._data_size += len(value) + 1  # an empty line takes room too
                if self._data_size > LONGEST_EVENT_BYTES:
                    raise StreamTooLarge("an event of the stream has no end")
            case "id" if "\0" not in value:
                self._id = value
            case _:
                pass  # comments (heartbeats), `retry`, and what later versions may add
        return None

    def _dispatch(self) -> ServerEvent | None:
        kind, data = self._kind or "message", self._data
        self._kind, self._data, self._data_size = "", [], 0
        if not data:
            return None
        return ServerEvent(kind=kind, data="\n".join(data), id=self._id)
