"""One mistake found while a document is read, before it is known where in the text it stands."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from pydantic_core import PydanticCustomError

Path: TypeAlias = tuple[str | int, ...]

FOUND = "placet"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A mistake at ``path``, which is relative to the value that was looked at."""

    code: str
    what: str
    why: str
    fix: str
    path: Path = ()


def refusal(*found: Found) -> PydanticCustomError:
    """The exception by which a validator hands mistakes to pydantic, which collects them."""
    return PydanticCustomError(FOUND, "refused", {"found": found})


def refuse_all(*groups: Iterable[Found]) -> None:
    """Raise what the checks found, all of it at once, if they found anything."""
    found = [mistake for group in groups for mistake in group]
    if found:
        raise refusal(*found)


def shown(value: object) -> str:
    """The value as a person would recognise it, never long."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            text = repr(value)
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case Decimal():
            text = format(value, "f")
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def dotted(path: Path) -> str:
    """``("outputs", 0, "path")`` as ``outputs[0].path``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
