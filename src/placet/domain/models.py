"""What is known of a model: what the user hints at, and the facts of its architecture. No sizes are derived here."""

from dataclasses import dataclass
from enum import StrEnum


class ModelUse(StrEnum):
    """What is done with a model."""

    INFERENCE = "inference"
    EMBEDDING = "embedding"
    DIFFUSION = "diffusion"
    LORA = "lora"
    QLORA = "qlora"
    FULL_FINE_TUNE = "full_fine_tune"


class Precision(StrEnum):
    """How weights are stored; ``INT4`` is AWQ or GPTQ, ``NF4`` the normal float of QLoRA."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    NF4 = "nf4"


class Optimizer(StrEnum):
    """Who updates the weights. ``ADAMW`` keeps its state in the precision of what it trains; ``ADAMW_FP32`` is mixed
    precision with master weights, gradients and state in 32 bits; ``PAGED_*`` keep their state in main memory."""

    ADAMW = "adamw"
    ADAMW_FP32 = "adamw_fp32"
    ADAMW_8BIT = "adamw_8bit"
    PAGED_ADAMW = "paged_adamw"
    PAGED_ADAMW_8BIT = "paged_adamw_8bit"
    ADAFACTOR = "adafactor"
    SGD = "sgd"


class ModelKind(StrEnum):
    """How a model is built, as far as it decides what is kept in memory."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder_decoder"
    DIFFUSION = "diffusion"


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The shape of a model. ``source`` says where it is from; a ``guessed`` one follows from the size alone.

    ``expert_width`` and ``experts`` describe a mixture of experts; ``kv_latent`` is the width per token and layer of a
    compressed cache (multi-head latent attention); ``windowed_percent`` of the layers see only ``window`` tokens.
    ``companions`` are parameters beside the main network: text encoders and the image decoder of a diffusion model.
    """

    name: str
    kind: ModelKind = ModelKind.DECODER
    parameters: int
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_size: int = 0
    intermediate: int = 0
    vocabulary: int = 0
    tied: bool = False
    gated: bool = True
    experts: int = 0
    experts_active: int = 0
    expert_width: int = 0
    kv_latent: int = 0
    window: int = 0
    windowed_percent: int = 0
    context_tokens: int = 0
    companions: int = 0
    image_side: int = 0
    fp8_only_mlp: bool = False
    source: str = ""
    guessed: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelHint:
    """What the user says of the model, for sizing; ``None`` means not stated, and what is assumed then is told.

    ``folder`` is a local folder or file that describes the model; ``architecture`` holds what was read there.
    """

    id: str | None = None
    parameters: int | None = None
    task: ModelUse | None = None
    precision: Precision | None = None
    context_tokens: int | None = None
    batch_size: int | None = None
    sequence_tokens: int | None = None
    concurrent_sequences: int | None = None
    kv_precision: Precision | None = None
    optimizer: Optimizer | None = None
    optimizer_in_backward: bool = False
    gradient_checkpointing: bool | None = None
    lora_rank: int | None = None
    cpu_offload: bool = False
    image_width: int | None = None
    image_height: int | None = None
    folder: str | None = None
    architecture: Architecture | None = None
