"""From pydantic's errors to our own: a stable code, where, what, why, and the smallest change that helps."""

import difflib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from placet.contract.found import FOUND, Found, Path, dotted, shown
from placet.contract.index import RUNTIMES, both_styles, model_at, nearest, note_at

_TYPES = {
    "string_type": "text", "int_type": "a whole number", "int_from_float": "a whole number", "tuple_type": "a list",
    "bool_type": "true or false", "dict_type": "a mapping", "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}  # fmt: skip
_BOUNDS = {"greater_than_equal": "at least", "less_than_equal": "at most"}


def explain(error: ValidationError, tree: object) -> Iterator[Found]:
    """Every mistake of one validation, with paths from the top of the document."""
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "too_short" and any(_lies_within(other["loc"], detail["loc"]) for other in details):
            continue  # only what is right is counted, and what is wrong in the list is told
        yield from _explained(detail, tree)


def _lies_within(inner: Path, outer: Path) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _explained(detail: ErrorDetails, tree: object) -> Iterator[Found]:
    path = _path_of(detail["loc"])
    if path[-1:] == ("[key]",) and len(path) > 1 and detail["type"] != "extra_forbidden":
        path = path[:-1]  # it is about the key itself, not about a field of that name
    context = detail.get("ctx", {})
    match detail["type"]:
        case kind if kind == FOUND:
            found: Iterable[Found] = context["found"]
            yield from (replace(mistake, path=path + mistake.path) for mistake in found)
        case "missing":
            yield _missing(path, tree)
        case "union_tag_not_found":
            yield _missing((*path, "type"), tree)
        case "extra_forbidden":
            yield _unknown(path, tree)
        case "enum" | "literal_error" | "union_tag_invalid":
            yield _no_option(path, detail)
        case kind if kind in _BOUNDS:
            yield _outside(path, tree, shown(detail["input"]), f"{_BOUNDS[kind]} {_bound(context)}")
        case "too_short":
            yield _outside(path, tree, "an empty list", f"at least {context['min_length']} item")
        case "too_long" | "string_too_long":
            noun = "items" if detail["type"] == "too_long" else "characters"
            yield _too_large(path, f"{context['max_length']} {noun}")
        case kind:
            yield _wrong_type(path, tree, detail["input"], _TYPES.get(kind, detail["msg"].lower()))


def _path_of(loc: Path) -> Path:
    """The path in the document; pydantic puts the kind of runtime after ``runtime``."""
    return loc[:1] + loc[2:] if loc[:1] == ("runtime",) and len(loc) > 1 and loc[1] in RUNTIMES else loc


def _runtime_of(tree: object) -> str | None:
    runtime = tree.get("runtime") if isinstance(tree, Mapping) else None
    kind = runtime.get("type") if isinstance(runtime, Mapping) else None
    return kind if isinstance(kind, str) else None


def _missing(path: Path, tree: object) -> Found:
    name = str(path[-1])
    examples = {
        "runtime": "runtime: {type: process, command: [python, work.py]}",
        "type": "type: process (or container, or python)",
        "command": "command: [python, work.py]",
        "image": "image: registry.example.com/batch-inference:v4",
        "name": "name: predictions",
        "path": "path: /outputs/predictions.jsonl" if path[0] == "outputs" else "path: /data",
    }
    return Found(
        code="missing_field",
        path=path,
        what=f"`{name}` is not given",
        why="it says where the program comes from"
        if path == ("runtime", "type")
        else _why(path, tree, "it has no default"),
        fix=f"add for example `{examples.get(name, name)}`",
    )


def _unknown(path: Path, tree: object) -> Found:
    name, parent = str(path[-1]), path[:-1]
    runtime = _runtime_of(tree)
    model = model_at(parent, runtime)
    if model is not None and name in model.known:
        other = next(
            (style for known in model.model_fields if name in both_styles(known) for style in both_styles(known)), name
        )
        return Found(
            code="duplicate_key",
            path=path,
            what=f"`{other}` is given in both naming styles",
            why="readers would disagree on which one counts",
            fix="keep one of the two",
        )
    meant = nearest(name, parent, model)
    owners = [kind for kind, known in RUNTIMES.items() if name in known.known] if parent == ("runtime",) else []
    where = f"in `{dotted(parent)}`" if parent else "at the top of a spec"
    if owners:
        why = f"a {runtime} runtime has none; it belongs to {' and '.join(owners)} runtimes"
        return Found(
            code="unknown_field", path=path, what=f"there is no field `{name}` here", why=why,
            fix=f"remove it, or set `type: {owners[0]}`",
        )  # fmt: skip
    return Found(
        code="unknown_field",
        path=path,
        what=f"there is no field `{name[:80]}` {where}",
        why="a misspelt requirement must not be ignored silently",
        fix=_meant(name, meant, parent) if meant else "remove it; `placet schema` lists all fields",
    )


def _meant(name: str, meant: str, parent: Path) -> str:
    """The field that was probably meant; one of the same name elsewhere is told with its place."""
    elsewhere = f" at the top of the spec, not in `{dotted(parent)}`" if parent and meant == name else ""
    return f"did you mean `{meant}`{elsewhere}?"


def _options(expected: str) -> list[str]:
    return [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",") if word.strip()]


def _no_option(path: Path, detail: ErrorDetails) -> Found:
    if detail["type"] == "union_tag_invalid":
        path, given, options = (*path, "type"), detail["ctx"]["tag"], list(RUNTIMES)
    else:
        given, options = detail["input"], _options(str(detail["ctx"]["expected"]))
    close = difflib.get_close_matches(str(given)[:60].lower().replace("-", "_"), options, n=1, cutoff=0.5)
    listed = ", ".join(options)
    return Found(
        code="not_an_option",
        path=path,
        what=f"{shown(given)} is not one of the options",
        why=f"`{path[-1]}` takes one of: {listed}" if isinstance(path[-1], str) else f"the options are: {listed}",
        fix=f"did you mean `{close[0]}`?" if close else f"write for example `{options[0]}`",
    )


def _bound(context: Mapping[str, object]) -> object:
    return context.get("ge", context.get("le"))


def _outside(path: Path, tree: object, what: str, bound: str) -> Found:
    return Found(
        code="out_of_range",
        path=path,
        what=f"{what} is out of range",
        why=_why(path, tree, f"it must be {bound}"),
        fix=f"write {bound}",
    )


def _too_large(path: Path, most: str) -> Found:
    return Found(
        code="too_large", path=path, what=f"more than {most}", why="a spec is small", fix=f"keep it to {most} at most"
    )


def _wrong_type(path: Path, tree: object, given: object, wanted: str) -> Found:
    if given is None:
        given_text = "nothing"
    elif isinstance(given, str):
        given_text = f"the text {shown(given)}"
    else:
        given_text = shown(given)
    return Found(
        code="wrong_type",
        path=path,
        what=f"{given_text} is not {wanted}",
        why=_why(path, tree, f"{wanted} is needed"),
        fix=_retyped(path, given, wanted),
    )


def _retyped(path: Path, given: object, wanted: str) -> str:
    name = str(path[-1]) if path else ""
    if wanted == "a list" and isinstance(given, str):
        words = _words(given) if name in {"command", "arguments", "entrypoint"} else [given]
        listed = ", ".join(f'"{word}"' for word in words)
        return f"write a list: `{name}: [{listed}]`" if len(listed) < 200 else "write a list"
    if wanted == "a list" and isinstance(given, Mapping):
        return f"put the mapping into a list: `{name}: [{{...}}]`"
    if wanted == "a mapping" and isinstance(given, list) and name in {"providers", "regions"}:
        return f"write `{name}: {{allowed: [...]}}`"
    if wanted == "a whole number" and isinstance(given, str | Decimal):
        digits = str(given).strip().partition(".")[0].lstrip("0")
        return (
            f"write `{digits}` without quotes or a point"
            if digits.isdecimal() and len(digits) < 12
            else "write a whole number, for example 1"
        )
    if wanted == "true or false":
        return "write true or false, without quotes"
    if wanted == "text" and isinstance(given, int | Decimal):
        return f'write it in quotes: "{shown(given)}"'
    return f"write {wanted}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _why(path: Path, tree: object, rule: str) -> str:
    note = note_at(path, _runtime_of(tree))
    description = note.info.description if note is not None else None
    return f"{rule} ({description.rstrip('.')})" if description and len(description) < 90 else rule
