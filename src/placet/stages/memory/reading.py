"""From a model's own description to its architecture: ``config.json`` and safetensors headers. It opens no file."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from placet.domain.models import Architecture, ModelKind
from placet.stages.memory.shapes import counted_parameters

HEADER_BYTES_MAX = 100 * 2**20
_LENGTH_BYTES = 8
_LARGEST = 10**15

_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "hidden": ("hidden_size", "d_model", "n_embd", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads"),
    "head_size": ("head_dim",),
    "intermediate": ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "n_inner", "d_ff"),
    "vocabulary": ("vocab_size",),
    "context_tokens": ("max_position_embeddings", "n_positions", "max_target_positions"),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "experts_active": ("num_experts_per_tok", "num_experts_per_token"),
    "expert_width": ("moe_intermediate_size",),
    "shared": ("n_shared_experts",),
    "kv_latent": ("kv_lora_rank",),
    "rope": ("qk_rope_head_dim",),
    "window": ("sliding_window",),
}
_ENCODERS = ("bert", "roberta", "electra", "mpnet", "deberta", "nomic", "modernbert")
_ENCODER_DECODERS = ("whisper", "t5", "bart", "marian", "m2m")
_PLAIN_MLP = ("gpt2", "gpt_neo", "gptj", "opt", "bloom", "falcon", "phi-msft")
_TIED_BY_DEFAULT = ("gemma", "gpt2", "t5")


class UnreadableModel(ValueError):
    """What was given does not describe a model; the message says why."""


def architecture_of_config(config: Mapping[str, object], name: str, parameters: int | None = None) -> Architecture:
    """The architecture that a ``config.json`` describes; its size is counted when ``parameters`` is not known.

    Raises:
        UnreadableModel: layers, width or heads are missing.
    """
    text = config.get("text_config")
    inner: Mapping[str, object] = {**config, **text} if isinstance(text, dict) else config
    numbers = {field: _number(inner, names) for field, names in _NAMES.items()}
    missing = [field for field in ("layers", "hidden", "heads") if not numbers[field]]
    if missing:
        raise UnreadableModel(f"{name} does not say {', '.join(missing)}")
    family = str(inner.get("model_type", config.get("model_type", ""))).lower()
    heads, hidden = numbers["heads"], numbers["hidden"]
    experts = numbers["experts"]
    shape = Architecture(
        name=name,
        kind=_kind(family),
        parameters=0,
        layers=numbers["layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=numbers["kv_heads"] or heads,
        head_size=numbers["head_size"] or hidden // heads,
        intermediate=numbers["intermediate"] or 4 * hidden,
        vocabulary=numbers["vocabulary"],
        tied=bool(inner.get("tie_word_embeddings", family.startswith(_TIED_BY_DEFAULT))),
        gated=not family.startswith((*_PLAIN_MLP, *_ENCODERS, *_ENCODER_DECODERS)),
        experts=experts + numbers["shared"] if experts else 0,
        experts_active=(numbers["experts_active"] or 1) + numbers["shared"] if experts else 0,
        expert_width=(numbers["expert_width"] or numbers["intermediate"]) if experts else 0,
        kv_latent=numbers["kv_latent"] + numbers["rope"] if numbers["kv_latent"] else 0,
        context_tokens=numbers["context_tokens"],
        window=numbers["window"],
        windowed_percent=_windowed_percent(inner) if numbers["window"] else 0,
        source="its configuration",
    )
    return replace(shape, parameters=parameters or counted_parameters(shape))


def header_length(start: bytes) -> int:
    """How many bytes of JSON follow the first eight of a safetensors file.

    Raises:
        UnreadableModel: it is no safetensors file, or its header is larger than any real one.
    """
    length = int.from_bytes(start[:_LENGTH_BYTES], "little") if len(start) >= _LENGTH_BYTES else 0
    if not 2 <= length <= HEADER_BYTES_MAX:
        raise UnreadableModel("it does not begin as a safetensors file does")
    return length


def parameters_of_header(header: bytes) -> int:
    """The parameters of one safetensors file, by its header without the eight bytes before it.

    Four-bit formats pack several weights into one number and are counted as what is stored.

    Raises:
        UnreadableModel: it is not the JSON that it should be.
    """
    try:
        tensors = json.loads(header)
        shapes = [entry["shape"] for key, entry in tensors.items() if key != "__metadata__"]
        count = sum(_product(shape) for shape in shapes)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableModel("its header is not a list of tensors") from error
    if not 0 < count < _LARGEST:
        raise UnreadableModel("its header names no tensors, or impossible ones")
    return count


def parameters_of_index(index: Mapping[str, object], bytes_each: int = 2) -> int | None:
    """The parameters by the total size in a ``model.safetensors.index.json``."""
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(size) // bytes_each if isinstance(size, int | float) and 0 < size < _LARGEST else None


def dtype_bytes(config: Mapping[str, object]) -> int:
    """Bytes of one stored weight, by ``torch_dtype``; two when it does not say."""
    told = str(config.get("torch_dtype", config.get("dtype", "bfloat16")))
    return 4 if told == "float32" else 2


def _number(config: Mapping[str, object], names: Iterable[str]) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST:
            return value
    return 0


def _product(shape: object) -> int:
    if not isinstance(shape, list):
        raise TypeError("a shape is a list")
    result = 1
    for side in shape:
        if not isinstance(side, int) or side < 0:
            raise TypeError("a shape has whole numbers")
        result *= side
        if result > _LARGEST:  # the product of a million sides would be computed for ever
            raise TypeError("a shape has a size that can be stored")
    return result


def _windowed_percent(config: Mapping[str, object]) -> int:
    """The share of layers with a sliding window: listed, every n-th without one, or all of them."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and kinds:
        return 100 * kinds.count("sliding_attention") // len(kinds)
    if config.get("use_sliding_window") is False:
        return 0
    pattern = config.get("sliding_window_pattern")
    return 100 - 100 // pattern if isinstance(pattern, int) and pattern > 1 else 100


def _kind(family: str) -> ModelKind:
    if family.startswith(_ENCODER_DECODERS):
        return ModelKind.ENCODER_DECODER
    return ModelKind.ENCODER if any(word in family for word in _ENCODERS) else ModelKind.DECODER
