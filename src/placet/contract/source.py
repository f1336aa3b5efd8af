"""A document as plain values with the mistakes of its text in it, however it was written; the ways to look into it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from placet.contract import limits
from placet.contract.found import Found, Path

# None, bool, int, Decimal, str, list, dict, or a Refusal where the text holds something that has no value.
Tree: TypeAlias = object


@dataclass(frozen=True)
class Refusal:
    """Stands in the tree where a value is refused for how it is written."""

    found: Found


@dataclass(frozen=True, kw_only=True)
class Source:
    """What was read. ``marred`` says that the tree may hold refusals; ``line_of`` finds the line of a path."""

    tree: Tree
    marred: bool
    line_of: Callable[[Path], int | None]


@dataclass(frozen=True, kw_only=True)
class Broken:
    """The text could not be read at all."""

    found: Found
    line: int | None = None


NOTHING = Found(
    code="empty_document",
    what="the document is empty",
    why="a spec says at least what to run",
    fix="start from `placet init`",
)


def too_deep() -> Found:
    return Found(
        code="too_deep",
        what=f"the document is nested more than {limits.DEPTH_MAX} deep",
        why="no spec needs more than six levels",
        fix="remove the nesting",
    )


def too_many(noun: str, most: int) -> Refusal:
    return Refusal(
        Found(
            code="too_large", what=f"more than {most} {noun}", why="a spec is small", fix=f"keep it to {most} at most"
        )
    )


def twice(key: str) -> Refusal:
    return Refusal(
        Found(
            code="duplicate_key",
            what=f"`{key[:60]}` is given twice",
            why="readers would disagree on which one counts",
            fix="keep one of the two",
        )
    )


def huge_number(text: str) -> Refusal:
    shown = text if len(text) <= 24 else f"{text[:20]}... ({len(text)} characters)"
    return Refusal(
        Found(
            code="number_too_large",
            what=f"{shown} is too large",
            why="numbers fit in 64 bits",
            fix="write a smaller number",
        )
    )


def tiny_number(text: str) -> Refusal:
    shown = text if len(text) <= 24 else f"{text[:20]}... ({len(text)} characters)"
    return Refusal(
        Found(
            code="number_too_small",
            what=f"{shown} is nearer to zero than any quantity is counted",
            why="the numbers of a spec are counted in billionths at the finest",
            fix="write 0 or a larger number, or leave the field out",
        )
    )


def no_number(text: str) -> Refusal:
    return Refusal(
        Found(
            code="not_a_number",
            what=f"{text} is not a quantity",
            why="nothing can be compared with it",
            fix="write a finite number, or leave the field out",
        )
    )


def bad_text(what: str) -> Found:
    return Found(
        code="bad_text",
        what=what,
        why="such text cannot be stored or shown",
        fix="remove the character; pass binary data as an input",
    )


def values(tree: Tree) -> Iterator[tuple[Path, Tree, int]]:
    """Every value with its path and depth, without recursion; keys come as the values they are."""
    waiting: list[tuple[Path, Tree, int]] = [((), tree, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        yield path, value, depth
        if depth > limits.DEPTH_MAX:
            continue
        if isinstance(value, dict):
            waiting.extend(((*path, key), held, depth + 1) for key, held in reversed(value.items()))
        elif isinstance(value, list):
            waiting.extend(((*path, index), held, depth + 1) for index, held in reversed(list(enumerate(value))))


REMOVED = object()


def replaced(tree: Tree, path: Path, value: Tree) -> Tree:
    """A copy of the tree with another value at the path, or without it; the way there must exist."""
    if not path:
        return {} if value is REMOVED else value
    step, rest = path[0], path[1:]
    if isinstance(tree, dict) and isinstance(step, str):
        if rest:
            return {**tree, step: replaced(tree[step], rest, value)} if step in tree else tree
        kept = {key: held for key, held in tree.items() if key != step}
        return kept if value is REMOVED else kept | {step: value}
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        inner = replaced(tree[step], rest, value)
        # The places of the other items must stay what they are.
        return [] if not rest and value is REMOVED else [*tree[:step], inner, *tree[step + 1 :]]
    return tree
