"""What the README shows works as it stands: its spec, its command, its program."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README speaks of; the server that the first command starts serves the others too."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "README.md").write_text("one two three\n")
    (folder / "word-count.yaml").write_text(block("yaml"))
    return folder


@pytest.fixture(scope="module")
def run(here: Path) -> Callable[..., str]:
    def run(*command: str) -> str:
        environment = os.environ | {"PLACET_DATA_DIR": str(here / "data"), "PLACET_LOCAL__SUPERVISOR_IDLE_SECONDS": "1"}
        environment |= {"PLACET_SERVER__IDLE_EXIT_SECONDS": "3"}
        done = subprocess.run(
            command, cwd=here, env=environment, capture_output=True, text=True, check=False, timeout=50
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def test_the_spec_runs_and_hands_back_its_output(here: Path, run: Callable[..., str]) -> None:
    told = run(sys.executable, "-m", "placet", "run", "word-count.yaml")
    assert "succeeded" in told
    run(sys.executable, "-m", "placet", "artifacts", "get", "last")
    assert (here / "words.txt").read_text().split() == ["3"]


def test_the_program_gets_the_same_result(run: Callable[..., str]) -> None:
    state, digest = run(sys.executable, "-c", block("python")).split()
    assert state == "succeeded"
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
