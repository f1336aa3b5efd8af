"""The import contracts hold, and each of them catches what it was written for.

One skeleton tree gets every planted violation at once, so that the whole proof costs a single run of the tool.
"""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = (
    "adapters.artifacts",
    "adapters.providers",
    "adapters.store",
    "cli",
    "contract",
    "domain",
    "engine",
    "mcp",
    "ports",
    "runner",
    "sdk",
    "server",
    "stages",
    "testing",
)


@dataclass(frozen=True)
class Plant:
    contract: str
    module: str
    imports: str
    seen_as: str = ""

    @property
    def target(self) -> str:
        return self.imports.removeprefix("import ")

    @property
    def evidence(self) -> str:
        return self.seen_as or f"placet.{self.module} -> {self.target} "


PLANTS = [
    Plant("layers", "engine.upward", "import placet.server.rest"),
    Plant("layers", "server.sideways", "import placet.adapters.registry"),
    Plant("layers", "stages.sideways", "import placet.ports.store"),
    Plant("line", "stages.sizing", "import placet.stages.recovery"),
    Plant("clients", "sdk.shortcut", "import placet.domain.spec"),
    Plant("clients", "mcp.shortcut", "import placet.engine.intake"),
    Plant("cli", "cli.shortcut", "import placet.engine.queries"),
    Plant("core-alone", "engine.wire", "import placet.contract.api"),
    Plant("core-alone", "ports.wire", "import pydantic"),
    Plant("runner-alone", "runner.heavy", "import httpx"),
    Plant("runner-alone", "runner.wire", "import placet.contract.api"),
    Plant("providers", "adapters.providers.one", "import placet.adapters.providers.two"),
    Plant("artifacts", "adapters.artifacts.one", "import placet.adapters.artifacts.two"),
    Plant("pure", "domain.clock", "import time"),
    Plant("pure", "stages.dice", "import random"),
    Plant("sql", "server.query", "import sqlalchemy"),
    Plant("decoded", "engine.decoding", "import msgspec"),
    Plant("one-door", "engine.side_door", "import placet.engine.apply"),
    Plant("acyclic", "contract.round", "import placet.runner.heavy", seen_as=".runner -> .contract"),
]


# Contracts name these one by one, and the tool insists that they are there.
NAME_MODULES = ("protected_modules", "allowed_importers")


def settings_of(project_root: Path) -> dict[str, object]:
    settings: dict[str, object] = tomllib.loads((project_root / "pyproject.toml").read_text())["tool"]["importlinter"]
    return settings


@pytest.fixture(scope="module")
def configuration(project_root: Path) -> dict[str, object]:
    return settings_of(project_root)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> str:
    """What the tool says about a skeleton of the tree with every violation planted."""
    tree = tmp_path_factory.mktemp("planted")
    write_skeleton(tree, project_root)
    for plant in PLANTS:
        write(tree, plant.module, plant.imports + "\n")
        if plant.target.startswith("placet."):
            write(tree, plant.target.removeprefix("placet."), "")
    return lint(tree, project_root)


def write_skeleton(tree: Path, project_root: Path) -> None:
    """The packages, and the modules that contracts speak of, all empty."""
    for name in ("", "adapters", *PACKAGES):
        write(tree, f"{name}.__init__" if name else "__init__", "")
    contracts = settings_of(project_root)["contracts"]
    assert isinstance(contracts, list)
    named = {name for each in contracts for key in NAME_MODULES for name in each.get(key, ())}
    for module in ("app", "config", *sorted(named)):
        write(tree, module.removeprefix("placet."), "")


def write(tree: Path, module: str, text: str) -> None:
    path = (tree / "placet").joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def lint(tree: Path, project_root: Path) -> str:
    """Runs lint-imports with the project's contracts on another tree."""
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--no-cache", "--no-logo", str(project_root / "pyproject.toml")]
    environment = os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False).stdout


def section(report: str, title: str) -> str:
    """The part of the report on one broken contract."""
    _, _, broken = report.partition("Broken contracts")
    found = re.search(rf"^{re.escape(title)}\n-+\n(.*?)(?=^[^\n]+\n-{{3,}}\n|\Z)", broken, re.DOTALL | re.MULTILINE)
    return found.group(1) if found else ""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.contract}:{plant.module}")
def test_a_planted_violation_is_caught_by_its_contract(
    plant: Plant, report: str, configuration: dict[str, list[dict[str, str]]]
) -> None:
    title = next(contract["name"] for contract in configuration["contracts"] if contract["id"] == plant.contract)
    assert plant.evidence in section(report, title), report


def test_every_contract_has_a_plant(configuration: dict[str, list[dict[str, str]]]) -> None:
    assert {contract["id"] for contract in configuration["contracts"]} == {plant.contract for plant in PLANTS}


def test_a_package_without_a_place_is_refused(tmp_path: Path, project_root: Path) -> None:
    write_skeleton(tmp_path, project_root)
    write(tmp_path, "newcomer.__init__", "")
    assert "newcomer" in lint(tmp_path, project_root)
