"""Keyword arguments of a program, checked before anything is made of them: a wrong one is told as such."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import cast

from placet.sdk.errors import ProblemView, SpecError
from placet.sdk.specs import Inline, InlineFields

KNOWN = tuple(InlineFields.__annotations__)


def inline_of(given: Mapping[str, object], function: str) -> Inline:
    """The workload that keyword arguments of a public function describe.

    Raises:
        TypeError: there is no such keyword argument.
        SpecError: values that are of no kind that could be meant; all of them are in it.
    """
    refuse_unknown(given, function)
    problems = tuple(
        ProblemView(
            code="wrong_type",
            field=name,
            what=f"`{name}` is {_article(given[name])} and has to be {wanted}",
            why="what was meant cannot be guessed",
            fix=f"write for example {name}={example}",
        )
        for name, (fits, wanted, example) in _KINDS.items()
        if given.get(name) is not None and not fits(given[name])
    )
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise SpecError(f"{function}(): {problems[0].what}{more}", problems, problems[0].fix)
    return Inline(**cast("InlineFields", dict(_plain(given))))


def refuse_unknown(given: Mapping[str, object], function: str) -> None:
    """Raises ``TypeError`` for a name that is none, as Python itself does, with the names there are."""
    unknown = [name for name in given if name not in KNOWN]
    if unknown:
        told = ", ".join(map(repr, unknown))
        raise TypeError(
            f"{function}() got an unexpected keyword argument {told}; a workload is described by {', '.join(KNOWN)}"
        )


def _plain(given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Without what is not stated, and with paths as texts."""
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield name, {key: _text(item) for key, item in value.items()}
        elif isinstance(value, str) or not isinstance(value, Sequence):
            yield name, _text(value)
        else:
            yield name, [_text(item) for item in value]


def _text(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _is_text(value: object) -> bool:
    return isinstance(_text(value), str)


def _are_texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(_is_text, value))


def _are_named_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(_is_text, value.values()))


def _are_variables(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _article(value: object) -> str:
    kind = type(value).__name__
    within = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(within, Sequence | Set) and not isinstance(within, str | bytes):
        others = sorted({type(item).__name__ for item in within if not _is_text(item)})
        kind += f" with {', '.join(others)} in it" if others else ""
    return f"of type {kind}"


_WORDS = (_are_texts, "a list of texts")
_NAMED = (lambda value: _are_texts(value) or _are_named_texts(value), "a list of texts, or a mapping of names to texts")
_MAPPING = (_are_variables, "a mapping with texts as names")
_KINDS: Mapping[str, tuple[Callable[[object], bool], str, str]] = {
    "command": (*_WORDS, '["python", "work.py"]'),
    "python": (_is_text, "the path of a script", '"work.py"'),
    "arguments": (*_WORDS, '["--epochs", "3"]'),
    "requirements": (*_WORDS, '["numpy==2.4.0"]'),
    "gpu_models": (*_WORDS, '["H100-80GB"]'),
    "inputs": (*_NAMED, '{"data": "./data"}'),
    "outputs": (*_NAMED, '["out.jsonl"]'),
    "environment": (*_MAPPING, '{"SEED": "1"}'),
    "labels": (*_MAPPING, '{"team": "research"}'),
    "retries": (_is_whole, "a whole number", "2"),
}
