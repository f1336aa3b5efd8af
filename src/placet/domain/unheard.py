"""What a provider said that no table knows: its own words without what is private, once for each kind of sentence."""

import re
from dataclasses import dataclass

TEXT_MAX = 1000
# What may open a door, or tells of somebody: taken out before the text is kept anywhere.
_NAMES = r"token|apikey|api[_-]key|secret|password|authorization"
_SECRETS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+\S+"), r"\1 <taken out>"),
    (re.compile(rf"(?i)\b({_NAMES})\b([\"']?\s*[:=]\s*)(?!bearer|basic)\S+"), r"\1\2<taken out>"),
    (re.compile(r"(https?://[^\s?#\"']*)[?#][^\s\"']*"), r"\1?<taken out>"),
    (re.compile(r"(https?://)[^\s/@\"']*@"), r"\1"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"\b(?=[\w+/-]*\d)(?=[\w+/-]*[A-Za-z])[\w+/-]{20,}={0,2}"), "<long word>"),
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_NUMBERS = re.compile(r"\b[0-9a-f]*\d[0-9a-f]*\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Unheard:
    """One kind of sentence, as it was last said; ``verb`` is what was asked, ``count`` how often it came."""

    provider: str
    verb: str
    text: str
    count: int
    first_ms: int
    last_ms: int


def redacted(text: str) -> str:
    """The text on one line, cut, without credentials, links' parameters, addresses and long random words."""
    plain = _CONTROLS.sub(" ", text[: 4 * TEXT_MAX])
    for pattern, instead in _SECRETS:
        plain = pattern.sub(instead, plain)
    return plain.strip()[:TEXT_MAX]


def kind_of(text: str) -> str:
    """The same for sentences that differ in their numbers only."""
    return _NUMBERS.sub("#", text)
