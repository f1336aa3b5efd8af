"""Descriptions of models: headers of safetensors and ``config.json``, as strangers publish them."""

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.catalog.models import read_folder
from placet.stages.memory.reading import (
    HEADER_BYTES_MAX,
    UnreadableModel,
    architecture_of_config,
    dtype_bytes,
    header_length,
    parameters_of_header,
    parameters_of_index,
)
from tests.support.fuzzing import fuzz, soon

NAMES = [
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "intermediate_size", "num_experts", "num_experts_per_tok", "moe_intermediate_size", "kv_lora_rank", "model_type",
    "sliding_window", "sliding_window_pattern", "use_sliding_window", "layer_types", "text_config", "torch_dtype",
    "tie_word_embeddings", "shape", "dtype", "__metadata__", "data_offsets", "metadata", "total_size", "weight_map",
    "quantization_config", "_class_name", "transformer",
]  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([0, 1, 32, 4096, 10**15, 10**18, -1, "llama", "bert", "F32", "sliding_attention"]),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
configs = st.dictionaries(st.sampled_from(NAMES), values, max_size=10)
whole = configs.map(lambda more: {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2} | more)
headers = st.one_of(
    st.binary(max_size=80),
    values.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.text(max_size=5), st.fixed_dictionaries({"shape": values})).map(
        lambda v: json.dumps(v).encode()
    ),
)


@fuzz
@given(headers)
@example(b'{"a":{"shape":[' + b"9999999999," * 200_000 + b"1]}}")
@example(b"[" * 200_000)
@example(b'{"a":{"shape":[' + b"9" * 5_000 + b"]}}")
@example(b'{"a":{"shape":[true]}}')
@example(b'{"a":{"shape":[0]},"b":{"shape":[]}}')
def test_a_header_gives_a_count_or_is_refused(header: bytes) -> None:
    with soon():
        try:
            count = parameters_of_header(header)
        except UnreadableModel:
            return
    assert 0 < count < 10**15


@fuzz
@given(st.binary(max_size=12))
def test_a_header_is_no_longer_than_any_real_one(start: bytes) -> None:
    try:
        assert 2 <= header_length(start) <= HEADER_BYTES_MAX
    except UnreadableModel:
        return


@fuzz
@given(st.one_of(configs, whole))
@example({"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "text_config": {"hidden_size": 10**14}})
@example({"num_hidden_layers": 2, "hidden_size": 1, "num_attention_heads": 2, "sliding_window": 1, "layer_types": [0]})
def test_a_configuration_gives_an_architecture_or_is_refused(config: dict[str, Any]) -> None:
    assert dtype_bytes(config) in (2, 4)
    size = parameters_of_index(config)
    assert size is None or size >= 0
    with soon():
        try:
            shape = architecture_of_config(config, "m")
        except UnreadableModel:
            return
    assert shape.parameters >= 0
    assert shape.head_size >= 0
    assert 0 <= shape.windowed_percent <= 100


@fuzz
@given(
    st.sampled_from(["config.json", "model.safetensors", "model_index.json", "model.safetensors.index.json"]),
    st.one_of(st.binary(max_size=60), values.map(lambda value: json.dumps(value).encode())),
    st.booleans(),
)
@example("config.json", b"[" * 200_000, False)
@example("config.json", b"[]", True)
@example("model_index.json", b'{"transformer": ["x", "y"]}', True)
@example("model.safetensors", b"\xff" * 8, False)
def test_a_folder_is_read_or_refused(tmp_path_factory: Any, name: str, content: bytes, beside_a_good_one: bool) -> None:
    folder: Path = tmp_path_factory.mktemp("model")
    if beside_a_good_one:
        good = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2}
        (folder / "config.json").write_text(json.dumps(good))
    (folder / name).write_bytes(content)
    with soon():
        try:
            read_folder(folder)
        except UnreadableModel:
            return
