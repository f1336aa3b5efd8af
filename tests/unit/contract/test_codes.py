"""Every code that is raised is registered, and every registered code says enough."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.contract.codes import CODES

ROOT = Path(__file__).resolve().parents[3]
CARRIERS = frozenset({"Problem", "Found", "ProblemView"})


def raised() -> Iterator[tuple[str, str]]:
    """The codes that problems are built with, wherever that happens, with their places."""
    for path in sorted((ROOT / "src" / "placet").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or name_of(node.func) not in CARRIERS:
                continue
            for keyword in node.keywords:
                if keyword.arg == "code":
                    for code in constants(keyword.value):
                        yield code, f"{path.relative_to(ROOT)}:{node.lineno}"


def name_of(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def constants(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from constants(body)
            yield from constants(orelse)


def test_every_raised_code_is_registered() -> None:
    unknown = [f"{place}: {code}" for code, place in raised() if code not in CODES]
    assert not unknown, "\n".join(unknown)


def test_the_search_finds_codes_at_all() -> None:
    assert {"unknown_field", "not_pinned", "not_supported_yet"} <= {code for code, _ in raised()}


@pytest.mark.parametrize("code", CODES)
def test_a_code_says_what_it_means_and_what_to_do(code: str) -> None:
    entry = CODES[code]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", entry.code)
    assert all(text.strip() for text in (entry.title, entry.meaning, entry.remedy))
    assert entry.meaning.endswith(".")
    assert 200 <= entry.status < 600
