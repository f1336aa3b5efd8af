"""Each known fault has exactly one test, which runs, or is skipped with what the product does not have yet."""

import ast
from collections import Counter
from pathlib import Path

from tests.faults.known import KNOWN

HERE = Path(__file__).parent
PREFIX = "test_fault_"


def test_each_known_fault_has_one_test() -> None:
    found: Counter[str] = Counter()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(PREFIX):
                found[node.name.removeprefix(PREFIX)] += 1
    assert sorted(KNOWN.keys() - found.keys()) == [], "without a test"
    assert sorted(found.keys() - KNOWN.keys()) == [], "without a line"
    assert {name for name, count in found.items() if count > 1} == set()
