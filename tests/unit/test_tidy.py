"""What linters and import contracts cannot see; each check names every offence, so one run shows all."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from placet.domain.states import AttemptState, WorkloadState

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "placet"

LONGEST_FUNCTION_LINES = 70
LONGEST_MODULE_LINES = 600

# Differences between providers are declared capabilities; the core never asks for one by name.
PROVIDER_NAMES = re.compile(
    r"\b(docker|podman|slurm|kubernetes|k8s|ray|runpod|vast_?ai|modal|aws_?batch|skypilot|sagemaker|vertex_?ai|lambda_?labs)\b",
    re.IGNORECASE,
)
EMPTY_WORDS = frozenset({"manager", "util", "utils", "helper", "helpers", "misc"})
# The providers' words; the core says workload, attempt, allocation.
FOREIGN_WORDS = frozenset({"job", "jobs", "task", "tasks", "pod", "pods", "instance", "instances"})
WORDS_OF_THE_SPEC = frozenset({"task"})  # what a model is for, in the hint that sizing reads: people write it so
CORE = ("domain", "stages", "ports", "engine")
STATE_WORDS = frozenset(state.value for state in (*WorkloadState, *AttemptState))
SPEAKS_OF_STATES = ("domain", "stages", "ports", "engine", "server", "adapters/store", "app.py")

# Written in pieces, so that this file passes its own checks.
LEFTOVERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
MACHINE_PATHS = re.compile("|".join(["/wo" + "rk/", "/ro" + "ot/", "/opt/wh" + "eels", "/opt/py" + "pi"]))
REGISTRY_HOSTS = re.compile(
    r"\b("
    + "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.org", r"deb\.deb" + r"ian\.org"])
    + r")\b"
)
SILENCED = re.compile(r"#\s*(type:\s*ignore|no" + r"qa|pragma: no cover)")
SILENCED_WITH_REASON = re.compile(
    r"#\s*(type:\s*ignore\[[^\]]+\]|no" + r"qa: [A-Z0-9, ]+|pragma: no cover)\s*(#|-+|:)\s*\w+"
)


@cache
def tracked() -> tuple[Path, ...]:
    """The project's files, those not yet committed included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), filename=str(path))


def python_files(*under: str) -> Iterator[Path]:
    for path in tracked():
        where = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and where.startswith(under):
            yield path


def core_files(*parts: str) -> Iterator[Path]:
    yield from python_files(*(f"src/placet/{part}" for part in parts))


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def matches(pattern: re.Pattern[str], paths: Iterator[Path] | tuple[Path, ...]) -> list[str]:
    return [
        f"{place(path, number)}: {line.strip()[:300]}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


def test_functions_fit_a_screen() -> None:
    long = [
        f"{place(path, node.lineno)}: {node.name} has {length} lines"
        for path in python_files("src/", "tests/", "bench/", "scripts/", "examples/")
        if "migrations" not in path.parts  # a migration is a list of columns, written once and never read as a program
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_modules_have_one_noun() -> None:
    long = [
        f"{place(path)}: {lines} lines"
        for path in python_files("src/", "tests/", "bench/", "scripts/", "examples/")
        if (lines := len(text_of(path).splitlines())) > LONGEST_MODULE_LINES
    ]
    assert not long, "\n".join(long)


def test_modules_say_what_they_are() -> None:
    silent = [
        place(path)
        for path in python_files("src/", "bench/")
        if text_of(path).strip() and not ast.get_docstring(tree_of(path))
    ]
    assert not silent, "\n".join(silent)


def test_the_core_names_no_provider() -> None:
    # A setting is called after its provider, and one place makes it.
    naming = {PACKAGE / "config.py", PACKAGE / "app.py"}
    adapters = PACKAGE / "adapters"
    outside = (path for path in python_files("src/") if adapters not in path.parents and path not in naming)
    found = matches(PROVIDER_NAMES, outside)
    assert not found, "\n".join(found)


def test_state_words_are_written_in_one_place() -> None:
    found = [
        f"{place(path, node.lineno)}: {node.value!r}; use the enum of placet.domain.states"
        for path in core_files(*SPEAKS_OF_STATES)
        if path != PACKAGE / "domain" / "states.py" and "migrations" not in path.parts
        for node in meaningful_strings(tree_of(path))
        if node.value in STATE_WORDS
    ]
    assert not found, "\n".join(found)


def meaningful_strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every string but the values of other enums, which may share a word with a state, and words in a message."""
    ignored: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            ignored |= {statement.value for statement in node.body if isinstance(statement, ast.Assign)}
        if isinstance(node, ast.JoinedStr):
            ignored |= set(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in ignored:
            yield node


def test_tests_never_sleep() -> None:
    found = [
        f"{place(path, node.lineno)}: wait for a signal, or use tests/support/waiting.py"
        for path in python_files("tests/")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and called_name(node) == "sleep"
    ]
    assert not found, "\n".join(found)


def test_tests_are_skipped_in_one_place_which_fails_in_continuous_integration() -> None:
    found = [
        f"{place(path, node.lineno)}: say what is missing with tests/support/missing.py"
        for path in python_files("tests/")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and called_name(node) in {"skip", "skipif", "importorskip", "skipTest"}
        if path.name != "missing.py"
    ]
    assert not found, "\n".join(found)


def called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


@pytest.mark.parametrize(("under", "banned"), [(("",), EMPTY_WORDS), (CORE, FOREIGN_WORDS)], ids=["empty", "foreign"])
def test_names_say_something(under: tuple[str, ...], banned: frozenset[str]) -> None:
    found = [
        f"{place(path, line)}: {name}"
        for path in core_files(*under)
        for name, line in ((path.stem, 1), *defined_names(tree_of(path)))
        if banned & words_of(name) and name not in WORDS_OF_THE_SPEC
    ]
    assert not found, "\n".join(found)


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Classes, functions, arguments and fields; not local variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node.lineno


def words_of(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def test_nothing_is_left_over() -> None:
    found = matches(LEFTOVERS, tuple(path for path in tracked() if path.suffix not in {".txt", ".png"}))
    assert not found, "\n".join(found)


def test_no_machine_of_ours_and_no_registry_is_named() -> None:
    found = matches(MACHINE_PATHS, tracked()) + matches(REGISTRY_HOSTS, tracked())
    assert not found, "\n".join(found)


def test_a_silenced_check_has_its_reason() -> None:
    silenced = (path for path in python_files("src/", "tests/", "bench/", "scripts/"))
    found = [told for told in matches(SILENCED, silenced) if not SILENCED_WITH_REASON.search(told)]
    assert not found, "\n".join(found)


def test_no_file_holds_the_marks_of_an_unfinished_merge() -> None:
    found = matches(re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE), tracked())
    assert not found, "\n".join(found)
