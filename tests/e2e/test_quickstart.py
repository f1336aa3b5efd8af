"""The quickstart works as it stands, from a clone: every line of its shell blocks in their order, and its program."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINES = [line for language, body in BLOCK.findall(PAGE) if not language for line in body.splitlines() if line.strip()]
# What stands for the whole test run and for the environment of the tests.
ELSEWHERE = ("make demo", ". .venv/bin/activate")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a clone, what the page speaks of."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "examples" / "hello", folder / "examples" / "hello")
    return folder


@pytest.fixture(scope="module")
def run(here: Path) -> Callable[..., str]:
    def run(*command: str) -> str:
        environment = os.environ | {"PLACET_DATA_DIR": str(here / "data"), "PLACET_LOCAL__SUPERVISOR_IDLE_SECONDS": "1"}
        environment |= {"PLACET_SERVER__IDLE_EXIT_SECONDS": "3"}
        done = subprocess.run(
            command, cwd=here, env=environment, capture_output=True, text=True, check=False, timeout=50
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout + done.stderr

    return run


def test_every_line_works_in_its_order(here: Path, run: Callable[..., str]) -> None:
    tried = [line for line in LINES if line not in ELSEWHERE]
    assert all(line.startswith("placet ") for line in tried)
    assert len(tried) + len(ELSEWHERE) == len(LINES)
    for line in tried:
        _, *words = shlex.split(line, comments=True)
        run(sys.executable, "-m", "placet", *words)
    assert (here / "greeting.txt").read_text() == "Hello, world!\n"
    assert (here / "out.txt").read_text() == "workload.yaml\n"


def test_the_program_works(run: Callable[..., str]) -> None:
    [program] = [body for language, body in BLOCK.findall(PAGE) if language == "python"]
    assert run(sys.executable, "-c", program) == "succeeded\n"
