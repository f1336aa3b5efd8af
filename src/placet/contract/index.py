"""The fields of a spec as a list, and the nearest name to a misspelt one."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import get_args

from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from placet.contract.found import Path
from placet.contract.part import Part
from placet.contract.spec import ContainerRuntime, ProcessRuntime, PythonRuntime, SpecDocument

RUNTIMES: dict[str, type[Part]] = {"container": ContainerRuntime, "process": ProcessRuntime, "python": PythonRuntime}

_NAME_CHARACTERS_MAX = 100

# What people write who come from elsewhere.
_SYNONYMS = {
    "args": "runtime.arguments", "budget": "constraints.maximum_estimated_cost", "cmd": "runtime.command",
    "cpu": "resources.cpu_cores", "cpus": "resources.cpu_cores", "disk": "resources.disk_gb",
    "disk_size": "resources.disk_gb", "env": "environment", "envs": "environment", "gpu": "resources.gpu_count",
    "gpu_memory": "resources.minimum_gpu_memory_gb", "gpu_type": "resources.gpu_models",
    "gpus": "resources.gpu_count", "max_cost": "constraints.maximum_estimated_cost",
    "max_runtime": "constraints.maximum_runtime_seconds", "maximum_runtime": "constraints.maximum_runtime_seconds",
    "memory": "resources.system_memory_gb", "memory_gb": "resources.system_memory_gb",
    "mounts": "volumes", "num_gpus": "resources.gpu_count", "ram": "resources.system_memory_gb",
    "region": "constraints.regions", "retries": "retry.attempts", "spot": "constraints.capacity_types",
    "timeout": "constraints.maximum_runtime_seconds", "timeout_seconds": "constraints.maximum_runtime_seconds",
    "vram": "resources.minimum_gpu_memory_gb", "workdir": "runtime.working_directory",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FieldNote:
    """One field: ``place`` is its path with ``[]`` for any item, ``of`` the runtime that alone has it."""

    place: str
    name: str
    info: FieldInfo
    model: type[Part]
    of: str = ""


@cache
def field_notes() -> tuple[FieldNote, ...]:
    """All fields, each part before its own fields."""
    return tuple(_notes(SpecDocument, ""))


def model_at(path: Path, runtime: str | None) -> type[Part] | None:
    """The model that reads the mapping at the path, if a model does."""
    if path == ("runtime",):
        return RUNTIMES.get(runtime or "")
    place = ".".join("[]" if isinstance(step, int) else step for step in path).replace(".[]", "[]")
    if not place:
        return SpecDocument
    note = next((note for note in field_notes() if note.place == place.removesuffix("[]")), None)
    models = _models_of(note.info.annotation) if note is not None else []
    return models[0] if models else None


def note_at(path: Path, runtime: str | None = None) -> FieldNote | None:
    """What is known of the field at the path, or of the nearest one around it."""
    steps = list(path)
    while steps:
        place = ".".join("[]" if isinstance(step, int) else step for step in steps).replace(".[]", "[]")
        notes = [note for note in field_notes() if note.place == place]
        if notes:
            return next((note for note in notes if note.of == runtime), notes[0])
        steps.pop()
    return None


def nearest(name: str, at: Path, model: type[Part] | None) -> str | None:
    """The field that was probably meant: here if one is close, else wherever one of that name is."""
    here = [] if model is None else list(model.model_fields)
    plain = _plain(name)
    by_plain = {_plain(known): known for known in here}
    if plain in by_plain:
        return by_plain[plain]
    elsewhere = _SYNONYMS.get(plain) or next(
        (note.place for note in field_notes() if note.name == plain and "[]" not in note.place), None
    )
    prefix = ".".join(str(step) for step in at)
    if elsewhere is not None and elsewhere.rpartition(".")[0] == prefix:
        return elsewhere.rpartition(".")[2]
    close = difflib.get_close_matches(plain[:60], by_plain, n=1, cutoff=0.6)
    if close and (elsewhere is None or difflib.SequenceMatcher(None, plain, close[0]).ratio() > 0.8):
        return by_plain[close[0]]
    return elsewhere


def _plain(name: str) -> str:
    """The snake_case form of either style, in small letters: ``cpuCores`` and ``CPU-cores`` are ``cpu_cores``."""
    text = ""
    for index, letter in enumerate(name[:80].replace("-", "_").replace(" ", "_")):
        if letter.isupper() and index and not name[index - 1].isupper() and name[index - 1] not in "_- ":
            text += "_"
        text += letter.lower()
    return text


def _notes(model: type[Part], prefix: str, of: str = "") -> Iterator[FieldNote]:
    for name, info in model.model_fields.items():
        place = prefix + name
        yield FieldNote(place=place, name=name, info=info, model=model, of=of)
        models = _models_of(info.annotation)
        item = "[]." if "tuple" in str(info.annotation) else "."
        for inner in models:
            runtime = next((kind for kind, known in RUNTIMES.items() if known is inner), of)
            yield from _notes(inner, place + item, runtime)


def _models_of(annotation: object) -> list[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_of(part)]


def both_styles(name: str) -> tuple[str, ...]:
    """The name, and its other form when it has one."""
    camel = to_camel(name) if len(name) <= _NAME_CHARACTERS_MAX else name
    return (name,) if camel == name else (name, camel)


def as_written(tree: object, path: Path) -> Path:
    """The path with each field in the style that the document uses."""
    written: list[str | int] = []
    for given in path:
        step = given
        if isinstance(step, str) and isinstance(tree, dict):
            step = next((style for style in both_styles(step) if style in tree), step)
            tree = tree.get(step)
        elif isinstance(step, int) and isinstance(tree, list) and step < len(tree):
            tree = tree[step]
        else:
            tree = None
        written.append(step)
    return tuple(written)
