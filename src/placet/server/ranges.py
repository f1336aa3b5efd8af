"""The ``Range`` header: one range of bytes; what is not understood is ignored, as the standard wants."""

import re

from placet.server import problems

_ONE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


def asked_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; ``None`` for the whole."""
    match = _ONE.fullmatch((header or "").replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        start, stop = max(size_bytes - int(last), 0), size_bytes
    else:
        start, stop = int(first), min(int(last) + 1 if last else size_bytes, size_bytes)
        if last and int(last) < int(first):
            return None
    if start >= stop:
        raise problems.Refusal(problems.RANGE, headers={"content-range": f"bytes */{size_bytes}"})
    return start, stop
