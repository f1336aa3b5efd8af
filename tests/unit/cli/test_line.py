"""How a command line is read: common flags anywhere, a program behind ``--``, one description of a workload."""

from pathlib import Path
from typing import Any

import pytest

from placet.cli.describing import SHARED, document
from placet.cli.exits import MEANINGS, Exit
from placet.cli.failures import Stop
from placet.cli.options import hoist
from placet.cli.template import TEMPLATE
from placet.contract.parse import Parsed, parse


@pytest.mark.parametrize(
    ("words", "hoisted", "program"),
    [
        ("ls --json", "--json ls", ""),
        ("ls --data-dir /d --limit 3", "--data-dir /d ls --limit 3", ""),
        ("show x --config=/c --debug", "--config=/c --debug show x", ""),
        ("run --name --json -- a --json", "--json run --name", "a --json"),
        ("run -- python work.py -- more", "run", "python work.py -- more"),
        ("ls --data-dir", "--data-dir ls", ""),
        ("", "", ""),
    ],
)
def test_common_flags_stand_anywhere_before_the_program(words: str, hoisted: str, program: str) -> None:
    line = hoist(words.split())
    assert (" ".join(line.words), " ".join(line.program)) == (hoisted, program)
    assert line.json == ("--json" in hoisted.split())


def described(program: str = "", **flags: Any) -> Any:
    return document({**dict.fromkeys(SHARED), **flags}, tuple(program.split()))


def test_flags_describe_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = described("true", gpu_memory="24GB", environment=["A=1=2"], label=["team=x"])
    assert told["runtime"] == {"type": "process", "command": ["true"]}
    assert told["resources"] == {"minimum_gpu_memory_gb": "24GB"}
    assert (told["environment"], told["labels"]) == ({"A": "1=2"}, {"team": "x"})


def test_a_script_takes_what_stands_behind_the_dashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = described("--epochs 3", python="train.py", requirement=["numpy==2.4.0"])
    assert told["runtime"]["arguments"] == ["--epochs", "3"]
    assert told["runtime"]["script"] == str(tmp_path / "train.py")


@pytest.mark.parametrize(
    ("program", "flags"),
    [("", {}), ("true", {"file": "x.yaml"}), ("", {"file": "x.yaml", "name": "n"}), ("true", {"label": ["novalue"]})],
)
def test_a_file_or_flags_and_never_both(program: str, flags: dict[str, Any]) -> None:
    with pytest.raises(Stop) as caught:
        described(program, **flags)
    assert (caught.value.code, caught.value.exit_code) == ("usage", Exit.REFUSED)


def test_the_first_spec_is_valid() -> None:
    parsed = parse(TEMPLATE, now_ms=0)
    assert isinstance(parsed, Parsed), parsed
    assert not parsed.warnings


def test_exit_codes_are_explained_and_follow_the_end() -> None:
    assert set(MEANINGS) == set(Exit)
    ends = {"succeeded": 0, "failed": 1, "cancelled": 3, "expired": 4}
    assert {state: int(Exit.of_state(state)) for state in ends} == ends
