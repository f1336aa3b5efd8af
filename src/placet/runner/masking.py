"""Hides values in what a program writes, before it is stored: as they are, and in the forms in which texts carry them.

Each hidden byte becomes one ``*``, so that offsets count the program's own bytes. It is a net and no wall: a program
that holds a value can write it in a form that nobody looks for.
"""

from __future__ import annotations

import base64
import html
import json
import shlex
from urllib.parse import quote, quote_plus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

# What is shorter stands in ordinary texts all the time; it is not looked for.
LEAST_BYTES = 4
STAR = b"*"


def forms(value: str) -> set[bytes]:
    """What to look for: the value and each of its lines, plain and encoded."""
    found: set[bytes] = set()
    pieces = [value, value.strip()]
    pieces.extend(line.strip() for line in value.splitlines())
    for piece in dict.fromkeys(pieces):
        data = piece.encode("utf-8", "surrogateescape")
        if len(data) >= LEAST_BYTES:
            found.update(_escaped(piece))
            found.update(_as_base64(data))
            found.update((data.hex().encode(), data.hex().upper().encode()))
    return {form for form in found if len(form) >= LEAST_BYTES}


def _escaped(text: str) -> set[bytes]:
    texts = {text, text.replace("\n", "\r\n"), shlex.quote(text), text.replace("'", "'\\''"), repr(text)[1:-1]}
    texts.update(json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False))
    texts.update(html.escape(text, quote=both) for both in (True, False))
    texts.add(html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"))
    for safe in ("", "/"):
        texts.update((quote(text, safe=safe, errors="replace"), quote_plus(text, safe=safe, errors="replace")))
    for encoded in [each for each in texts if "%" in each]:
        texts.add(_lower_percents(encoded))
    return {each.encode("utf-8", "surrogateescape") for each in texts}


def _lower_percents(text: str) -> str:
    head, *rest = text.split("%")
    return head + "".join("%" + part[:2].lower() + part[2:] for part in rest)


def _as_base64(data: bytes) -> set[bytes]:
    """The letters that are the same whatever stands before and after it, for each of the three ways to begin."""
    found: set[bytes] = set()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data)
        inner = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        found.update((inner, inner.replace(b"+", b"-").replace(b"/", b"_")))
    return found


class Mask:
    """What to look for in the streams of one attempt."""

    def __init__(self, values: Iterable[str]) -> None:
        everything: set[bytes] = set()
        for value in values:
            everything |= forms(value)
        # Most writes hold none of these beginnings, and one search for each is all that they cost.
        self.by_beginning: dict[bytes, list[bytes]] = {}
        for form in everything:
            self.by_beginning.setdefault(form[:LEAST_BYTES], []).append(form)
        self.short = {form[:length] for form in everything for length in range(1, LEAST_BYTES)}
        self.longest = max(map(len, everything), default=0)


class Masked:
    """One stream on its way through a mask. What may be the beginning of a value waits for what follows."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._plain = b""
        self._hidden = b""

    @property
    def waiting_bytes(self) -> int:
        """How much was given and not yet handed on."""
        return len(self._plain)

    def feed(self, data: bytes) -> bytes:
        """What can be stored now."""
        plain = self._plain + data
        hidden = bytearray(self._hidden + data)
        wait_from = len(plain)
        for beginning, forms_so in self._mask.by_beginning.items():
            first = plain.find(beginning)
            if first < 0:
                continue
            for form in forms_so:
                _hide(plain, hidden, form, first)
                wait_from = min(wait_from, _begun(plain, form, beginning, first))
        for length in range(LEAST_BYTES - 1, 0, -1):
            if len(plain) - length < wait_from and plain[-length:] in self._mask.short and len(plain) >= length:
                wait_from = len(plain) - length
        self._plain, self._hidden = plain[wait_from:], bytes(hidden[wait_from:])
        return bytes(hidden[:wait_from])

    def end(self) -> bytes:
        """What still waited; nothing follows any more."""
        rest = self._hidden
        self._plain = self._hidden = b""
        return rest


def _hide(plain: bytes, hidden: bytearray, form: bytes, first: int) -> None:
    size = len(form)
    at = plain.find(form, first)
    while at >= 0:
        hidden[at : at + size] = STAR * size
        at = plain.find(form, at + size)


def _begun(plain: bytes, form: bytes, beginning: bytes, first: int) -> int:
    """Where a part of the form begins that the end of the text cuts off; the length where there is none."""
    end = len(plain)
    at = plain.find(beginning, max(first, end - len(form) + 1))
    while at >= 0:
        if form.startswith(plain[at:]):
            return at
        at = plain.find(beginning, at + 1)
    return end
