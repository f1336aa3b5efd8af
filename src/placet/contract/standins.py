"""What takes the place of a mistake while the rest of the document is looked at. Nobody ever sees these values."""

import difflib

from placet.contract.found import Path
from placet.contract.index import RUNTIMES
from placet.contract.source import REMOVED, Tree

_RUNTIME = {"type": "process", "command": ["true"]}
_RUNTIME_FIELDS: dict[str, Tree] = {"command": ["true"], "image": "image", "script": "script.py"}
_NAMED = frozenset({"inputs", "outputs", "volumes"})
_TEXTS = frozenset({"command", "arguments", "entrypoint"})


def stand_in(path: Path, tree: Tree) -> Tree:
    """A value that is right at the path, or ``REMOVED`` when nothing has to be there."""
    match path:
        case ("runtime",):
            return _RUNTIME
        case ("runtime", "type"):
            return _likely_runtime(tree)
        case ("runtime", str(name)):
            return _RUNTIME_FIELDS.get(name, REMOVED)
        case (*_, str(name), int()) if name in _TEXTS:
            return "x"
        case (*_, str(part), int(index)) if part in _NAMED:
            return _item(part, index)
        case (*_, str(part), int(index), str(name)) if part in _NAMED:
            return _item(part, index).get(name, REMOVED)
        case (*_, "array", int()):
            return {}
    return REMOVED


def _item(part: str, index: int) -> dict[str, Tree]:
    name = f"stand-in-{index}"
    match part:
        case "inputs":
            return {"name": name, "source": name}
        case "volumes":
            return {"name": name, "path": f"/{name}"}
    return {"name": name, "path": name}


def _likely_runtime(tree: Tree) -> str:
    """The kind that was probably meant: by its fields, which are what is looked at next."""
    runtime = tree.get("runtime") if isinstance(tree, dict) else None
    given = list(runtime) if isinstance(runtime, dict) else []
    if not given:
        return "process"
    scores = {
        kind: sum(bool(difflib.get_close_matches(name[:60], model.known, n=1, cutoff=0.7)) for name in given)
        for kind, model in RUNTIMES.items()
    }
    order = ("process", "python", "container")
    return max(order, key=lambda kind: scores[kind])
