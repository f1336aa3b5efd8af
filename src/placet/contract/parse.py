"""Text into a spec, or into everything that is wrong with it; no exception is ever the answer.

Well-formed JSON without mistakes takes the short way: no lines, no paths. Only when something is wrong is the document
looked at again, part by part without what is known to be wrong, until all mistakes are found and have their lines.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import ValidationError

from placet.contract import limits, support
from placet.contract.canonical import body_digest
from placet.contract.convert import to_domain
from placet.contract.explain import explain
from placet.contract.found import Found, Path, dotted
from placet.contract.index import as_written, both_styles
from placet.contract.source import NOTHING, REMOVED, Broken, Refusal, Source, Tree, bad_text, replaced, too_deep, values
from placet.contract.source_json import read_json
from placet.contract.spec import SpecDocument
from placet.contract.standins import stand_in
from placet.contract.suspicion import suspicious
from placet.domain.contradictions import contradictions
from placet.domain.problems import Problem
from placet.domain.spec import Spec

Format = Literal["json", "yaml"]

# Tabs and line ends are text; a mark for the byte order may only come first.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_ROUNDS_MAX = 5


@dataclass(frozen=True)
class Parsed:
    """An accepted document. ``deadline_after_ms`` is set when the deadline was written as a time from now."""

    spec: Spec
    warnings: tuple[Problem, ...] = ()
    deadline_after_ms: int | None = None

    @cached_property
    def body_digest(self) -> str:
        """Equal for equal requests, whenever they are made: what an idempotency key is compared by."""
        return body_digest(self.spec, deadline_after_ms=self.deadline_after_ms)


def parse(
    document: bytes | str,
    *,
    now_ms: int,
    form: Format | None = None,
    check_support: bool = True,
    check_now: bool = False,
) -> Parsed | tuple[Problem, ...]:
    """The spec in a document, or all its mistakes in the order of the document.

    Without ``form``, text that begins with ``{`` or ``[`` is JSON and everything else YAML. A document may also be
    wrapped as ``{"spec": {...}}``. ``now_ms`` is what ``+2h`` counts from. ``check_support=False`` accepts also what
    nothing acts on yet. ``check_now`` also finds what cannot hold at this moment, such as a deadline that has passed;
    without it a document that was once accepted is one for ever.
    """
    text = _text(document)
    if not isinstance(text, str):
        return (_problem(text, None),)
    source = _read(text, form)
    if isinstance(source, Broken):
        return (_problem(source.found, source.line),)
    wrapped = isinstance(source.tree, dict) and source.tree.keys() == {"spec"}
    tree = source.tree["spec"] if wrapped and isinstance(source.tree, dict) else source.tree
    if not source.marred and ("\\" not in text or not _ill_texts(tree)):
        context = {"now_ms": now_ms}
        try:
            spec = to_domain(SpecDocument.model_validate(tree, context=context))
        except ValidationError:
            pass
        else:
            problems = support.unsupported(spec) if check_support else ()
            impossible = contradictions(spec, now_ms) if check_now else ()
            if not problems and impossible:
                return _placed(impossible, source, wrapped)
            if not problems:
                warnings = (*suspicious(spec), *support.recorded_only(spec))
                return Parsed(spec, _placed(warnings, source, wrapped), context.get("deadline_after_ms"))
    return _mistakes(source, tree, wrapped, now_ms=now_ms, check_support=check_support)


def _text(document: bytes | str) -> str | Found:
    size = len(document)
    if size > limits.JSON_BYTES_MAX:
        return _too_large(size, limits.JSON_BYTES_MAX)
    if isinstance(document, bytes):
        try:
            document = document.decode("utf-8")
        except UnicodeDecodeError as error:
            return bad_text(f"byte {error.start} is not part of UTF-8 text")
    document = document.removeprefix("\ufeff")
    control = _CONTROL.search(document)
    if control is not None:
        line = document.count("\n", 0, control.start()) + 1
        return bad_text(f"line {line} holds the character U+{ord(control[0]):04X}")
    return document if document.strip() else NOTHING


def _too_large(size: int, most: int) -> Found:
    """JSON may be larger than YAML because it is read faster; what is too large for both has no use for that."""
    as_json = most < size <= limits.JSON_BYTES_MAX
    return Found(
        code="too_large",
        what=f"the document has {size} bytes; {most} are the most" + (" in YAML" if as_json else ""),
        why="a spec is small; JSON may be larger than YAML because it is read faster" if as_json else "a spec is small",
        fix="pass large data as an input, or write the spec as JSON" if as_json else "pass large data as an input",
    )


def _read(text: str, form: Format | None) -> Source | Broken:
    if form == "json" or (form is None and text.lstrip()[:1] in {"{", "["}):
        return read_json(text)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limits.YAML_BYTES_MAX:
        return Broken(found=_too_large(size, limits.YAML_BYTES_MAX))
    from placet.contract.source_yaml import read_yaml  # a server that is sent JSON never loads a reader of YAML

    return read_yaml(text)


def _ill_texts(tree: Tree) -> dict[Path, Found]:
    """Texts and keys with characters that came in by an escape."""
    found: dict[Path, Found] = {}
    for path, value, _ in values(tree):
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        for text in texts:
            control = _CONTROL.search(text)
            if control is not None:
                place = path if isinstance(value, str) else (*path, text)
                found[place] = bad_text(f"the text holds the character U+{ord(control[0]):04X}")
    return found


def _mistakes(source: Source, tree: Tree, wrapped: bool, *, now_ms: int, check_support: bool) -> tuple[Problem, ...]:
    """All mistakes; what is known to be wrong is left out, and the rest looked at once more."""
    found: dict[tuple[Path, str, str], Found] = {}
    for mistake in _mistakes_of_text(tree):
        found[mistake.path, mistake.code, mistake.what] = mistake
        tree = _mended(tree, mistake)
    if not isinstance(tree, dict):
        found[(), "wrong_type", ""] = _no_mapping()
    for _ in range(_ROUNDS_MAX):
        new = [mistake for mistake in _round(tree, now_ms, check_support) if not _follows(mistake, found)]
        if not new:
            break
        for mistake in new:
            found[mistake.path, mistake.code, mistake.what] = mistake
        for mistake in new:
            tree = _mended(tree, mistake)
    told = [mistake for mistake in found.values() if not _misspelt(mistake, found.values())]
    placed = [_problem(mistake, _line(source, mistake.path, wrapped)) for mistake in told]
    placed.sort(key=lambda problem: (problem.line is None, problem.line or 0))
    return tuple(placed[: limits.PROBLEMS_MAX])


def _mistakes_of_text(tree: Tree) -> list[Found]:
    found = [Found(code=mistake.code, path=path, what=mistake.what, why=mistake.why, fix=mistake.fix)
             for path, mistake in _ill_texts(tree).items()]  # fmt: skip
    for path, value, depth in values(tree):
        if isinstance(value, Refusal):
            mistake = value.found
            found.append(Found(code=mistake.code, path=path, what=mistake.what, why=mistake.why, fix=mistake.fix))
        elif depth > limits.DEPTH_MAX:
            mistake = too_deep()
            found.append(Found(code=mistake.code, path=path[:4], what=mistake.what, why=mistake.why, fix=mistake.fix))
            break
    return found


def _round(tree: Tree, now_ms: int, check_support: bool) -> list[Found]:
    if not isinstance(tree, dict):
        return []
    try:
        spec = to_domain(SpecDocument.model_validate(tree, context={"now_ms": now_ms}))
    except ValidationError as error:
        return list(explain(error, tree))
    problems = support.unsupported(spec) if check_support else ()
    return [
        Found(code=problem.code, path=_steps(problem.field), what=problem.what, why=problem.why, fix=problem.fix)
        for problem in problems
    ]


def _follows(mistake: Found, found: Mapping[tuple[Path, str, str], Found]) -> bool:
    """Is this only the hole that an earlier mistake left?"""
    if (mistake.path, mistake.code, mistake.what) in found:
        return True
    return mistake.code == "missing_field" and any(
        earlier.path[: len(mistake.path)] == mistake.path for earlier in found.values()
    )


def _misspelt(mistake: Found, found: Iterable[Found]) -> bool:
    """Is the missing field there under a wrong name, which is already told?"""
    meant = f"did you mean `{mistake.path[-1]}`?" if mistake.path else ""
    return mistake.code == "missing_field" and any(
        other.code == "unknown_field" and other.fix == meant and other.path[:-1] == mistake.path[:-1] for other in found
    )


def _mended(tree: Tree, mistake: Found) -> Tree:
    """The document without what is wrong, or with a stand-in where something must be, so that the rest can be read."""
    value = stand_in(mistake.path, tree)
    written = as_written(tree, mistake.path)
    if value is not REMOVED or not written or isinstance(written[-1], int):
        return replaced(tree, written, value)
    for style in both_styles(str(mistake.path[-1])):
        tree = replaced(tree, (*written[:-1], style), REMOVED)
    return tree


def _line(source: Source, path: Path, wrapped: bool) -> int | None:
    """The line of the path, or of the nearest thing around it that has one."""
    steps = as_written(source.tree, (("spec",) if wrapped else ()) + path)
    while True:
        line = source.line_of(steps)
        if line is not None or not steps:
            return line
        steps = steps[:-1]


def _steps(field: str) -> Path:
    """``outputs[0].path`` as ``("outputs", 0, "path")``."""
    found = re.findall(r"\[([0-9]+)\]|([^.\[\]]+)", field)
    return tuple(int(index) if index else name for index, name in found)


def _placed(warnings: tuple[Problem, ...], source: Source, wrapped: bool) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            code=warning.code,
            field=warning.field,
            what=warning.what,
            why=warning.why,
            fix=warning.fix,
            line=_line(source, _steps(warning.field), wrapped),
        )
        for warning in warnings
    )


def _no_mapping() -> Found:
    return Found(
        code="wrong_type",
        what="the document is not a mapping",
        why="a spec is a mapping of fields to values",
        fix="start from `placet init`",
    )


def _problem(found: Found, line: int | None) -> Problem:
    return Problem(code=found.code, field=dotted(found.path), what=found.what, why=found.why, fix=found.fix, line=line)
