"""The runner as text: old Pythons read it, and it needs nothing but the standard library."""

import ast
import sys
from pathlib import Path

import pytest

import placet.runner

FOLDER = Path(placet.runner.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_python_3_8_can_read_it(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    future = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    annotated = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) for node in ast.walk(tree))
    assert future or not annotated, "unions in annotations need the future import"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_it_imports_the_standard_library_and_itself_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("placet.runner")
