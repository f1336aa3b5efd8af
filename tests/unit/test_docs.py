"""The docs are true where that can be checked: generated parts, links, samples."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def current() -> Callable[[str], str]:
    generator = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))
    return cast("Callable[[str], str]", generator["current"])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_generated_parts_are_current(page: Path, current: Callable[[str], str]) -> None:
    text = page.read_text()
    assert current(text) == text, "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        path, _, anchor = unquote(target).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        aim = (page.parent / path).resolve() if path else page
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            broken.append(target)
    assert not broken


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
