"""Foreign text made safe for a terminal: what a program or a stranger wrote must not steer the reader's screen."""

import codecs
import re

# Escape sequences with their parameters (CSI; OSC, DCS, PM and APC with their ends), then what is left of controls,
# then marks that turn the direction of text or hide in it.
SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
LONGEST_LINE = 16_384


def clean(text: str) -> str:
    """The text without control sequences, controls, and marks that reorder or hide; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return CONTROLS.sub("", SEQUENCES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, longest: int = 200) -> str:
    """For a table or a sentence: clean, on one line, cut."""
    plain = " ".join(clean(text).split())
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


class LogCleaner:
    """Bytes of a log, as they come, to text for a terminal. Holds back what may be half of a sequence."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> str:
        """What can be shown now."""
        text = self._rest + self._decoder.decode(data)
        cut = max(map(text.rfind, "\x1b\x9b\r"))
        if cut >= 0 and len(text) - cut < LONGEST_LINE and _open_ended(text[cut:]):
            text, self._rest = text[:cut], text[cut:]
        else:
            self._rest = ""
        return clean(text)

    def end(self) -> str:
        """The rest."""
        text, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        return clean(text)


def _open_ended(tail: str) -> bool:
    """May this beginning of a sequence go on in the next piece?"""
    if tail == "\r":
        return True
    if tail.startswith(("\x1b[", "\x9b")):
        return re.fullmatch(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*", tail) is not None
    if re.match(r"\x1b[\]PX^_]", tail):
        return not re.search(r"\x07|\x1b\\|\n", tail[2:])
    return re.fullmatch(r"\x1b[ -/]*", tail) is not None
