"""Benchmarks in their short form: their gates are part of the suite."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import placement

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "more"), [("yardstick", ["--processes", "1"]), ("market", ["--processes", "1"]), ("placement", [])]
)
def test_the_short_form_passes_its_gates(name: str, more: list[str]) -> None:
    command = [sys.executable, "-m", f"bench.{name}", "--short", "--json", *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["bench"] == name
    assert told["facts"]["short"]
    assert "seed" in json.dumps(told["facts"])
    assert {"python", "placet", "numpy"} <= told["versions"].keys()


def test_the_list_of_faults_harms_a_careless_loop_and_not_us() -> None:
    command = [sys.executable, "-m", "bench.faults", "--short", "--json", "--processes", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["bench"] == "faults"
    assert {line["scenario"] for line in told["lines"]} == set(told["list"])


def test_a_decision_that_takes_too_long_or_grows_too_fast_fails_a_gate() -> None:
    def size(offers: int, cpu_ms: float) -> dict[str, object]:
        return {"offers": offers, "cases": {"a": {"cpu_p50_ms": cpu_ms}}}

    assert placement.gates([size(1_000, 0.5), size(10_000, 1.0)]) == []
    assert "processor time" in placement.gates([size(1_000, 0.5), size(10_000, 80.0)])[0]
    assert "times the time" in placement.gates([size(1_000, 0.01), size(10_000, 1.0)])[0]
