"""Which architecture is meant: the table of families, what an id says, what a configuration or a header says."""

import json

import pytest

from placet.domain.models import Architecture, ModelHint, ModelKind, Precision
from placet.stages.memory.estimate import architecture_of
from placet.stages.memory.families import all_known, known_architecture, written_parameters, written_precision
from placet.stages.memory.reading import (
    UnreadableModel,
    architecture_of_config,
    header_length,
    parameters_of_header,
    parameters_of_index,
)
from placet.stages.memory.shapes import counted_parameters, guessed_architecture, linear_parameters
from placet.stages.memory.values import UnknownModel

# Their parameters are not all in the blocks that the shape counts: vision towers, compressed attention.
PARTLY_ELSEWHERE = ("Vision", "Gemma 3", "DeepSeek")


@pytest.mark.parametrize("facts", [known for known in all_known() if known.kind is ModelKind.DECODER], ids=str)
def test_the_shape_of_a_known_model_adds_up_to_its_parameters(facts: Architecture) -> None:
    tolerance = 0.10 if any(word in facts.name for word in PARTLY_ELSEWHERE) else 0.008
    assert counted_parameters(facts) == pytest.approx(facts.parameters, rel=tolerance)


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "Llama 3 8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama 3.1 70B"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "Llama 3.1 405B FP8"),
        ("meta-llama/Llama-3.2-3B", "Llama 3.2 3B"),
        ("meta-llama/Llama-2-70b-hf", "Llama 2 70B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral 7B"),
        ("mistralai/Mixtral-8x7B-v0.1", "Mixtral 8x7B"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen2.5 0.5B"),
        ("Qwen/Qwen2.5-1.5B", "Qwen2.5 1.5B"),
        ("Qwen/Qwen2-72B", "Qwen2.5 72B"),
        ("Qwen/Qwen3-32B", "Qwen3 32B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3 30B-A3B"),
        ("google/gemma-2-9b-it", "Gemma 2 9B"),
        ("google/gemma-3-27b-it", "Gemma 3 27B"),
        ("microsoft/Phi-3.5-mini-instruct", "Phi-3 mini"),
        ("microsoft/phi-4", "Phi-4"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek V3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen2.5 7B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "Llama 3.1 70B"),
        ("intfloat/e5-mistral-7b-instruct", "Mistral 7B"),
        ("BAAI/bge-large-en-v1.5", "BERT large"),
        ("BAAI/bge-m3", "BGE M3"),
        ("intfloat/e5-base-v2", "BERT base"),
        ("google-bert/bert-base-uncased", "BERT base"),
        ("openai/whisper-large-v3", "Whisper large"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "SDXL"),
        ("stable-diffusion-v1-5/stable-diffusion-v1-5", "Stable Diffusion 1.5"),
        ("black-forest-labs/FLUX.1-dev", "FLUX.1"),
    ],
)
def test_an_id_leads_to_its_family(model_id: str, name: str) -> None:
    facts = known_architecture(model_id)
    assert facts is not None
    assert facts.name == name


@pytest.mark.parametrize("model_id", ["example-org/example-7b", "llama", "some/llama-9b", "x"])
def test_other_ids_lead_nowhere(model_id: str) -> None:
    assert known_architecture(model_id) is None


@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [
        ("example-org/example-7b", 7 * 10**9),
        ("example-org/Example-1.5B-chat", 1_500_000_000),
        ("example-350m", 350 * 10**6),
        ("example-2-9b", 9 * 10**9),
        ("example-8x7b", int(7e9 * 8 * 0.83)),
        ("example", None),
        ("v2.5-beta", None),
    ],
)
def test_a_size_in_the_name_is_read(model_id: str, parameters: int | None) -> None:
    assert written_parameters(model_id) == parameters


def test_a_precision_in_the_name_is_read() -> None:
    assert written_precision("x/Llama-2-7B-AWQ") is Precision.INT4
    assert written_precision("x/Llama-3.1-405B-Instruct-FP8") is Precision.FP8
    assert written_precision("x/llama-3-8b-bnb-4bit") is Precision.NF4
    assert written_precision("x/llama-3-8b") is None


def test_a_stated_size_overrules_a_name_that_does_not_fit() -> None:
    found = architecture_of(ModelHint(id="meta-llama/Llama-3.1-8B", parameters=2 * 10**9))
    assert isinstance(found, Architecture)
    assert (found.guessed, found.parameters) == (True, 2 * 10**9)
    same = architecture_of(ModelHint(id="meta-llama/Llama-3.1-8B", parameters=8 * 10**9))
    assert isinstance(same, Architecture)
    assert same.name == "Llama 3.1 8B"


@pytest.mark.parametrize("hint", [ModelHint(), ModelHint(id="acme/secret-sauce")])
def test_what_says_nothing_of_its_size_is_unknown_with_a_way_out(hint: ModelHint) -> None:
    found = architecture_of(hint)
    assert isinstance(found, UnknownModel)
    assert "parameters" in found.fix


@pytest.mark.parametrize("parameters", [10**6, 10**8, 7 * 10**9, 70 * 10**9, 2 * 10**12])
def test_a_guessed_shape_has_the_size_it_was_guessed_from(parameters: int) -> None:
    facts = guessed_architecture(parameters, "model", "as stated")
    assert facts.parameters == parameters
    assert facts.layers > 0
    assert 0 < linear_parameters(facts) <= parameters


LLAMA_CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}  # fmt: skip


def test_a_configuration_becomes_the_known_shape() -> None:
    read = architecture_of_config(LLAMA_CONFIG, "mine")
    known = known_architecture("Llama-3.1-8B")
    assert known is not None
    assert read.parameters == pytest.approx(known.parameters, rel=1e-3)
    assert (read.kv_heads, read.head_size, read.vocabulary) == (known.kv_heads, known.head_size, known.vocabulary)
    assert read.source == "its configuration"


def test_a_mixture_of_experts_and_a_compressed_cache_are_read() -> None:
    config = LLAMA_CONFIG | {
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    }  # fmt: skip
    read = architecture_of_config(config, "mine")
    assert (read.experts, read.experts_active, read.expert_width, read.kv_latent) == (66, 8, 1408, 576)


def test_a_window_is_read_from_its_layers_its_pattern_or_its_switch() -> None:
    window = LLAMA_CONFIG | {"sliding_window": 1024}
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    read = [
        architecture_of_config(window | more, "mine").windowed_percent
        for more in ({"layer_types": kinds}, {"sliding_window_pattern": 5}, {"use_sliding_window": False}, {})
    ]
    assert read == [75, 80, 0, 100]


def test_a_model_for_pictures_and_text_is_read_by_its_text() -> None:
    read = architecture_of_config({"model_type": "mllama", "text_config": LLAMA_CONFIG}, "mine", 10_670_000_000)
    assert (read.layers, read.parameters) == (32, 10_670_000_000)


@pytest.mark.parametrize("config", [{}, {"hidden_size": True, "num_hidden_layers": 2}, {"hidden_size": "4096"}])
def test_a_configuration_without_a_shape_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(UnreadableModel, match="does not say"):
        architecture_of_config(config, "mine")


def header(tensors: object) -> bytes:
    return json.dumps(tensors).encode()


def test_a_header_is_counted() -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [4096, 1024], "data_offsets": [0, 1]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [0, 1]},
    }
    encoded = header(tensors)
    assert header_length(len(encoded).to_bytes(8, "little") + encoded[:10]) == len(encoded)
    assert parameters_of_header(encoded) == 4096 * 1024 + 1


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[1]",
        b"{",
        header({}),
        header({"a": {"shape": 3}}),
        header({"a": {"shape": [-1]}}),
        header({"a": {"shape": [10**9, 10**9]}}),
        header({"a": 3}),
        b"[" * 100_000,
    ],
    ids=["nothing", "list", "cut", "empty", "number", "negative", "huge", "no shape", "deep"],
)
def test_a_header_that_is_none_is_refused(broken: bytes) -> None:
    with pytest.raises(UnreadableModel):
        parameters_of_header(broken)


@pytest.mark.parametrize("start", [b"", b"\x01", b"\xff" * 8, b"\x00" * 8])
def test_a_length_that_is_none_is_refused(start: bytes) -> None:
    with pytest.raises(UnreadableModel):
        header_length(start)


def test_an_index_gives_the_size_if_it_has_one() -> None:
    assert parameters_of_index({"metadata": {"total_size": 16_060_522_496}}) == 8_030_261_248
    assert parameters_of_index({"metadata": {}}) is None
    assert parameters_of_index({}) is None
