"""What one attempt is asked to be: the checked form of the ``launch`` document of a ``start`` request.

The document comes from our own server, yet it carries text of users; whatever is used in a path, a command line or a
cgroup file is checked here, once.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    Json = Dict[str, Any]

KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
KEY_LENGTH_MAX = 96
NAME_BYTES_MAX = 128
PATH_BYTES_MAX = 4096
TEXT_BYTES_MAX = 4 * 1024 * 1024
LIST_MAX = 4096
LOG_BYTES_DEFAULT = 64 * 1024 * 1024
PROCESSES_DEFAULT = 4096
GRACE_S_DEFAULT = 10.0
INPUT_KINDS = ("path", "text", "http")
SANDBOXES = ("auto", "bubblewrap", "none")


class Invalid(Exception):
    """The launch document asks for something that cannot be done; the message says what."""


class Limits:
    """The bounds of one attempt; ``None`` means unbounded."""

    __slots__ = ("cpu_cores", "disk_bytes", "grace_s", "log_bytes", "memory_bytes", "processes", "runtime_s")

    def __init__(self, document: Json) -> None:
        self.memory_bytes = _whole(document, "memory_bytes", least=1024 * 1024)
        self.cpu_cores = _number(document, "cpu_cores", least=0.01)
        self.disk_bytes = _whole(document, "disk_bytes", least=4096)
        self.runtime_s = _number(document, "runtime_s", least=0.001)
        self.processes = _whole(document, "processes", least=1) or PROCESSES_DEFAULT
        log_bytes = _whole(document, "log_bytes", least=0)
        self.log_bytes = LOG_BYTES_DEFAULT if log_bytes is None else log_bytes
        grace_s = _number(document, "grace_s", least=0.0)
        self.grace_s = GRACE_S_DEFAULT if grace_s is None else grace_s


class Reserve:
    """What the attempt takes from the machine while it lives."""

    __slots__ = ("cpu_cores", "gpu_count", "gpu_memory_bytes", "gpu_model", "memory_bytes")

    def __init__(self, document: Json) -> None:
        self.cpu_cores = _number(document, "cpu_cores", least=0.0) or 0.0
        self.memory_bytes = _whole(document, "memory_bytes", least=0) or 0
        self.gpu_count = _whole(document, "gpu_count", least=0) or 0
        self.gpu_memory_bytes = _whole(document, "gpu_memory_bytes", least=0) or 0
        self.gpu_model = _text(document, "gpu_model", None)


class Python:
    """A script and the pinned requirements of the environment it runs in."""

    __slots__ = ("args", "requirements", "script", "text", "version")

    def __init__(self, document: Json) -> None:
        self.script = _text(document, "script", None)
        self.text = _text(document, "text", None, TEXT_BYTES_MAX)
        if (self.script is None) == (self.text is None):
            raise Invalid("python needs either a script path or the script's text")
        if self.script is not None and not os.path.isabs(self.script):
            raise Invalid("the script path must be absolute")
        self.args = _texts(document, "args")
        self.requirements = _texts(document, "requirements")
        for line in self.requirements:
            if "\n" in line or line.lstrip().startswith("-"):
                raise Invalid("a requirement is one pinned line and no option: " + repr(line[:80]))
        self.version = _text(document, "version", None)


class Input:
    """Something the program reads under ``inputs/<name>``."""

    __slots__ = ("kind", "name", "sha256", "source")

    def __init__(self, document: Json) -> None:
        self.name = _plain_name(_required(document, "name"))
        self.kind = _required(document, "kind")
        if self.kind not in INPUT_KINDS:
            raise Invalid("unknown kind of input: " + repr(self.kind[:40]))
        self.source = _required(document, "source", TEXT_BYTES_MAX)
        if self.kind == "path" and not os.path.isabs(self.source):
            raise Invalid("an input path must be absolute")
        self.sha256 = _text(document, "sha256", None)


class Output:
    """A path, folder or pattern: ``root`` is ``work`` or ``outputs``, ``pattern`` is relative to it."""

    __slots__ = ("declared", "name", "pattern", "root")

    def __init__(self, document: Json) -> None:
        self.name = _required(document, "name")
        self.declared = _required(document, "path")
        path = self.declared
        self.root = "work"
        if path == "/outputs" or path.startswith("/outputs/"):
            self.root, path = "outputs", path[len("/outputs") :].lstrip("/")
        elif path.startswith("/"):
            raise Invalid("an output is relative to the work folder or under /outputs: " + repr(self.declared[:120]))
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise Invalid("an output path must not climb out of its folder: " + repr(self.declared[:120]))
        self.pattern = "/".join(parts)


class Launch:
    """The whole of a ``start`` request, checked; ``document`` is what is kept in ``launch.json``."""

    def __init__(self, document: Json) -> None:
        if not isinstance(document, dict):
            raise Invalid("launch must be an object")
        self.document = document
        self.key = checked_key(document.get("key"))
        self.nonce = _required(document, "nonce")
        self.deployment = _required(document, "deployment")
        self.workload_id = _plain_name(_required(document, "workload_id"))
        self.epoch = _whole(document, "epoch", least=1) or 1
        self.command = _texts(document, "command")
        python = document.get("python")
        self.python = Python(_object(python, "python")) if python is not None else None
        if bool(self.command) == (self.python is not None):
            raise Invalid("a launch has either a command or a python script")
        self.env = _environment(document.get("env") or {})
        self.workdir = _text(document, "workdir", None)
        if self.workdir is not None and not os.path.isabs(self.workdir):
            raise Invalid("workdir must be absolute")
        self.limits = Limits(_object(document.get("limits") or {}, "limits"))
        self.reserve = Reserve(_object(document.get("reserve") or {}, "reserve"))
        self.sandbox = _text(document, "sandbox", "auto") or "auto"
        if self.sandbox not in SANDBOXES:
            raise Invalid("unknown sandbox: " + repr(self.sandbox[:40]))
        self.hidden = _texts(document, "hidden")
        if not all(map(os.path.isabs, self.hidden)):
            raise Invalid("what is hidden must be absolute paths")
        self.inputs = [Input(item) for item in _objects(document, "inputs")]
        self.outputs = [Output(item) for item in _objects(document, "outputs")]
        if len({item.name for item in self.inputs}) != len(self.inputs):
            raise Invalid("two inputs have the same name")
        self.allowed_hosts = _texts(document, "allowed_hosts")
        self.checkpoints = document.get("checkpoints") is True
        # Variables whose values are hidden in what the program writes.
        self.hide = tuple(name for name in _texts(document, "hide") if name in self.env)

    @property
    def wants_sandbox(self) -> bool:
        """Whether ``/inputs`` or ``/outputs`` must exist as such."""
        if self.sandbox == "auto":
            return bool(self.inputs) or any(output.root == "outputs" for output in self.outputs)
        return self.sandbox == "bubblewrap"


def checked_key(value: object) -> str:
    """A key is used as a folder name: only lower case letters, digits, ``-`` and ``_``."""
    if isinstance(value, str) and 0 < len(value) <= KEY_LENGTH_MAX and KEY_CHARACTERS.issuperset(value):
        return value
    raise Invalid("key must be 1 to 96 characters of a-z, 0-9, '-' and '_'")


def _plain_name(value: str) -> str:
    if value in (".", "..") or "/" in value or "\0" in value or len(value.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise Invalid("not a plain name: " + repr(value[:80]))
    return value


def _object(value: object, field: str) -> Json:
    if isinstance(value, dict):
        return value
    raise Invalid(field + " must be an object")


def _objects(document: Json, field: str) -> list[Json]:
    value = document.get(field) or []
    if not isinstance(value, list) or len(value) > LIST_MAX:
        raise Invalid(field + " must be a list of bounded length")
    return [_object(item, field) for item in value]


def _text(document: Json, field: str, default: str | None, most: int = PATH_BYTES_MAX) -> str | None:
    value = document.get(field)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > most or ("\0" in value and most != TEXT_BYTES_MAX):
        raise Invalid(field + " must be text of bounded length without NUL")
    return value


def _required(document: Json, field: str, most: int = PATH_BYTES_MAX) -> str:
    value = _text(document, field, None, most)
    if value is None or (not value and most != TEXT_BYTES_MAX):
        raise Invalid(field + " is missing")
    return value


def _texts(document: Json, field: str) -> tuple[str, ...]:
    value = document.get(field) or []
    if not isinstance(value, list) or len(value) > LIST_MAX:
        raise Invalid(field + " must be a list of bounded length")
    for item in value:
        if not isinstance(item, str) or "\0" in item:
            raise Invalid(field + " must hold text without NUL")
    return tuple(value)


def _environment(value: object) -> dict[str, str]:
    document = _object(value, "env")
    for name, content in document.items():
        if not name or "=" in name or "\0" in name or not isinstance(content, str) or "\0" in content:
            raise Invalid("not a possible environment variable: " + repr(name[:80]))
    return document


def _number(document: Json, field: str, least: float) -> float | None:
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < 1e15:
        raise Invalid(field + " is not a number in its range")
    return float(value)


def _whole(document: Json, field: str, least: int) -> int | None:
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
        raise Invalid(field + " is not a whole number in its range")
    return value
