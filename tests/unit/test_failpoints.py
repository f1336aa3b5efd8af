"""Every commit and every effect has its failpoint, found by the shape of the code and not by memory."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from placet import failpoints
from placet.domain.states import AttemptState, IntentVerb, WorkloadState
from placet.failpoints import POINTS, VARIABLE, Point
from placet.ports.store import Store
from placet.runner import failpoints as runner

PACKAGE = Path(failpoints.__file__).parent
# What the store answers without writing. Whatever it learns to do besides counts as a write until it stands here.
READS = {
    *("open", "close", "deployment_id", "submission", "held", "load", "next_wake_ms", "find", "list", "counts"),
    *("events", "artifacts", "result", "decisions", "ended", "attempt_by_key", "token", "tokens", "watch"),
    *("budgets", "budgets_of"),
    *("orphans", "orphan", "now_ms", "hooks", "last_seq", "events_of_tenant", "due_dispatches", "next_dispatch_ms"),
    *("dispatches", "dispatch", "unsent", "sealed", "sealed_keys", "sealed_under_others"),
}
EFFECTS = {
    "provider": {"submit", "answer_permit", "cancel", "release"},
    "artifacts": {"adopt", "commit", "write"},
    "parts": {"begin", "finish"},
    "sender": {"post"},
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*parts: str) -> Iterator[Path]:
    for part in parts:
        place = PACKAGE / part
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


def calls(path: Path) -> Iterator[tuple[ast.Call, str, str]]:
    """Each call of a method: the node, on what, and its name."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, ast.unparse(node.func.value), node.func.attr


def within_passing(path: Path) -> set[ast.AST]:
    """What is handed to ``passing``, directly or under a name that is given to nothing else."""
    found: set[ast.AST] = set()
    for function in ast.walk(tree_of(path)):
        if not isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            continue
        given = {
            ast.unparse(node.targets[0]): node.value for node in ast.walk(function) if isinstance(node, ast.Assign)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "passing":
                work = node.args[1]
                found.add(given.get(ast.unparse(work), work) if isinstance(work, ast.Name) else work)
    return found


def writes() -> set[str]:
    return {name for name in vars(Store) if not name.startswith("_")} - READS


def test_the_verbs_that_only_read_exist() -> None:
    assert set(vars(Store)) >= READS
    assert writes() >= {"accept", "apply", "claim", "beat", "retire", "secret", "add_token", "revoke_token"}


def test_every_commit_of_the_core_and_the_server_has_its_failpoint() -> None:
    bare = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {where}.{name}"
        for path in modules("engine", "server", "app.py")
        for node, where, name in calls(path)
        if name in writes() and re.search(r"\b_?store$", where) and node not in within_passing(path)
    ]
    assert not bare, "wrap them in failpoints.passing:\n" + "\n".join(bare)


def test_every_effect_of_the_core_has_its_failpoint() -> None:
    bare = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {where}.{name}"
        for path in modules("engine")
        for node, where, name in calls(path)
        for kind, verbs in EFFECTS.items()
        if name in verbs and kind in where and node not in within_passing(path)
    ]
    assert not bare, "wrap them in failpoints.passing:\n" + "\n".join(bare)


def test_every_commit_of_the_store_itself_is_in_one_place_with_its_failpoint() -> None:
    found = [
        ast.unparse(item.context_expr)
        for path in modules("adapters/store")
        for block in ast.walk(tree_of(path))
        if isinstance(block, ast.With)
        for item in block.items
        for node in ast.walk(block)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "link.commit"
    ]
    assert found == ["around(Point.COMMIT)"]
    everywhere = [
        where
        for path in modules("adapters/store")
        if path.name != "readers.py"  # ends transactions in which nothing was written
        for _, where, name in calls(path)
        if name == "commit"
    ]
    # A link's own way to do it is called by nobody but that one place.
    assert [where for where in everywhere if not where.startswith(("self.", "super()"))] == ["link"]


def test_what_the_runner_gives_a_name_or_takes_it_from_has_its_failpoint() -> None:
    trivial = {"_create", "_empty_logs", "take"}  # within runner.log, runner.spare and runner.folder
    bare = [
        f"{path.relative_to(PACKAGE)}: {function.name}"
        for path in modules("runner")
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef) and function.name not in trivial
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "os.rename" for node in ast.walk(function))
        if "failpoints." not in ast.unparse(function) and function.name != "_discard"  # within runner.discard
    ]
    assert not bare, "\n".join(bare)


def test_every_point_is_passed_somewhere() -> None:
    text = "\n".join(path.read_text() for path in modules("engine", "server", "adapters", "app.py"))
    text += (PACKAGE / "failpoints.py").read_text().partition("class _Trap")[2]
    assert [point for point in Point if f"Point.{point.name}" not in text] == []
    text = "\n".join(path.read_text() for path in modules("runner") if path.name != "failpoints.py")
    unpaired = [
        point
        for point in runner.POINTS
        if not point.startswith("runner.record.")
        if not all(f'failpoints.{side}("{point}")' in text for side in ("before", "after"))
    ]
    assert unpaired == []
    records = re.findall(r'"(\w+\.json|script\.py)"\)', text)
    assert set(records) >= set(runner.RECORDS) - {"inputs.json"}
    assert [name for name in records if name not in runner.RECORDS] == []


def test_every_state_and_every_intent_is_a_point() -> None:
    named = {f"workload.{state}" for state in WorkloadState} | {f"attempt.{state}" for state in AttemptState}
    assert set(POINTS) == named | {f"intent.{verb}" for verb in IntentVerb} | set(Point)
    assert len(POINTS) == len(set(POINTS))


async def test_nothing_is_wrapped_while_nothing_is_asked_for() -> None:
    async def work() -> int:
        return 7

    doing = work()
    assert failpoints.passing(Point.ACCEPT, doing) is doing
    assert await doing == 7
    assert failpoints.around(Point.COMMIT) is failpoints.around(Point.ADOPT)


PROGRAM = """
import asyncio
from placet.failpoints import Point, around, passing
from placet.runner import failpoints as runner

async def work():
    print("did", flush=True)

for turn in range(3):
    asyncio.run(passing(Point.ACCEPT, work()))
    with around(Point.COMMIT):
        print("committed", flush=True)
    runner.before("runner.start")
    print("started", flush=True)
    runner.after("runner.start")
"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("accept.before:1", ""),
        ("accept.after:1", "did"),
        ("accept.before:2", "did committed started"),
        ("commit.after:1", "did committed"),
        ("runner.start.before:1", "did committed"),
        ("runner.start.after:2", "did committed started did committed started"),
        ("accept.after:9", "did committed started " * 3),
    ],
)
def test_the_process_dies_at_that_pass_and_only_once(tmp_path: Path, asked: str, said: str) -> None:
    mark = tmp_path / "mark"
    environment = {**os.environ, VARIABLE: f"{asked}:{mark}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == said.split()
    assert done.returncode == (-signal.SIGKILL if mark.exists() else 0)
    assert mark.exists() is not asked.endswith(":9")
    again = subprocess.run([sys.executable, "-c", PROGRAM], env={**environment}, capture_output=True, check=False)
    assert again.returncode == 0, "it is killed once: what is started anew has the same environment"


@pytest.mark.parametrize("asked", ["nonsense.before:1:/x", "accept:1:/x", "runner.nonsense.after:1:/x"])
def test_a_point_that_does_not_exist_is_told(asked: str) -> None:
    program = "import placet.failpoints, placet.runner.failpoints"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no failpoint" in done.stderr
