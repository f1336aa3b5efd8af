"""Pieces of logs. A log is bytes; a piece that is valid UTF-8 travels as text, any other as base64."""

import base64

from pydantic import Field

from placet.contract.api import View


class LogPieceView(View):
    """Bytes of one stream of one attempt from `offset`; exactly one of `text` and `base64` is set."""

    epoch: int
    stream: str
    offset: int = Field(description="Of the first byte, counted from the start of the stream.")
    next_offset: int = Field(description="Where to go on.")
    text: str | None = None
    base64: str | None = None
    dropped: int = Field(default=0, description="How many bytes are missing just before this piece.")
    sealed: bool = Field(default=False, description="Nothing will follow.")

    @property
    def data(self) -> bytes:
        """The bytes themselves."""
        return self.text.encode() if self.text is not None else base64.b64decode(self.base64 or "")


def text_or_base64(data: bytes) -> tuple[str | None, str | None]:
    """How these bytes travel."""
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode("ascii")
