"""The docs are true where that can be checked: generated parts, links, samples."""

import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest
import typer.main
from typer.core import TyperGroup

from placet.cli.main import build
from placet.cli.options import hoist
from placet.contract.codes import CODES
from placet.contract.parse import Parsed, parse

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


def specs_in(page: Path) -> list[str]:
    """The fenced YAML and JSON that is a whole spec: it says what its runtime is."""
    blocks = re.findall(r"^```(?:yaml|json)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [block for block in blocks if re.search(r'^\s*[{]?\s*"?runtime"?:', block, re.MULTILINE)]


@pytest.mark.parametrize("page", [page for page in PAGES if specs_in(page)], ids=name_of)
def test_specs_in_the_docs_are_valid(page: Path) -> None:
    for text in specs_in(page):
        outcome = parse(text, now_ms=0)
        assert isinstance(outcome, Parsed), outcome
        assert not outcome.warnings, outcome.warnings


@pytest.mark.parametrize("spec", sorted(ROOT.glob("examples/*/workload.yaml")), ids=name_of)
def test_examples_are_valid(spec: Path) -> None:
    outcome = parse(spec.read_text(), now_ms=0)
    assert isinstance(outcome, Parsed), outcome


def test_docs_say_so_where_the_example_is_shown() -> None:
    """The quickstart shows the hello example as it is."""
    shown = (ROOT / "docs" / "quickstart.md").read_text()
    example = (ROOT / "examples" / "hello" / "workload.yaml").read_text()
    body = example[example.index("name:") :]
    assert body in shown


def test_every_code_has_a_place_in_the_docs() -> None:
    page = (ROOT / "docs" / "reference" / "codes.md").read_text()
    assert [code for code in CODES if f"`{code}`" not in page] == []


REFUSED_TODAY = {
    "resources.nodes": "resources: {nodes: 2}",
    "volumes": "volumes: [{name: v, path: /v}]",
    "array": "array: [{environment: {A: '1'}}]",
    "registry_secret": "runtime: {type: container, image: a, registry_secret: name}",
    "hf://": "inputs: [{name: a, source: 'hf://datasets/a'}]",
}


@pytest.mark.parametrize("named", REFUSED_TODAY)
def test_what_the_docs_call_unsupported_is_refused_as_such(named: str) -> None:
    page = (ROOT / "docs" / "reference" / "spec.md").read_text().replace("\n", " ")
    sentence = page[page.index("Today these are:") :].split(". ")[0]
    assert named in sentence
    runtime = "" if named == "registry_secret" else "runtime: {type: process, command: [a]}\n"
    outcome = parse(f"{runtime}{REFUSED_TODAY[named]}\n", now_ms=0)
    assert not isinstance(outcome, Parsed)
    assert [problem.code for problem in outcome] == ["not_supported_yet"]


SHOWN = re.compile(r"^(?:\$ )?placet (.*)$", re.MULTILINE)


def commands_in(page: Path) -> list[str]:
    """The command lines in fences, without what they are piped into."""
    fences = "\n".join(FENCE.findall(page.read_text()))
    return [line.split(" | ")[0] for line in SHOWN.findall(fences)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_in(page)], ids=name_of)
def test_commands_in_the_docs_are_commands(page: Path) -> None:
    """Each has a name that exists, with arguments and flags that it takes; the quickstart's are run as well."""
    for shown in commands_in(page):
        line = hoist(shlex.split(shown, comments=True))
        command: Any = typer.main.get_command(build(line))
        context = command.make_context("placet", list(line.words))
        while isinstance(command, TyperGroup):
            name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, words, parent=context)


NAMED_PATH = re.compile(r"`([a-z_]+(?:/[A-Za-z_.-]+)*(?:\.py|\.yaml|/))`")


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/promises.md", *(name_of(p) for p in ROOT.glob("docs/adr/*"))]
)
def test_files_that_the_docs_name_exist(page: str) -> None:
    named = NAMED_PATH.findall((ROOT / page).read_text())
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "src" / "placet"))]
    assert not missing
