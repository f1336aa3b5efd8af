"""Flags that every command takes, wherever they stand before ``--``. Commands find them in ``typer.Context.obj``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WITH_VALUE = ("--data-dir", "--config", "--url")
WITHOUT_VALUE = ("--json", "--debug", "--no-color")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was said for the whole command line; ``program`` is what stood behind ``--``."""

    json: bool = False
    debug: bool = False
    color: bool = True
    data_dir: Path | None = None
    config: Path | None = None
    url: str | None = None
    program: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """A command line in order: the common flags first, then the rest, and apart what stands behind ``--``."""

    words: tuple[str, ...]
    program: tuple[str, ...] = ()

    @property
    def json(self) -> bool:
        return "--json" in self.words

    @property
    def debug(self) -> bool:
        return "--debug" in self.words


def hoist(arguments: Sequence[str]) -> CommandLine:
    """``ls --json`` becomes ``--json ls``, so that the common flags may stand anywhere."""
    common: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    program: list[str] = []
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            program, waiting = waiting, []
        elif word in WITHOUT_VALUE or word.startswith(tuple(f"{flag}=" for flag in WITH_VALUE)):
            common.append(word)
        elif word in WITH_VALUE:
            common += [word, *waiting[:1]]
            del waiting[:1]
        else:
            rest.append(word)
    return CommandLine(words=(*common, *rest), program=tuple(program))


def unreadable(word: str) -> bool:
    """Is this argument not text? Bytes that are none come as halves of characters, which nothing can send or keep."""
    return any("\ud800" <= character <= "\udfff" for character in word)
