"""Laws of every estimate: bounds in order, and more of anything never takes less."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from placet.domain.models import Architecture, ModelHint, ModelUse, Optimizer, Precision
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.families import all_known, known_architecture, written_parameters
from placet.stages.memory.reading import UnreadableModel, architecture_of_config, header_length, parameters_of_header
from placet.stages.memory.splitting import Fit, smallest_split, split
from placet.stages.memory.values import MemoryEstimate

uses = st.sampled_from(ModelUse)
facts = st.sampled_from(all_known())
counts = st.sampled_from([1, 2, 4, 8, 16])
flags = st.none() | st.booleans()


def hints(use: st.SearchStrategy[ModelUse] = uses) -> st.SearchStrategy[ModelHint]:
    return st.builds(
        ModelHint,
        parameters=st.none() | st.integers(10**6, 10**13),
        task=use,
        precision=st.none() | st.sampled_from(Precision),
        context_tokens=st.none() | st.integers(1, 10**6),
        batch_size=st.none() | st.integers(1, 512),
        sequence_tokens=st.none() | st.integers(1, 10**6),
        concurrent_sequences=st.none() | st.integers(1, 512),
        kv_precision=st.none() | st.sampled_from(Precision),
        optimizer=st.none() | st.sampled_from(Optimizer),
        optimizer_in_backward=st.booleans(),
        gradient_checkpointing=flags,
        lora_rank=st.none() | st.integers(1, 512),
        cpu_offload=st.booleans(),
        image_width=st.none() | st.integers(64, 4096),
        image_height=st.none() | st.integers(64, 4096),
    )


def estimated(hint: ModelHint, shape: Architecture | None, gpu_count: int = 1) -> MemoryEstimate:
    estimate = estimate_memory(hint, shape, gpu_count=gpu_count)
    assert isinstance(estimate, MemoryEstimate)
    return estimate


def no_less(more: MemoryEstimate, less: MemoryEstimate) -> bool:
    """Rounding to whole bytes may take one from each part."""
    slack = len(more.parts) + len(less.parts)
    return (
        more.size.low + slack >= less.size.low
        and more.size.likely + slack >= less.size.likely
        and more.size.high + slack >= less.size.high
    )


@given(hints(), facts, counts)
def test_every_part_has_its_bounds_in_order_and_a_reason(hint: ModelHint, shape: Architecture, count: int) -> None:
    estimate = estimated(hint, shape, count)
    for part in estimate.parts:
        assert 0 <= part.size.low <= part.size.likely <= part.size.high
        assert part.why
    assert estimate.size.low <= estimate.recommended_bytes <= estimate.size.high
    assert estimate.allocated.likely < estimate.recommended_bytes


@given(hints(), facts, st.integers(1, 64))
def test_a_larger_batch_never_takes_less(hint: ModelHint, shape: Architecture, more: int) -> None:
    batch = hint.batch_size or 1
    small = replace(hint, batch_size=batch, concurrent_sequences=batch)
    large = replace(hint, batch_size=batch + more, concurrent_sequences=batch + more)
    assert no_less(estimated(large, shape), estimated(small, shape))


@given(hints(), facts, st.integers(1, 10**5))
def test_a_longer_sequence_never_takes_less(hint: ModelHint, shape: Architecture, more: int) -> None:
    tokens = hint.sequence_tokens or 1
    short = replace(hint, sequence_tokens=tokens, context_tokens=tokens)
    long = replace(hint, sequence_tokens=tokens + more, context_tokens=tokens + more)
    assert no_less(estimated(long, shape), estimated(short, shape))


@given(hints(st.sampled_from([ModelUse.LORA, ModelUse.QLORA, ModelUse.FULL_FINE_TUNE])), facts)
def test_checkpointing_never_likely_takes_more(hint: ModelHint, shape: Architecture) -> None:
    """But for the one block that is computed again, which a model of few blocks and many tokens may notice."""
    kept = estimated(replace(hint, gradient_checkpointing=False), shape)
    again = estimated(replace(hint, gradient_checkpointing=True), shape)
    block = again.part("working set").likely
    assert again.recommended_bytes <= kept.recommended_bytes + 1.1 * block


@given(hints(), facts, counts)
def test_more_gpus_never_hold_more_weights_each(hint: ModelHint, shape: Architecture, count: int) -> None:
    one, many = estimated(hint, shape), estimated(hint, shape, count)
    assert many.part("weights").likely <= one.part("weights").likely


@given(hints(), st.integers(10**6, 10**12))
def test_a_bare_size_is_always_enough_for_an_estimate(hint: ModelHint, parameters: int) -> None:
    estimate = estimate_memory(replace(hint, parameters=parameters, id=None))
    assert isinstance(estimate, MemoryEstimate)
    assert estimate.architecture.guessed


@given(hints(), facts, st.integers(8, 200))
def test_the_smallest_split_fits_and_fewer_do_not(hint: ModelHint, shape: Architecture, gigabytes: int) -> None:
    memory = gigabytes * 10**9
    estimate = estimated(hint, shape)
    found = smallest_split(estimate, memory)
    for each in split(estimate, memory):
        fits = each.fit in (Fit.SURE, Fit.LIKELY)
        assert fits == (each.estimate.recommended_bytes <= memory)
        if found is None or each.gpu_count < found.gpu_count:
            assert not fits


@given(st.text(max_size=60))
def test_any_id_is_answered(text: str) -> None:
    outcome = estimate_memory(ModelHint(id=text))
    assert isinstance(outcome, MemoryEstimate) == bool(known_architecture(text) or written_parameters(text))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    for read in (header_length, parameters_of_header):
        try:
            assert read(data) > 0
        except UnreadableModel:
            pass


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
config_names = st.sampled_from(
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "sliding_window", "layer_types",
     "text_config", "num_experts", "n_shared_experts", "sliding_window_pattern", "model_type", "head_dim"]
)  # fmt: skip


@given(st.dictionaries(config_names, json_values | st.integers(1, 10**4), max_size=12))
def test_any_configuration_is_a_shape_or_refused(config: dict[str, object]) -> None:
    try:
        shape = architecture_of_config(config, "model")
    except UnreadableModel:
        return
    assert isinstance(estimate_memory(ModelHint(task=ModelUse.INFERENCE), shape), MemoryEstimate)
