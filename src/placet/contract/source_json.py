"""JSON into a tree: strict, bounded, every duplicate seen. Lines are looked for only when somebody asks."""

import json
import re
from decimal import Decimal, InvalidOperation

from placet.contract import limits
from placet.contract.found import Found, Path
from placet.contract.source import Broken, Source, Tree, huge_number, no_number, tiny_number, too_deep, too_many, twice

# Said in full: more zeros behind the point than anything is counted in.
_TINY = re.compile(r"-?0\.0{30}", re.ASCII)
_TOKEN = re.compile(r'[ \t\r\n]*([{}\[\],:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}\[\],:"]+)', re.DOTALL)


def read_json(text: str) -> Source | Broken:
    """Never raises; escapes such as ``\\ud800`` are left for the reader of the tree to find."""
    reader = _Reader()
    try:
        tree = reader.decoder.decode(text)
    except json.JSONDecodeError as error:
        return Broken(found=_syntax(error), line=error.lineno)
    except RecursionError:
        return Broken(found=too_deep())
    return Source(tree=tree, marred=reader.marred, line_of=_Lines(text))


class _Reader:
    """The hooks of one decoding, and whether any of them refused something."""

    def __init__(self) -> None:
        self.marred = False
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self.mapping,
            parse_int=self.integer,
            parse_float=self.decimal,
            parse_constant=self.constant,
        )

    def mapping(self, pairs: list[tuple[str, Tree]]) -> Tree:
        held = dict(pairs)
        if len(held) == len(pairs) <= limits.KEYS_PER_MAP_MAX:
            return held
        self.marred = True
        if len(pairs) > limits.KEYS_PER_MAP_MAX:
            return too_many("keys in one mapping", limits.KEYS_PER_MAP_MAX)
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                held[key] = twice(key)
            seen.add(key)
        return held

    def integer(self, text: str) -> Tree:
        if len(text) < 19:
            return int(text)
        return self.noted(whole_number(text))

    def decimal(self, text: str) -> Tree:
        return self.noted(decimal_number(text))

    def constant(self, text: str) -> Tree:
        return self.noted(no_number(text))

    def noted(self, value: Tree) -> Tree:
        self.marred = self.marred or not isinstance(value, int | Decimal)
        return value


def whole_number(text: str) -> Tree:
    """An integer of at most 64 bits, or the refusal."""
    number = int(text) if len(text) <= limits.NUMBER_CHARACTERS_MAX else None
    return number if number is not None and abs(number) <= limits.INTEGER_MAX else huge_number(text)


def decimal_number(text: str) -> Tree:
    """A decimal without an exponent, or the refusal."""
    if len(text) > limits.NUMBER_CHARACTERS_MAX:
        return tiny_number(text) if _TINY.match(text) else huge_number(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return tiny_number(text) if "e-" in text.lower() else huge_number(text)
    exponent = number.as_tuple().exponent
    if number and number.adjusted() > limits.DECIMAL_EXPONENT_MAX:
        return huge_number(text)
    if not isinstance(exponent, int) or exponent > limits.NUMBER_CHARACTERS_MAX:
        return huge_number(text)
    if (number and number.adjusted() < -limits.DECIMAL_EXPONENT_MAX) or exponent < -limits.NUMBER_CHARACTERS_MAX:
        return tiny_number(text)
    return Decimal(format(number, "f"))


def _syntax(error: json.JSONDecodeError) -> Found:
    return Found(
        code="syntax_error",
        what=f"not well-formed JSON in column {error.colno}: {error.msg}",
        why="JSON has double quotes, no comments and no comma after the last item",
        fix="mend that place, or the end of the line before it",
    )


class _Lines:
    """The line of a path. Nearly no document is ever asked, so it costs nothing to make one."""

    __slots__ = ("_found", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[Path, int] | None = None

    def __call__(self, path: Path) -> int | None:
        if self._found is None:
            self._found = _find_lines(self._text) if len(self._text) <= limits.LINES_BYTES_MAX else {}
        return self._found.get(path)


def _find_lines(text: str) -> dict[Path, int]:
    """The line on which each key or item begins; the text is known to be well-formed."""
    found: dict[Path, int] = {}
    path: list[str | int] = []
    expects_key = False
    line, counted_to = 1, 0
    for token in _TOKEN.finditer(text):
        start, word = token.start(1), token[1]
        line, counted_to = line + text.count("\n", counted_to, start), start
        if word == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                expects_key = True
        elif word in "}]":
            expects_key = False
            if path:
                path.pop()
        elif word != ":":
            expects_key = _enter(word, path, found, line, expects_key)
    return found


def _enter(word: str, path: list[str | int], found: dict[Path, int], line: int, expects_key: bool) -> bool:
    """Note a key or the beginning of a value; the answer says whether a key comes next."""
    if expects_key:
        path[-1] = json.loads(word)
        found[tuple(path)] = line
        return False
    if not path or isinstance(path[-1], int):
        found[tuple(path)] = line
    if word == "{":
        path.append("")
        return True
    if word == "[":
        path.append(0)
    return False
