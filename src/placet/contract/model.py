"""The part of the spec document that describes a model. What follows from it is derived elsewhere."""

from typing import Annotated

from pydantic import Field

from placet.contract import fields
from placet.contract.part import INFORMATION, STRICT, Part
from placet.domain.models import ModelKind, ModelUse, Optimizer, Precision

Tokens = Annotated[int, Field(strict=True, ge=1, le=100_000_000)]
Items = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Pixels = Annotated[int, Field(strict=True, ge=8, le=65_536)]
Count = Annotated[int, Field(strict=True, ge=0, le=100_000_000)]


class Architecture(Part):
    """The shape of a model that is not in the table of known ones; `placet size` prints it for a local folder."""

    name: fields.Word = Field(default="model", description="For people.", json_schema_extra=INFORMATION)
    kind: ModelKind = Field(default=ModelKind.DECODER, description="How it is built.", json_schema_extra=STRICT)
    parameters: fields.ParameterCount = Field(description="How many.", json_schema_extra=STRICT)
    layers: Count = Field(default=0, description="Blocks.", json_schema_extra=STRICT)
    hidden: Count = Field(default=0, description="Width between blocks.", json_schema_extra=STRICT)
    heads: Count = Field(default=0, description="Query heads.", json_schema_extra=STRICT)
    kv_heads: Count = Field(default=0, description="Key and value heads.", json_schema_extra=STRICT)
    head_size: Count = Field(default=0, description="Width of a head.", json_schema_extra=STRICT)
    intermediate: Count = Field(default=0, description="Width inside the MLP.", json_schema_extra=STRICT)
    vocabulary: Count = Field(default=0, description="Tokens it knows.", json_schema_extra=STRICT)
    tied: fields.Flag = Field(default=False, description="Embedding and head are one.", json_schema_extra=STRICT)
    gated: fields.Flag = Field(default=True, description="The MLP has a gate.", json_schema_extra=STRICT)
    experts: Count = Field(default=0, description="Experts per block.", json_schema_extra=STRICT)
    experts_active: Count = Field(default=0, description="Experts that one token meets.", json_schema_extra=STRICT)
    expert_width: Count = Field(default=0, description="Width inside an expert.", json_schema_extra=STRICT)
    kv_latent: Count = Field(default=0, description="Width of a compressed cache.", json_schema_extra=STRICT)
    window: Count = Field(default=0, description="Tokens that windowed blocks see.", json_schema_extra=STRICT)
    windowed_percent: int = Field(
        default=0, strict=True, ge=0, le=100, description="How many blocks are windowed.", json_schema_extra=STRICT
    )
    context_tokens: Count = Field(default=0, description="Longest context.", json_schema_extra=STRICT)
    companions: Count = Field(default=0, description="Parameters of encoders beside it.", json_schema_extra=STRICT)
    image_side: Count = Field(default=0, description="Usual side of an image, in pixels.", json_schema_extra=STRICT)
    fp8_only_mlp: fields.Flag = Field(default=False, description="In fp8, only the MLP is.", json_schema_extra=STRICT)
    source: fields.LabelText = Field(
        default="as stated", description="Where it is from.", json_schema_extra=INFORMATION
    )
    guessed: fields.Flag = Field(default=False, description="Only its size is known.", json_schema_extra=STRICT)


class ModelHint(Part):
    """What is known of the model. With a GPU and no stated GPU memory, the need of memory follows from it."""

    id: fields.ModelId | None = Field(default=None, description="Name of the model.", json_schema_extra=STRICT)
    parameters: fields.ParameterCount | None = Field(
        default=None, description="How many parameters; else by the name.", json_schema_extra=STRICT
    )
    task: ModelUse | None = Field(
        default=None, description="What is done with it; implies a GPU.", json_schema_extra=STRICT
    )
    precision: Precision | None = Field(default=None, description="Of the stored weights.", json_schema_extra=STRICT)
    context_tokens: Tokens | None = Field(
        default=None, description="Longest context served, or length of a training sequence.", json_schema_extra=STRICT
    )
    batch_size: Items | None = Field(default=None, description="Items at once on each GPU.", json_schema_extra=STRICT)
    sequence_tokens: Tokens | None = Field(
        default=None, description="Length of a training sequence.", json_schema_extra=STRICT
    )
    concurrent_sequences: Items | None = Field(
        default=None, description="Sequences served at once.", json_schema_extra=STRICT
    )
    kv_precision: Precision | None = Field(
        default=None, description="Of the cache of keys and values.", json_schema_extra=STRICT
    )
    optimizer: Optimizer | None = Field(
        default=None, description="Who updates the weights in a full fine-tune.", json_schema_extra=STRICT
    )
    optimizer_in_backward: fields.Flag = Field(
        default=False, description="Each gradient is used and freed at once.", json_schema_extra=STRICT
    )
    gradient_checkpointing: fields.Flag | None = Field(
        default=None, description="Activations are computed again instead of kept.", json_schema_extra=STRICT
    )
    lora_rank: int | None = Field(
        default=None, strict=True, ge=1, le=4096, description="Rank of the adapters.", json_schema_extra=STRICT
    )
    cpu_offload: fields.Flag = Field(
        default=False, description="Weights and optimizer state stay in main memory.", json_schema_extra=STRICT
    )
    image_width: Pixels | None = Field(default=None, description="Of an image made.", json_schema_extra=STRICT)
    image_height: Pixels | None = Field(default=None, description="Of an image made.", json_schema_extra=STRICT)
    folder: fields.AnyPath | None = Field(
        default=None,
        description="A local folder with `config.json` or safetensors files, read when the workload is submitted.",
        json_schema_extra=STRICT,
    )
    architecture: Architecture | None = Field(default=None, description="The shape, when it is known.")
