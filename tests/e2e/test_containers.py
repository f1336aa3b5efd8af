"""The whole line on a real engine: a command in an image, from the command line to its artifacts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engines import IMAGE, Engine


@pytest.fixture
def environment(docker_engine: Engine, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PLACET_DATA_DIR": str(tmp_path / "data"),
        "PLACET_PROVIDERS__CONTAINER__ENABLED": "true",
        "PLACET_PROVIDERS__CONTAINER__HOST": docker_engine.host,
        "PLACET_PROVIDERS__CONTAINER__NETWORK": "none",
    }


def placet(environment: dict[str, str], *words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "placet", *words]
    return subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        timeout=55,
        stdin=subprocess.DEVNULL,
    )


def test_a_command_in_an_image(environment: dict[str, str]) -> None:
    done = placet(environment, "run", "--image", IMAGE, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done.stdout == "out\n"
    assert "err\n" in done.stderr
    assert "exit_code" in done.stderr
    assert done.returncode != 0


def test_inputs_and_outputs_of_an_image(environment: dict[str, str], tmp_path: Path, docker_engine: Engine) -> None:
    (tmp_path / "words.txt").write_text("one two\n")
    (tmp_path / "spec.yaml").write_text(
        f"""
runtime:
  type: container
  image: {IMAGE}
  entrypoint: []
  command: [sh, -c, "wc -w < /inputs/words > count.txt; cp /inputs/words /outputs/"]
inputs: [{{name: words, source: words.txt}}]
outputs: [{{name: count, path: count.txt}}, {{name: copy, path: /outputs}}]
"""
    )
    done = placet(environment, "run", "--json", "spec.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "succeeded"
    data = Path(environment["PLACET_DATA_DIR"])
    kept = {file.name: file.read_text() for file in data.glob("artifacts/*/*/*/outputs/**/*") if file.is_file()}
    assert kept == {"count.txt": "2\n", "words": "one two\n"}
    # The server of the run ended with it; the next one deletes what is still to be deleted.
    tidied = placet({**environment, "PLACET_SERVER__IDLE_EXIT_SECONDS": "1"}, "server", "--until-idle")
    assert tidied.returncode == 0, tidied.stderr
    containers = [each["Names"][0] for each in docker_engine.get("/containers/json", all=1)]
    volumes = [each["Name"] for each in docker_engine.get("/volumes")["Volumes"] or []]
    mine = [name for name in containers + volumes if result["workload_id"].removeprefix("wl_") in name]
    assert [name for name in mine if not name.endswith(".gone")] == []


def test_doctor_tells_of_the_engine(environment: dict[str, str], tmp_path: Path) -> None:
    told = {each["name"]: each for each in json.loads(placet(environment, "doctor", "--json").stdout)["findings"]}
    engine = told["container engine"]
    assert engine["state"] == "ok"
    assert "overlay2" in engine["found"]
    nowhere = {**environment, "PLACET_PROVIDERS__CONTAINER__HOST": f"unix://{tmp_path}/nothing"}
    told = {each["name"]: each for each in json.loads(placet(nowhere, "doctor", "--json").stdout)["findings"]}
    assert told["container engine"]["state"] == "missing"
    assert "nothing" in told["container engine"]["found"]
