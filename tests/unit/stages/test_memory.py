"""What an estimate says and how it answers to its setting; how a spec's model reaches the demand and admission."""

from dataclasses import replace

import pytest

from placet.domain.models import ModelHint, ModelUse, Optimizer, Precision
from placet.domain.spec import Accelerator, Resources, Spec
from placet.domain.units import GB, GIB
from placet.stages.admission import admit
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.splitting import Fit, smallest_split, split
from placet.stages.memory.values import MemoryEstimate
from placet.stages.sizing import size
from tests.support.values import NOW_MS, SPEC

LLAMA = "meta-llama/Llama-3.1-8B"
BIG = "meta-llama/Llama-3.1-70B"


def estimated(hint: ModelHint, gpu_count: int = 1) -> MemoryEstimate:
    estimate = estimate_memory(hint, gpu_count=gpu_count)
    assert isinstance(estimate, MemoryEstimate)
    return estimate


def likely(part: str, hint: ModelHint, gpu_count: int = 1) -> int:
    return estimated(hint, gpu_count).part(part).likely


def test_what_is_assumed_is_told_and_what_is_stated_is_not() -> None:
    bare = estimated(ModelHint(id=LLAMA, task=ModelUse.LORA)).assumptions
    assert any("checkpointing" in told for told in bare)
    full = ModelHint(
        id=LLAMA, task=ModelUse.LORA, precision=Precision.BF16, batch_size=2, sequence_tokens=2048, lora_rank=8,
        gradient_checkpointing=True,
    )  # fmt: skip
    assert estimated(full).assumptions == ()


def test_what_is_not_stated_widens_the_interval_upwards() -> None:
    stated = estimated(ModelHint(id=LLAMA, task=ModelUse.LORA, gradient_checkpointing=True)).size
    open_ = estimated(ModelHint(id=LLAMA, task=ModelUse.LORA)).size
    assert (open_.low, open_.likely) == (stated.low, stated.likely)
    assert open_.high > stated.high


def test_a_shape_that_is_only_guessed_has_a_wider_interval_and_says_so() -> None:
    known = estimated(ModelHint(id=LLAMA, task=ModelUse.INFERENCE))
    guessed = estimated(ModelHint(parameters=8_030_000_000, task=ModelUse.INFERENCE))
    assert guessed.size.high - guessed.size.low > known.size.high - known.size.low
    assert guessed.part("KV cache").high > 3 * guessed.part("KV cache").likely
    assert "guessed" in guessed.assumptions[0]


def test_grouped_queries_shrink_the_cache() -> None:
    """Llama 2 7B has a key head per query head, 3.1 8B one for four."""
    old = ModelHint(id="meta-llama/Llama-2-7b", task=ModelUse.INFERENCE, context_tokens=4096)
    new = ModelHint(id=LLAMA, task=ModelUse.INFERENCE, context_tokens=4096)
    assert likely("KV cache", old) == 4 * likely("KV cache", new)


def test_a_window_bounds_the_cache_from_below() -> None:
    hint = ModelHint(id="google/gemma-3-27b-it", task=ModelUse.INFERENCE, context_tokens=131_072)
    cache = estimated(hint).part("KV cache")
    assert cache.low < cache.likely / 4


def test_a_compressed_cache_is_small() -> None:
    """DeepSeek keeps 576 numbers per token and layer, not 128 heads of 128 twice."""
    hint = ModelHint(id="deepseek-ai/DeepSeek-V3", task=ModelUse.INFERENCE, context_tokens=8192)
    assert likely("KV cache", hint) == 61 * 576 * 2 * 8192


def test_a_cache_in_eight_bits_is_half() -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.INFERENCE, context_tokens=8192)
    narrow = replace(hint, kv_precision=Precision.FP8)
    assert 2 * likely("KV cache", narrow) == likely("KV cache", hint)


@pytest.mark.parametrize(
    ("precision", "gib"),
    [
        (Precision.FP32, 29.9),
        (Precision.BF16, 14.96),
        (Precision.FP16, 14.96),
        (Precision.FP8, 8.46),
        (Precision.INT8, 8.5),
        (Precision.INT4, 5.4),
        (Precision.NF4, 5.3),
    ],
)
def test_weights_follow_the_precision(precision: Precision, gib: float) -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.INFERENCE, precision=precision)
    assert likely("weights", hint) / GIB == pytest.approx(gib, rel=0.01)


def test_the_base_of_qlora_is_narrow_whatever_it_computes_in() -> None:
    wide = estimated(ModelHint(id=LLAMA, task=ModelUse.QLORA, precision=Precision.BF16))
    bare = estimated(ModelHint(id=LLAMA, task=ModelUse.QLORA))
    assert wide.size == bare.size
    assert any("stored in nf4" in told for told in wide.assumptions)


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [
        (Optimizer.ADAMW, 4),
        (Optimizer.ADAMW_FP32, 8),
        (Optimizer.ADAMW_8BIT, 2.05),
        (Optimizer.ADAFACTOR, 8 / 4096),
        (Optimizer.SGD, 0),
    ],
)
def test_state_follows_the_optimizer(optimizer: Optimizer, bytes_each: float) -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.FULL_FINE_TUNE, optimizer=optimizer)
    assert likely("optimizer state", hint) == pytest.approx(8_030_300_000 * bytes_each, rel=1e-6)


def test_paged_state_is_mostly_elsewhere() -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.FULL_FINE_TUNE, optimizer=Optimizer.PAGED_ADAMW_8BIT)
    assert likely("optimizer state", hint) < 1.2 * GIB


def test_mixed_precision_takes_sixteen_bytes_per_parameter() -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.FULL_FINE_TUNE, optimizer=Optimizer.ADAMW_FP32)
    held = sum(likely(part, hint) for part in ("weights", "gradients", "optimizer state"))
    assert held == pytest.approx(16 * 8_030_300_000, rel=1e-6)


def test_pictures_take_more_when_they_are_larger() -> None:
    small = ModelHint(id="stabilityai/sdxl", task=ModelUse.DIFFUSION, image_width=512, image_height=512)
    large = ModelHint(id="stabilityai/sdxl", task=ModelUse.DIFFUSION, image_width=1024, image_height=1024)
    assert likely("working set", large) == 4 * likely("working set", small)


@pytest.mark.parametrize(
    ("model_id", "low_gb", "high_gb"),
    [("sd-v1-5", 2.5, 4.5), ("sdxl", 8, 12), ("black-forest-labs/FLUX.1-dev", 33, 40)],
)
def test_pictures_need_the_memory_that_people_report(model_id: str, low_gb: float, high_gb: float) -> None:
    hint = ModelHint(id=model_id, task=ModelUse.DIFFUSION, precision=Precision.FP16)
    assert low_gb * GB < estimated(hint).recommended_bytes < high_gb * GB


def test_a_small_embedder_fits_any_gpu() -> None:
    hint = ModelHint(id="BAAI/bge-base-en-v1.5", task=ModelUse.EMBEDDING, batch_size=64, sequence_tokens=512)
    assert estimated(hint).size.high < 8 * GB


def test_inference_splits_into_whole_heads_only() -> None:
    counts = [found.gpu_count for found in split(estimated(ModelHint(id=BIG, task=ModelUse.INFERENCE)), 80 * GB)]
    assert counts == [1, 2, 4, 8, 16, 32]
    odd = estimated(ModelHint(id="Qwen/Qwen2.5-7B", task=ModelUse.INFERENCE))
    assert [found.gpu_count for found in split(odd, 80 * GB)] == [1, 2, 4]


def test_70b_in_16_bits_needs_two_large_gpus_or_four_middle_ones() -> None:
    served = estimated(ModelHint(id=BIG, task=ModelUse.INFERENCE, context_tokens=8192))
    found = {memory: smallest_split(served, memory * GB) for memory in (80, 48, 24)}
    assert [None if one is None else one.gpu_count for one in found.values()] == [2, 4, 8]
    assert split(served, 80 * GB)[0].fit is Fit.NO


def test_sharded_training_of_70b_is_split_and_says_what_each_gpu_holds() -> None:
    whole = estimated(ModelHint(id=BIG, task=ModelUse.LORA, gradient_checkpointing=True))
    found = smallest_split(whole, 80 * GB)
    assert found is not None
    assert found.gpu_count == 4
    assert found.estimate.part("gathered weights").likely > 0


def test_what_keeps_a_whole_copy_everywhere_is_not_split() -> None:
    pictures = estimated(ModelHint(id="flux-dev", task=ModelUse.DIFFUSION))
    assert [found.gpu_count for found in split(pictures, 24 * GB)] == [1]
    assert smallest_split(pictures, 24 * GB) is None


def asked(hint: ModelHint, **resources: object) -> Spec:
    needs = {"accelerator": Accelerator.GPU, **resources}
    return replace(SPEC, model=hint, resources=Resources(**needs))


def test_the_demand_of_a_model_has_its_memory_and_its_reasons() -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.LORA)
    demand = size(asked(hint))
    assert demand.gpu_count == 1
    assert demand.gpu_memory_bytes == estimated(hint).recommended_bytes
    assert demand.reasons[0].startswith("GPU memory: 19.1 GB for lora of Llama 3.1 8B, between")
    assert any("checkpointing is not stated" in reason for reason in demand.reasons)


def test_an_open_number_of_gpus_is_the_fewest_usual_ones() -> None:
    demand = size(asked(ModelHint(id=BIG, task=ModelUse.INFERENCE)))
    assert demand.gpu_count == 2
    assert demand.gpu_memory_bytes is not None
    assert 70 * GB < demand.gpu_memory_bytes <= 80 * GB


def test_a_stated_number_of_gpus_counts() -> None:
    demand = size(asked(ModelHint(id=BIG, task=ModelUse.INFERENCE), gpu_count=1))
    assert demand.gpu_count == 1
    assert demand.gpu_memory_bytes is not None
    assert demand.gpu_memory_bytes > 140 * GB


def test_what_fits_no_number_of_usual_gpus_is_asked_for_as_it_is() -> None:
    demand = size(asked(ModelHint(parameters=20 * 10**12, task=ModelUse.FULL_FINE_TUNE)))
    assert demand.gpu_count == 32
    assert demand.gpu_memory_bytes is not None
    assert demand.gpu_memory_bytes > 80 * GB


def test_declared_memory_wins_and_the_difference_is_told() -> None:
    hint = ModelHint(id=LLAMA, task=ModelUse.LORA)
    tight = size(asked(hint, gpu_memory_bytes=18 * GB, gpu_count=1))
    assert tight.gpu_memory_bytes == 18 * GB
    assert "likely needs 19.1 GB" in tight.reasons[0]
    enough = size(asked(hint, gpu_memory_bytes=24 * GB, gpu_count=1))
    assert not [reason for reason in enough.reasons if reason.startswith("GPU memory")]


def test_a_model_without_a_gpu_asks_for_none() -> None:
    demand = size(replace(SPEC, model=ModelHint(id=LLAMA, task=ModelUse.INFERENCE)))
    assert (demand.gpu_count, demand.gpu_memory_bytes, demand.reasons) == (0, None, ())


def test_a_model_that_surely_needs_more_than_asked_is_a_contradiction() -> None:
    hint = ModelHint(id=BIG, task=ModelUse.INFERENCE)
    (problem,) = admit(asked(hint, gpu_memory_bytes=80 * GB, gpu_count=1), NOW_MS)
    assert (problem.code, problem.field) == ("contradiction", "resources.minimum_gpu_memory_gb")
    assert "gpu_count to 2" in problem.fix
    assert "at least 14" in problem.what
    assert admit(asked(hint, gpu_memory_bytes=80 * GB, gpu_count=2), NOW_MS) == ()


def test_a_model_that_may_fit_is_no_contradiction() -> None:
    assert admit(asked(ModelHint(id=LLAMA, task=ModelUse.LORA), gpu_memory_bytes=18 * GB, gpu_count=1), NOW_MS) == ()


def test_a_model_of_unknown_size_is_refused_unless_the_hardware_is_stated() -> None:
    hint = ModelHint(id="acme/secret-sauce", task=ModelUse.INFERENCE)
    (problem,) = admit(asked(hint), NOW_MS)
    assert (problem.code, problem.field) == ("unknown_model", "model")
    assert admit(asked(hint, gpu_memory_bytes=24 * GB, gpu_count=1), NOW_MS) == ()
    assert admit(asked(hint, gpu_models=("Example A100",)), NOW_MS) == ()
    assert "not in the table" in size(asked(hint, gpu_models=("Example A100",))).reasons[0]
