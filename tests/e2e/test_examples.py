"""The examples are valid, their pins agree, and they run through the command line as their pages say."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from placet.contract.parse import Parsed, parse

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SPECS = sorted(EXAMPLES.glob("*/workload.yaml"))
PINNED = sorted(path.parent for path in EXAMPLES.glob("*/requirements.in"))


def folder_name(path: Path) -> str:
    return path.name if path.is_dir() else path.parent.name


def test_there_are_examples() -> None:
    assert {"hello", "classify-files", "train-digits"} <= {path.parent.name for path in SPECS}


@pytest.mark.parametrize("spec", SPECS, ids=folder_name)
def test_the_spec_is_accepted_without_a_warning(spec: Path) -> None:
    parsed = parse(spec.read_bytes(), now_ms=0)
    assert isinstance(parsed, Parsed), parsed
    assert parsed.warnings == ()


@pytest.mark.parametrize("folder", PINNED, ids=folder_name)
def test_the_spec_lists_what_is_pinned(folder: Path) -> None:
    is_current = cast("Callable[[Path], bool]", runpy.run_path(str(EXAMPLES / "pin.py"))["is_current"])
    assert is_current(folder), "run examples/pin.py"
    assert all("--hash=sha256:" in line for line in requirements_of(folder))


def requirements_of(folder: Path) -> tuple[str, ...]:
    parsed = parse((folder / "workload.yaml").read_bytes(), now_ms=0)
    assert isinstance(parsed, Parsed), parsed
    return parsed.spec.runtime.requirements
