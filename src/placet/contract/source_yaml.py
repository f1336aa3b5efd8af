"""YAML into a tree, from events and without recursion: no anchors, no tags, no guesses.

Plain words become values as in JSON only: ``true``, ``false``, ``null``, numbers. ``no``, ``012``, ``1:30`` and dates
stay text, so that nothing changes its meaning between two readers.
"""

import re

import yaml

from placet.contract import limits
from placet.contract.found import Found, Path
from placet.contract.source import NOTHING, Broken, Refusal, Source, Tree, no_number, too_deep, too_many, twice
from placet.contract.source_json import decimal_number, whole_number

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)?(\.[0-9]+|(?<=[0-9])\.)?([eE][-+]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class _TooDeep(Exception):
    """Nothing further down is looked at."""


def read_yaml(text: str) -> Source | Broken:
    """Never raises."""
    loader = _LOADER(text)
    reader = _Reader(loader)
    try:
        return reader.document()
    except _TooDeep:
        return Broken(found=too_deep(), line=reader.line)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        return Broken(found=_syntax(str(error.problem or error.context or "it cannot be read")), line=line)
    except (yaml.YAMLError, ValueError) as error:  # a character, or an escape, that stands for none
        return Broken(found=_syntax(str(error)))
    finally:
        loader.dispose()


class _Reader:
    """Takes events from the parser; recursion is bounded by the limit on depth."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self.loader = loader
        self.line = 1
        self.marred = False
        self.lines: dict[Path, int] = {}

    def document(self) -> Source | Broken:
        self.next()  # the stream begins
        if isinstance(self.next(), yaml.StreamEndEvent):
            return Broken(found=NOTHING)
        tree = self.value(self.next(), (), 0)
        self.next()  # the document ends
        if not isinstance(self.next(), yaml.StreamEndEvent):
            return Broken(found=_MANY, line=self.line)
        return Source(tree=tree, marred=self.marred, line_of=self.lines.get)

    def next(self) -> yaml.Event:
        event: yaml.Event = self.loader.get_event()  # type: ignore[no-untyped-call] # the stubs leave it out
        self.line = event.start_mark.line + 1 if event.start_mark is not None else self.line
        return event

    def value(self, event: yaml.Event, path: Path, depth: int) -> Tree:
        self.lines.setdefault(path, self.line)
        if depth > limits.DEPTH_MAX:
            raise _TooDeep
        refusal = _refused_mark(event)
        match event:
            case yaml.MappingStartEvent():
                value = self.mapping(path, depth)
            case yaml.SequenceStartEvent():
                value = self.sequence(path, depth)
            case yaml.ScalarEvent():
                value = _scalar(event)
            case _:
                value = None
        if refusal is not None:
            value = refusal
        self.marred = self.marred or isinstance(value, Refusal)
        return value

    def sequence(self, path: Path, depth: int) -> list[Tree]:
        items: list[Tree] = []
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            items.append(self.value(event, (*path, len(items)), depth + 1))
        return items

    def mapping(self, path: Path, depth: int) -> Tree:
        held: dict[str, Tree] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key, refusal = self.key(event, path, depth)
            if key in held:
                refusal = refusal or twice(key)
                self.lines[(*path, key)] = self.line
            value = self.value(self.next(), (*path, key), depth + 1)
            self.marred = self.marred or refusal is not None
            held[key] = value if refusal is None else refusal
        if len(held) > limits.KEYS_PER_MAP_MAX:
            return too_many("keys in one mapping", limits.KEYS_PER_MAP_MAX)
        return held

    def key(self, event: yaml.Event, path: Path, depth: int) -> tuple[str, Refusal | None]:
        """The key's own letters, whatever they would mean as a value."""
        self.lines.setdefault((*path, "?"), self.line)
        refusal = _refused_mark(event)
        if not isinstance(event, yaml.ScalarEvent):
            self.value(event, (*path, "?"), depth + 1)
            return "?", refusal or _BAD_KEY
        key = str(event.value)
        self.lines.setdefault((*path, key), self.line)
        if key == "<<" and event.implicit[0]:
            return key, _refused_alias("<<")
        return key, refusal


def _scalar(event: yaml.ScalarEvent) -> Tree:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return whole_number(text)
    if _DECIMAL.fullmatch(text) and text[-1] != ".":
        return decimal_number(text)
    return no_number(text) if _NO_NUMBER.fullmatch(text) else text


def _refused_mark(event: yaml.Event) -> Refusal | None:
    """Aliases, anchors and tags change what a reader sees; none is followed."""
    if isinstance(event, yaml.AliasEvent):
        return _refused_alias(f"*{event.anchor}")
    anchor = getattr(event, "anchor", None)
    if anchor is not None:
        return _refused_alias(f"&{anchor}")
    tag = getattr(event, "tag", None)
    if tag is None:
        return None
    return Refusal(
        Found(
            code="tag_refused",
            what=f"the tag {str(tag)[:60]} is not followed",
            why="a tag changes the type of a value behind the reader's back",
            fix="remove the tag; put text in quotes",
        )
    )


def _refused_alias(mark: str) -> Refusal:
    return Refusal(
        Found(
            code="alias_refused",
            what=f"`{mark[:60]}` is not followed",
            why="anchors, aliases and merge keys let a short text grow without bound",
            fix="write the value out where it is needed",
        )
    )


def _syntax(problem: str) -> Found:
    return Found(
        code="syntax_error",
        what=f"not well-formed YAML: {problem[:200]}",
        why="indentation is made of spaces, and `: `, `#` and brackets in text need quotes",
        fix="mend that line, or the one before it",
    )


_MANY = Found(
    code="many_documents",
    what="the text holds more than one document",
    why="a spec is exactly one document",
    fix="remove the line `---`, or submit each document by itself",
)
_BAD_KEY = Refusal(
    Found(
        code="bad_key",
        what="a list or mapping stands where the name of a field must",
        why="names are plain text",
        fix="write the name as text",
    )
)
