"""Models described by a local folder or by a hub: what is read, what is refused; a silent hub loses nothing."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from placet.adapters.catalog.models import ModelCatalog, read_folder
from placet.domain.models import ModelHint, ModelKind, ModelUse
from placet.domain.spec import Spec
from placet.stages.memory.reading import UnreadableModel
from tests.support.values import SPEC

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


def tensors(path: Path, *counts: int) -> None:
    header = json.dumps({str(number): {"dtype": "BF16", "shape": [count]} for number, count in enumerate(counts)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * 16)


def described(folder: Path | None = None, model_id: str | None = None) -> Spec:
    hint = ModelHint(id=model_id, folder=None if folder is None else str(folder), task=ModelUse.INFERENCE)
    return replace(SPEC, model=hint)


def test_a_folder_with_a_configuration_and_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    tensors(tmp_path / "model-00001-of-00002.safetensors", 1000, 500)
    tensors(tmp_path / "model-00002-of-00002.safetensors", 250)
    facts = read_folder(tmp_path)
    assert (facts.parameters, facts.layers, facts.kv_heads, facts.guessed) == (1750, 2, 2, False)


def test_quantised_weights_are_counted_by_the_shape(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": {"bits": 4}}))
    tensors(tmp_path / "model.safetensors", 10)
    assert read_folder(tmp_path).parameters > 10_000


def test_an_index_counts_where_the_weights_are_not_here(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"torch_dtype": "float32"}))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 4000}}))
    assert read_folder(tmp_path).parameters == 1000


def test_weights_alone_give_a_guess(tmp_path: Path) -> None:
    tensors(tmp_path / "model.safetensors", 7 * 10**9)
    for path in (tmp_path, tmp_path / "model.safetensors"):
        facts = read_folder(path)
        assert (facts.parameters, facts.guessed) == (7 * 10**9, True)


def test_a_pipeline_of_components(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text("{}")
    tensors(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", 2000)
    tensors(tmp_path / "unet" / "diffusion_pytorch_model.fp16.safetensors", 2000)
    (tmp_path / "unet" / "config.json").write_text(json.dumps({"sample_size": 64}))
    tensors(tmp_path / "vae" / "model.safetensors", 300)
    tensors(tmp_path / "text_encoder" / "model.safetensors", 70)
    facts = read_folder(tmp_path)
    assert (facts.kind, facts.parameters, facts.companions, facts.image_side) == (ModelKind.DIFFUSION, 2000, 370, 512)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b"[" * 100_000])
def test_what_describes_nothing_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UnreadableModel):
        read_folder(tmp_path)


def test_a_spec_is_completed_once_and_a_broken_folder_is_a_problem(tmp_path: Path) -> None:
    catalog = ModelCatalog()
    (problem,) = catalog.check(described(tmp_path / "nowhere"))
    assert (problem.code, problem.field) == ("missing_input", "model.folder")
    assert catalog.complete(described(tmp_path / "nowhere")) == described(tmp_path / "nowhere")

    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    spec = catalog.complete(described(tmp_path))
    assert spec.model is not None
    assert spec.model.architecture is not None
    assert catalog.check(spec) == ()
    (tmp_path / "config.json").unlink()
    assert catalog.complete(spec) == spec


def test_a_spec_without_a_model_is_left_alone() -> None:
    assert ModelCatalog().complete(SPEC) is SPEC
    assert ModelCatalog().check(SPEC) == ()


@contextmanager
def hub(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, headers, body = answers.get(self.path.partition("?")[0], (404, {}, b""))
            self.send_response(status)
            for name, value in (headers | {"content-length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


GOOD = {
    "/acme/tiny/resolve/main/config.json": (307, {"location": "/elsewhere/config.json"}, b""),
    "/elsewhere/config.json": (200, {}, json.dumps(CONFIG).encode()),
    "/api/models/acme/tiny": (200, {}, json.dumps({"safetensors": {"total": 12_345}}).encode()),
}


def test_a_hub_is_asked_for_what_is_not_known() -> None:
    with hub(GOOD) as (url, _):
        spec = ModelCatalog(hub=url).complete(described(model_id="acme/tiny"))
    assert spec.model is not None
    assert spec.model.architecture is not None
    assert (spec.model.architecture.parameters, spec.model.architecture.layers) == (12_345, 2)


def test_a_hub_is_not_asked_for_what_is_known_or_when_it_is_off() -> None:
    with hub(GOOD) as (url, asked):
        ModelCatalog(hub=url).complete(described(model_id="meta-llama/Llama-3.1-8B"))
        ModelCatalog().complete(described(model_id="acme/tiny"))
        assert asked == []


@pytest.mark.parametrize(
    "answers",
    [
        {},
        GOOD | {"/elsewhere/config.json": (200, {}, b"no json")},
        GOOD | {"/acme/tiny/resolve/main/config.json": (307, {"location": "http://127.0.0.2:1/x"}, b"")},
        GOOD | {"/elsewhere/config.json": (307, {"location": "/elsewhere/config.json"}, b"")},
        GOOD | {"/elsewhere/config.json": (200, {}, b" " * 5_000_000)},
    ],
    ids=["nothing", "no json", "another host", "circle", "huge"],
)
def test_a_hub_that_fails_changes_nothing(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> None:
    with hub(answers) as (url, _):
        assert ModelCatalog(hub=url).complete(described(model_id="acme/tiny")) == described(model_id="acme/tiny")


def test_a_hub_that_is_not_there_changes_nothing() -> None:
    catalog = ModelCatalog(hub="http://127.0.0.1:9", within_s=0.5)
    assert catalog.complete(described(model_id="acme/tiny")) == described(model_id="acme/tiny")
    assert catalog.complete(described(model_id="acme/../tiny")) == described(model_id="acme/../tiny")
