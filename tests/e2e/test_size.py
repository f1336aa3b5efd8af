"""Sizing through the doors: REST and the command line; what is read of a folder stays with the accepted workload."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.cli.main import run
from placet.contract import api
from tests.support.served import Served, served

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip
RUNTIME = {"type": "process", "command": ["true"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("size") / "data") as running:
        yield running


def spec(**model: object) -> dict[str, object]:
    return {"runtime": RUNTIME, "model": model}


def test_a_size_has_its_parts_its_assumptions_and_its_splits(server: Served) -> None:
    reply = server.http.post("/v1/size", json=spec(id="meta-llama/Llama-3.1-70B", task="inference"))
    view = api.SizeView.model_validate_json(reply.content)
    assert (view.model, view.gpu_count) == ("Llama 3.1 70B", 2)
    assert view.bytes.likely == view.recommended_bytes == sum(part.bytes.likely for part in view.parts)
    assert any("context" in assumed for assumed in view.assumptions)
    assert {split.gpu_memory_bytes // 10**9: split.gpu_count for split in view.splits} == {
        16: 16, 24: 8, 40: 4, 48: 4, 80: 2, 141: 2, 192: 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "code", "field"),
    [
        ({"runtime": RUNTIME}, "missing_field", "model"),
        (spec(id="acme/secret-sauce", task="inference"), "unknown_model", "model"),
        (spec(folder="/nowhere/at/all", task="inference"), "missing_input", "model.folder"),
    ],
)
def test_what_cannot_be_sized_is_refused_with_a_way_out(
    server: Served, document: dict[str, object], code: str, field: str
) -> None:
    reply = server.http.post("/v1/size", json=document)
    assert reply.status_code == 422
    (problem,) = reply.json()["errors"]
    assert (problem["code"], problem["field"]) == (code, field)
    assert problem["fix"]


def test_what_was_read_of_a_folder_stays_with_the_workload(server: Served, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    asked = spec(folder=str(tmp_path)) | {"resources": {"accelerator": "none"}, "outputs": []}
    first = server.http.post("/v1/workloads", json=asked, headers={"idempotency-key": "folder"})
    assert first.status_code == 201
    assert first.json()["spec"]["model"]["architecture"]["layers"] == 2

    (tmp_path / "config.json").unlink()
    again = server.http.post("/v1/workloads", json=asked, headers={"idempotency-key": "folder"})
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


def test_the_command_prints_a_table(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    file = tmp_path / "tune.json"
    file.write_text(json.dumps(spec(id="meta-llama/Meta-Llama-3-8B", task="lora")))
    assert run(["size", str(file)]) == 0
    told = capsys.readouterr().out
    assert "lora of Llama 3 8B: ask for 19.1 GB" in told
    assert "activations" in told
    assert run(["size", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu_count"] == 1


def test_the_disk_follows_from_the_image_and_the_inputs(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_bytes(b"x" * 3_000_000)
    asked = {
        "runtime": {"type": "container", "image": "registry.example.com/tune:v1", "image_size_gb": 4},
        "inputs": [{"name": "rows", "source": str(tmp_path / "data")}],
    }
    demand = server.http.post("/v1/estimate", json=asked).json()["demand"]
    assert demand["disk"] == {"low": 4_003_000_000, "likely": 4_003_000_000, "high": 4_003_000_000}
    assert demand["disk_bytes"] == 4_003_000_000
    assert any(reason.startswith("disk: 4 GB") for reason in demand["reasons"])

    file = tmp_path / "spec.json"
    file.write_text(json.dumps(asked))
    assert run(["size", str(file)]) == 0
    told = capsys.readouterr().out
    assert "disk: ask for 4 GB" in told
    assert "input rows" in told

    (problem,) = [
        one
        for one in server.http.post("/v1/estimate", json={**asked, "resources": {"disk_gb": 4}}).json()["problems"]
        if one["field"] == "resources.disk_gb"
    ]
    assert problem["code"] == "contradiction"
    assert problem["fix"] == "ask for 5 or more, or leave it out"


def test_a_model_decides_what_is_placed(server: Served) -> None:
    reply = server.http.post("/v1/estimate", json=spec(id="meta-llama/Meta-Llama-3-8B", task="qlora"))
    demand = reply.json()["demand"]
    assert demand["gpu_count"] == 1
    assert 8 * 10**9 < demand["gpu_memory_bytes"] < 16 * 10**9
    assert demand["reasons"][0].startswith("GPU memory: ")
