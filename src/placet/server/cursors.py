"""Where a stream goes on: the ids that events carry and that come back as ``Last-Event-ID``. They grant nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from placet.server import problems

LONGEST = 200
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PLACE = re.compile(r"([0-9]{1,7}):(stdout|stderr|install):([0-9]{1,18})", re.ASCII)


def bad_cursor() -> problems.Refusal:
    """The same words for every id that is not one of this stream."""
    return problems.Refusal(
        problems.BAD_REQUEST,
        detail="Last-Event-ID is not an id of this stream",
        fix="send the `id` of the last event that came, unchanged, or leave the header out",
    )


def event_seq(last_event_id: str | None, after: int) -> int:
    """After which event to go on; what the client saw last wins over what it asked for first."""
    if last_event_id is None:
        return after
    if not _NUMBER.fullmatch(last_event_id):
        raise bad_cursor()
    return int(last_event_id)


@dataclass(frozen=True, kw_only=True)
class LogCursor:
    """The next byte of each followed stream of one attempt: ``2:stdout:100`` or ``2:stdout:100,2:stderr:7``."""

    epoch: int
    offsets: Mapping[str, int]

    def __str__(self) -> str:
        return ",".join(f"{self.epoch}:{stream}:{offset}" for stream, offset in self.offsets.items())

    def moved(self, stream: str, offset: int) -> "LogCursor":
        """The same with one stream further on."""
        return LogCursor(epoch=self.epoch, offsets={**self.offsets, stream: offset})

    @classmethod
    def read(cls, text: str | None) -> "LogCursor | None":
        """The cursor in a header; a refusal when it is none of ours."""
        if text is None:
            return None
        places = [_PLACE.fullmatch(part) for part in text.split(",", 8)] if len(text) <= LONGEST else [None]
        known = [place for place in places if place is not None]
        offsets = {place[2]: int(place[3]) for place in known}
        if len(known) != len(places) or len(offsets) != len(known) or len({place[1] for place in known}) != 1:
            raise bad_cursor()
        return cls(epoch=int(known[0][1]), offsets=offsets)
