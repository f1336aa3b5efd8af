"""Writes the generated regions of the docs; with --check it only says which are out of date.

A region stands between ``<!-- generated: NAME -->`` and ``<!-- end generated -->`` in any page of the project.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, get_args

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from placet.cli.exits import MEANINGS as MEANINGS_OF_EXITS
from placet.cli.main import build
from placet.cli.options import hoist
from placet.config import Settings
from placet.contract.codes import CODES, Scope
from placet.contract.schema import spec_schema
from placet.contract.spec import SpecDocument
from placet.domain.failures import MEANINGS
from placet.domain.states import ATTEMPT_MOVES, INTENT_MOVES, WORKLOAD_MOVES
from placet.server.rest import declared
from placet.testing.world import answers

ROOT = Path(__file__).resolve().parents[1]
REGION = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end generated -->)", re.DOTALL)


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted(ROOT.glob("docs/**/*.md"))


def current(text: str) -> str:
    """The page with every generated region as it should be now."""
    return REGION.sub(lambda region: region[1] + GENERATORS[region[2]]() + region[4], text)


def chart(moves: Mapping[str, frozenset[str]]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(moves))}"]
    for state, targets in moves.items():
        lines += [f"    {state} --> {target}" for target in moves if target in targets]
        if not targets:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```", ""])


def causes() -> str:
    heads = ("cause", "class", "whose fault", "is a retry safe", "where", "money spent", "what to do")
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for cause, meaning in MEANINGS.items():
        cells = (
            f"`{cause}`",
            meaning.failure_class,
            meaning.fault,
            words(meaning.retry),
            words(meaning.where),
            meaning.money,
            meaning.fix,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([*rows, ""])


def codes(scope: Scope) -> str:
    rows = ["| code | meaning | what to do | HTTP status |", "|---|---|---|---|"]
    for code in CODES.values():
        if code.scope is scope:
            rows.append(f"| `{code.code}` | {code.meaning} | {code.remedy} | {code.status} |")
    return "\n".join([*rows, ""])


def spec_fields() -> str:
    """One table per part of a spec, in the order in which they are met."""
    tables: dict[str, list[str]] = {}
    collect(SpecDocument, "", tables)
    return "\n".join(line for lines in tables.values() for line in lines)


def collect(model: type[BaseModel], path: str, tables: dict[str, list[str]]) -> None:
    if path in tables:
        return
    lines = tables[path] = [f"### `{path}`" if path else "### The document", "", first_line(model), ""]
    lines += ["| field | type | binding | default | meaning |", "|---|---|---|---|---|"]
    schema = spec_schema()
    properties = schema["$defs"].get(model.__name__, schema)["properties"]
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        kind = type_of(properties[name], schema["$defs"])
        cells = (f"`{name}`", kind, str(extra.get("x-binding", "")), default_of(field), field.description or "")
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        for part in inner:
            kind = f" of type {part.model_fields['type'].annotation.__args__[0]}" if len(inner) > 1 else ""
            collect(part, f"{path}.{name}{kind}".lstrip("."), tables)


def type_of(held: dict[str, Any], parts: dict[str, Any]) -> str:
    """What a value looks like: its unit, its options, or its kind."""
    if "$ref" in held:
        held = parts[held["$ref"].rpartition("/")[2]] | {key: value for key, value in held.items() if key != "$ref"}
    if "x-unit" in held:
        return str(held["x-unit"])
    options = held.get("enum", [held["const"]] if "const" in held else [])
    if options:
        return ", ".join(f"`{option}`" for option in options)
    if "oneOf" in held or "properties" in held:
        return "mapping"
    if held.get("type") == "array":
        return f"list of {type_of(held['items'], parts)}"
    if "anyOf" in held:
        return "text or number"
    return TYPES.get(str(held.get("type")), "")


TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "mapping"}


def models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n")[0]


def default_of(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if value is None or value is PydanticUndefined or value in ("", (), [], {}) or isinstance(value, BaseModel):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def commands() -> str:
    """Every command with its flags, as the program itself describes them."""
    root = typer.main.get_command(build(hoist([])))
    return "\n".join(described(root, "placet"))


def closed(kind: Any) -> list[str]:
    """The words of a closed list; none for anything else."""
    inner = next(iter(get_args(kind)), kind)
    return [one.value for one in inner] if isinstance(inner, type) and issubclass(inner, Enum) else []


def described(command: Any, name: str) -> Iterator[str]:
    """One command and those below it. Typer brings its own click, whose classes have no types to name here."""
    yield from (f"### {name}", "", command.help or "", "")
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if shown:
        yield from ("| argument or flag | meaning |", "|---|---|")
        for parameter in shown:
            names = (*parameter.opts, *parameter.secondary_opts)
            written = names if parameter.param_type_name == "option" else (parameter.name.upper(),)
            words = ", ".join(f"`{word}`" for word in closed(parameter.type_descriptor.annotation))
            told = f"{getattr(parameter, 'help', None) or ''}{words and f' One of {words}.'}"
            yield f"| {', '.join(f'`{each}`' for each in written)} | {told} |"
        yield ""
    for child in getattr(command, "commands", {}).values():
        yield from described(child, f"{name} {child.name}")


def exits() -> str:
    rows = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS_OF_EXITS.items()]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows, ""])


def routes() -> str:
    rows = ["| route | what | scope | sent twice |", "|---|---|---|---|"]
    for door in declared():
        what = door.summary + (" Server-sent events." if door.streams else "")
        rows.append(f"| `{door.name}` | {what} | {door.scope.value if door.scope else 'none'} | {door.repeat} |")
    return "\n".join([*rows, ""])


def settings() -> str:
    rows = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    for name, default, meaning in walk(Settings, ""):
        variable = "" if "[]" in name else f"`PLACET_{name.upper().replace('.', '__')}`"
        rows.append(f"| `{name}` | {variable} | {default} | {meaning} |")
    return "\n".join([*rows, ""])


def walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of every setting, sections opened up, and what an entry of a list of them holds."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from walk(section, f"{prefix}{name}.")
        else:
            yield prefix + name, default_of(field), field.description or ""
            for entry in models_in(section):
                yield from walk(entry, f"{prefix}{name}[].")


def words(value: str) -> str:
    return value.replace("_", " ")


GENERATORS: dict[str, Callable[[], str]] = {
    "account-situations": lambda: "\n".join((*answers.table(), "")),
    "workload-moves": lambda: chart(WORKLOAD_MOVES),
    "attempt-moves": lambda: chart(ATTEMPT_MOVES),
    "intent-moves": lambda: chart(INTENT_MOVES),
    "causes": causes,
    "commands": commands,
    "exits": exits,
    "routes": routes,
    "settings": settings,
    "spec-fields": spec_fields,
    **{f"codes-{scope.value}": partial(codes, scope) for scope in Scope},
}


def main(arguments: list[str]) -> int:
    stale = [page for page in pages() if current(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{'out of date' if '--check' in arguments else 'written'}: {page.relative_to(ROOT)}")
        if "--check" not in arguments:
            page.write_text(current(page.read_text()))
    if not stale:
        print("docs: every generated part is current")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
