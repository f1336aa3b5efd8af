"""From what a person has (a file, a mapping, a command) to the document that is sent. Paths are settled here.

A server knows nothing of the client's folders, so every relative path becomes absolute: against the folder of the spec
file, or against the working folder when there is no file.
"""

import json
import os
import re
import select
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias, TypedDict

from placet.sdk.errors import ProblemView, SpecError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Document: TypeAlias = dict[str, Json]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
NAME_MAX = 63
# More than a spec may have; what is read of anything longer only serves to say so.
DOCUMENT_MAX_BYTES = 16 * 1024 * 1024
# Who gives the name of a pipe has something write into it, now.
PIPE_WITHIN_S = 5.0


class InlineFields(TypedDict, total=False):
    """The keyword arguments that describe a workload. Paths count from the working folder."""

    command: Sequence[str]
    python: str
    arguments: Sequence[str]
    requirements: Sequence[str]
    image: str | None
    name: str | None
    gpu_memory: str | int | None
    gpu_count: int | None
    gpu_models: Sequence[str]
    cpu: str | float | None
    memory: str | int | None
    disk: str | int | None
    timeout: str | float | None
    max_cost: str | float | None
    inputs: Mapping[str, str] | Sequence[str]
    outputs: Mapping[str, str] | Sequence[str]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    retries: int | None


@dataclass(frozen=True, kw_only=True)
class Inline:
    """A workload described by flags or keyword arguments; ``None`` and empty mean not stated."""

    command: Sequence[str] = ()
    python: str | None = None
    arguments: Sequence[str] = ()
    requirements: Sequence[str] = ()
    image: str | None = None
    name: str | None = None
    gpu_memory: str | int | None = None
    gpu_count: int | None = None
    gpu_models: Sequence[str] = ()
    cpu: str | float | None = None
    memory: str | int | None = None
    disk: str | int | None = None
    timeout: str | float | None = None
    max_cost: str | float | None = None
    inputs: Mapping[str, str] | Sequence[str] = ()
    outputs: Mapping[str, str] | Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    retries: int | None = None


def from_file(path: Path) -> Document:
    """The document in a YAML or JSON file, its paths settled against the file's folder.

    Raises:
        SpecError: the document has mistakes; all of them are in it, with their lines.
        OSError: the file cannot be read.
    """
    return from_text(read_document(path), path.absolute().parent, str(path))


def read_document(path: Path) -> bytes:
    """The bytes of a spec, of a file or a pipe; no more than anybody would write, and no longer than it comes.

    Raises:
        SpecError: nobody writes into the pipe.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISFIFO(kind):
            os.set_blocking(descriptor, True)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(DOCUMENT_MAX_BYTES)
        return _from_pipe(descriptor, path)
    finally:
        os.close(descriptor)


def _from_pipe(descriptor: int, path: Path) -> bytes:
    """All that is written into it, by a writer who has to come and to go on within a time."""
    text, ready = b"", select.poll()
    ready.register(descriptor, select.POLLIN | select.POLLHUP)
    while len(text) < DOCUMENT_MAX_BYTES:
        if not ready.poll(PIPE_WITHIN_S * 1000):
            raise SpecError(f"{path} is a pipe into which nobody writes", fix="name a file, or `-` for stdin")
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        text += piece
    return text


def from_text(text: bytes, base: Path, name: str) -> Document:
    """The document in a text, its paths settled against a folder."""
    from placet.contract.parse import Parsed, parse
    from placet.contract.source import Source
    from placet.contract.source_json import read_json
    from placet.contract.source_yaml import read_yaml

    parsed = parse(text, now_ms=time.time_ns() // 1_000_000)
    if not isinstance(parsed, Parsed):
        problems = tuple(ProblemView(**vars(problem)) for problem in parsed)
        raise SpecError(f"{name}: {_counted(len(problems))}", problems)
    plain = text.decode("utf-8").removeprefix("\ufeff")
    source = read_json(plain) if plain.lstrip()[:1] in {"{", "["} else read_yaml(plain)
    assert isinstance(source, Source), "what was parsed can be read"
    document = _plain(source.tree)
    assert isinstance(document, dict), "what was parsed is a mapping"
    inner = document.get("spec")
    return settled(inner if document.keys() == {"spec"} and isinstance(inner, dict) else document, base)


def from_mapping(spec: Mapping[str, object], base: Path) -> Document:
    """The document in a mapping, checked as a file would be."""
    try:
        text = json.dumps(spec, default=_encodable, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"the spec cannot be written as JSON: {error}", fix="use texts, numbers, lists and mappings only"
        ) from error
    return from_text(text.encode(), base, "the spec")


def from_inline(inline: Inline, base: Path) -> Document:
    """The document of flags; which words of a command are files of the working folder is seen here."""
    document: Document = {"runtime": _runtime(inline, base)}
    sections: dict[str, dict[str, object]] = {
        "resources": {
            "minimum_gpu_memory_gb": inline.gpu_memory,
            "gpu_count": inline.gpu_count,
            "gpu_models": list(inline.gpu_models),
            "cpu_cores": inline.cpu,
            "system_memory_gb": inline.memory,
            "disk_gb": inline.disk,
        },
        "constraints": {"maximum_runtime_seconds": inline.timeout, "maximum_estimated_cost": inline.max_cost},
        "retry": {"attempts": None if inline.retries is None else inline.retries + 1},
    }
    for name, section in sections.items():
        stated = {field: value for field, value in section.items() if value not in (None, [])}
        if stated:
            document[name] = _plain(stated)
    extra: dict[str, object] = {
        "name": inline.name,
        "inputs": [{"name": name, "source": source} for name, source in _named(inline.inputs)],
        "outputs": [{"name": name, "path": path} for name, path in _named(inline.outputs)],
        "environment": dict(inline.environment or {}),
        "labels": dict(inline.labels or {}),
    }
    document.update({field: _plain(value) for field, value in extra.items() if value})
    return from_mapping(document, base)


def settled(document: Document, base: Path) -> Document:
    """The document with every relative path of this machine made absolute."""
    settled_document = dict(document)
    runtime = document.get("runtime")
    if isinstance(runtime, dict) and runtime.get("type") != "container":
        settled_document["runtime"] = _settled_runtime(runtime, base)
    settled_document.update(_settled_inputs(document, base))
    array = document.get("array")
    if isinstance(array, list):
        settled_document["array"] = [
            {**item, **_settled_inputs(item, base)} if isinstance(item, dict) else item for item in array
        ]
    return settled_document


def _settled_runtime(runtime: Document, base: Path) -> Document:
    moved = dict(runtime)
    for field in ("script", "working_directory", "workingDirectory"):
        value = runtime.get(field)
        if isinstance(value, str):
            moved[field] = _absolute(value, base)
    command = runtime.get("command")
    # A program named by a relative path could only mean the client's folder: the work folder is empty at the start.
    if isinstance(command, list) and command and isinstance(command[0], str) and "/" in command[0]:
        moved["command"] = [_absolute(command[0], base), *command[1:]]
    return moved


def _settled_inputs(holder: Document, base: Path) -> Document:
    inputs = holder.get("inputs")
    if not isinstance(inputs, list):
        return {}
    return {"inputs": [_settled_input(item, base) for item in inputs]}


def _settled_input(item: Json, base: Path) -> Json:
    source = item.get("source") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(source, str) or _SCHEME.match(source):
        return item
    return {**item, "source": _absolute(source, base)}


def _absolute(path: str, base: Path) -> str:
    """Lexical: a link stays the link its owner named."""
    expanded = Path(path).expanduser()
    whole = expanded if expanded.is_absolute() else base / expanded
    parts: list[str] = []
    for part in whole.parts[1:]:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    return "/" + "/".join(parts)


def _runtime(inline: Inline, base: Path) -> Document:
    kinds = [kind for kind, given in (("command", inline.command), ("python", inline.python)) if given]
    if len(kinds) != 1 and not inline.image:
        raise SpecError(
            "a workload is a command or a Python script, one of the two",
            fix="give a command (behind `--`), or a script (`python`)",
        )
    if inline.python:
        runtime: dict[str, object] = {"type": "python", "script": inline.python}
        runtime |= {"arguments": list(inline.arguments or inline.command), "requirements": list(inline.requirements)}
        return _stated(runtime)
    if inline.image:
        return _stated({"type": "container", "image": inline.image, "command": list(inline.command)})
    return _stated({"type": "process", "command": [_file_word(word, base) for word in inline.command]})


def _stated(runtime: dict[str, object]) -> Document:
    plain = _plain({field: value for field, value in runtime.items() if value not in ([], None)})
    assert isinstance(plain, dict)
    return plain


def _file_word(word: str, base: Path) -> str:
    """``work.py`` in ``python work.py`` is the file that stands here, though the program starts elsewhere."""
    if word.startswith(("-", "/")) or _SCHEME.match(word):
        return word
    return _absolute(word, base) if (base / word).is_file() else word


def _named(values: Mapping[str, str] | Sequence[str]) -> list[tuple[str, str]]:
    """``name=value`` pairs; without a name, the last part of the path is one."""
    if isinstance(values, Mapping):
        return list(values.items())
    pairs = []
    for value in values:
        name, equals, path = value.partition("=")
        pairs.append((name, path) if equals and "/" not in name else (_name_of(value), value))
    return pairs


def _name_of(path: str) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", last).strip("-._")[:NAME_MAX] or "data"


def _plain(value: object) -> Json:
    """Values of the reader of specs as JSON's own."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case dict():
            return {str(key): _plain(held) for key, held in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _encodable(value: object) -> object:
    match value:
        case Path():
            return str(value)
        case Decimal():
            return _plain(value)
        case _:
            raise TypeError(f"a {type(value).__name__} has no place in a spec")


def _counted(number: int) -> str:
    return "the spec has a mistake" if number == 1 else f"the spec has {number} mistakes"
