"""The spec document as pydantic models: names, types, bounds, defaults and words of every field. It reads no text.

Both naming styles are accepted at every level. ``null`` means "not stated". A field's binding says what it does to the
choice: *strict* ones are never relaxed, *preferences* are relaxed and the relaxation is reported, *behaviour* says how
the program is run, *information* is kept and shown.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, model_validator

from placet.contract import checks, fields, limits
from placet.contract.found import refuse_all
from placet.contract.model import ModelHint
from placet.contract.part import BEHAVIOUR, INFORMATION, PREFERENCE, STRICT, Part
from placet.contract.simulated import ProviderOptions
from placet.domain.failures import FailureClass
from placet.domain.spec import Accelerator, CapacityType, EarlierArtifacts, Objective, Repeat, WhenUnknown

GpuFeature = Literal[
    "bf16",
    "ecc",
    "fp16",
    "fp4",
    "fp64",
    "fp8",
    "infiniband",
    "int4",
    "int8",
    "mig",
    "nvlink",
    "nvswitch",
    "rt_cores",
    "tensor_cores",
    "tf32",
]


class ContainerRuntime(Part):
    """An image; its ENTRYPOINT and CMD are honoured."""

    type: Literal["container"] = Field(description="Run an image.", json_schema_extra=BEHAVIOUR)
    image: fields.Image = Field(description="The image, by tag or digest.", json_schema_extra=STRICT)
    image_size_gb: fields.Disk | None = Field(
        default=None,
        description="How large the image is when unpacked; else an allowance counts.",
        json_schema_extra=BEHAVIOUR,
    )
    entrypoint: tuple[fields.Text, ...] | None = Field(
        default=None, max_length=1000, description="Replaces the image's ENTRYPOINT.", json_schema_extra=BEHAVIOUR
    )
    command: tuple[fields.Text, ...] = Field(
        default=(), max_length=1000, description="Replaces the image's CMD.", json_schema_extra=BEHAVIOUR
    )
    working_directory: fields.AnyPath | None = Field(
        default=None, description="Where the program starts; else the image's own.", json_schema_extra=BEHAVIOUR
    )
    registry_secret: fields.Name | None = Field(
        default=None, description="The name of the secret that opens the registry.", json_schema_extra=BEHAVIOUR
    )


class ProcessRuntime(Part):
    """A command on the machine that is chosen."""

    type: Literal["process"] = Field(description="Run a command on the machine itself.", json_schema_extra=BEHAVIOUR)
    command: tuple[fields.Text, ...] = Field(
        min_length=1,
        max_length=1000,
        description="The program and its arguments; no shell reads it.",
        json_schema_extra=BEHAVIOUR,
    )
    working_directory: fields.AnyPath | None = Field(
        default=None, description="Where the program starts; else its work folder.", json_schema_extra=BEHAVIOUR
    )

    @model_validator(mode="after")
    def consistent(self) -> "ProcessRuntime":
        refuse_all(checks.process(self.command))
        return self


class PythonRuntime(Part):
    """A script with pinned requirements, installed once and cached."""

    type: Literal["python"] = Field(description="Run a Python script.", json_schema_extra=BEHAVIOUR)
    script: fields.AnyPath | None = Field(
        default=None, description="Path of the script; this or `script_text`.", json_schema_extra=BEHAVIOUR
    )
    script_text: fields.Text | None = Field(
        default=None, description="The script itself; this or `script`.", json_schema_extra=BEHAVIOUR
    )
    arguments: tuple[fields.Text, ...] = Field(
        default=(), max_length=1000, description="What the script finds in `sys.argv[1:]`.", json_schema_extra=BEHAVIOUR
    )
    requirements: tuple[fields.Requirement, ...] = Field(
        default=(),
        max_length=1000,
        description="What to install, each pinned: `name==version`, hashes may follow.",
        json_schema_extra=BEHAVIOUR,
    )
    python_version: fields.PythonVersion | None = Field(
        default=None,
        description="Which Python, 3.8 or newer; else the one that Placet runs on.",
        json_schema_extra=STRICT,
    )
    working_directory: fields.AnyPath | None = Field(
        default=None, description="Where the script starts; else its work folder.", json_schema_extra=BEHAVIOUR
    )

    @model_validator(mode="after")
    def consistent(self) -> "PythonRuntime":
        refuse_all(
            checks.exactly_one("script", self.script, "script_text", self.script_text, example="script: work.py")
        )
        return self


Runtime = Annotated[ContainerRuntime | ProcessRuntime | PythonRuntime, Field(discriminator="type")]


class Resources(Part):
    """What one node must have. All strict: an offer that has less is not chosen. Not stated is not zero."""

    accelerator: Accelerator | None = Field(
        default=None, description="`gpu` or `none`; any GPU field implies `gpu`.", json_schema_extra=STRICT
    )
    minimum_gpu_memory_gb: fields.Memory | None = Field(
        default=None, description="Memory of each GPU, at least.", json_schema_extra=STRICT
    )
    gpu_count: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        le=1024,
        description="GPUs per node; 1 when a GPU is implied.",
        json_schema_extra=STRICT,
    )
    gpu_families: tuple[fields.Word, ...] = Field(
        default=(),
        max_length=100,
        description="Any of these architectures, for example `ampere`.",
        json_schema_extra=STRICT,
    )
    gpu_models: tuple[fields.Word, ...] = Field(
        default=(), max_length=100, description="Any of exactly these models.", json_schema_extra=STRICT
    )
    minimum_compute_capability: fields.ComputeCapability | None = Field(
        default=None, description="At least this CUDA compute capability.", json_schema_extra=STRICT
    )
    gpu_features: tuple[GpuFeature, ...] = Field(
        default=(), max_length=100, description="All of these features.", json_schema_extra=STRICT
    )
    minimum_driver_version: fields.Version | None = Field(
        default=None, description="At least this GPU driver.", json_schema_extra=STRICT
    )
    minimum_cuda_version: fields.Version | None = Field(
        default=None, description="At least this CUDA version.", json_schema_extra=STRICT
    )
    cpu_cores: fields.Cores | None = Field(default=None, description="CPU cores, at least.", json_schema_extra=STRICT)
    system_memory_gb: fields.MainMemory | None = Field(
        default=None, description="Main memory, at least; also the limit.", json_schema_extra=STRICT
    )
    disk_gb: fields.Disk | None = Field(
        default=None, description="Room for the work folder, at least; also the limit.", json_schema_extra=STRICT
    )
    processes: int | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=1_000_000,
        description="How many processes and threads may live at once.",
        json_schema_extra=STRICT,
    )
    nodes: int = Field(default=1, strict=True, ge=1, le=10_000, description="Machines.", json_schema_extra=STRICT)

    @model_validator(mode="after")
    def consistent(self) -> "Resources":
        refuse_all(checks.gpu(self.accelerator, self.gpu_count, self.gpu_fields()))
        return self

    def gpu_fields(self) -> dict[str, object]:
        """The fields that make sense only with a GPU, as far as they are stated."""
        stated = {
            "minimum_gpu_memory_gb": self.minimum_gpu_memory_gb,
            "gpu_families": self.gpu_families,
            "gpu_models": self.gpu_models,
            "minimum_compute_capability": self.minimum_compute_capability,
            "gpu_features": self.gpu_features,
            "minimum_driver_version": self.minimum_driver_version,
            "minimum_cuda_version": self.minimum_cuda_version,
        }
        return {name: value for name, value in stated.items() if value}


class Selection(Part):
    """Names that may, must not, or should be used."""

    allowed: tuple[fields.Word, ...] = Field(
        default=(), max_length=1000, description="Only these; empty means any.", json_schema_extra=STRICT
    )
    denied: tuple[fields.Word, ...] = Field(
        default=(), max_length=1000, description="Never these.", json_schema_extra=STRICT
    )
    preferred: tuple[fields.Word, ...] = Field(
        default=(), max_length=1000, description="These first, in this order.", json_schema_extra=PREFERENCE
    )

    @model_validator(mode="after")
    def consistent(self) -> "Selection":
        refuse_all(checks.selection(self.allowed, self.denied, self.preferred))
        return self


class Constraints(Part):
    """The bounds of the choice."""

    maximum_runtime_seconds: fields.Duration | None = Field(
        default=None, description="One attempt is stopped after this long.", json_schema_extra=STRICT
    )
    maximum_estimated_cost: fields.Money | None = Field(
        default=None, description="No offer that is expected to cost more is chosen.", json_schema_extra=STRICT
    )
    preferred_startup_latency_seconds: fields.Duration | None = Field(
        default=None, description="Offers that start within this come first.", json_schema_extra=PREFERENCE
    )
    start_within_seconds: fields.Duration | None = Field(
        default=None,
        description="The program must have started by then, or the workload expires.",
        json_schema_extra=STRICT,
    )
    deadline: fields.Instant | None = Field(
        default=None, description="The workload must have ended by then.", json_schema_extra=STRICT
    )
    providers: Selection = Field(default=Selection(), description="Which providers.")
    regions: Selection = Field(default=Selection(), description="Which regions.")
    jurisdictions: tuple[fields.Jurisdiction, ...] = Field(
        default=(), max_length=100, description="Only in one of these.", json_schema_extra=STRICT
    )
    compliance: tuple[fields.ComplianceTag, ...] = Field(
        default=(), max_length=100, description="Only offers that declare all of these.", json_schema_extra=STRICT
    )
    capacity_types: tuple[CapacityType, ...] = Field(
        default=(), max_length=10, description="Only these kinds; empty means any.", json_schema_extra=STRICT
    )
    reserved_first: fields.Flag = Field(
        default=False, description="Use reserved capacity before any other.", json_schema_extra=PREFERENCE
    )

    @model_validator(mode="after")
    def consistent(self) -> "Constraints":
        refuse_all(
            checks.latency(self.preferred_startup_latency_seconds, self.start_within_seconds),
            checks.reserved(self.reserved_first, self.capacity_types),
        )
        return self


class Input(Part):
    """Something the program reads at `/inputs/<name>`."""

    name: fields.Name = Field(description="Its name below the inputs folder.", json_schema_extra=BEHAVIOUR)
    source: fields.Text | None = Field(
        default=None,
        description="A path, or a URL: file, http, https, storage; this or `text`.",
        json_schema_extra=STRICT,
    )
    text: fields.Text | None = Field(
        default=None, description="The content itself; this or `source`.", json_schema_extra=STRICT
    )
    sha256: fields.Digest | None = Field(
        default=None, description="Refused when the content has another digest.", json_schema_extra=STRICT
    )
    size_gb: fields.Size | None = Field(
        default=None,
        description="How large it is; measured where the machine of the server has it.",
        json_schema_extra=BEHAVIOUR,
    )

    @model_validator(mode="after")
    def consistent(self) -> "Input":
        refuse_all(
            checks.exactly_one("source", self.source, "text", self.text, example="source: ./data"),
            checks.source(self.source),
            checks.size(self.text, self.size_gb),
        )
        return self


class Output(Part):
    """Something the program writes and the workload hands back."""

    name: fields.Name = Field(description="Its name in the result.", json_schema_extra=BEHAVIOUR)
    path: fields.OutputPath = Field(
        description="A file, a folder or a pattern, below `/outputs` or relative to the work folder.",
        json_schema_extra=STRICT,
    )
    required: fields.Flag = Field(
        default=True, description="Without it the workload has not succeeded.", json_schema_extra=STRICT
    )
    media_type: fields.MediaType | None = Field(default=None, description="Its type.", json_schema_extra=INFORMATION)


class Retry(Part):
    """How often and how soon to try again."""

    attempts: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=100,
        description="Tries in all when the program itself fails.",
        json_schema_extra=BEHAVIOUR,
    )
    infrastructure_attempts: int = Field(
        default=3,
        strict=True,
        ge=1,
        le=100,
        description="Tries in all when something around it fails.",
        json_schema_extra=BEHAVIOUR,
    )
    by_class: dict[FailureClass, Annotated[int, Field(strict=True, ge=1, le=100)]] = Field(
        default_factory=dict, description="Tries in all for one class of failure.", json_schema_extra=BEHAVIOUR
    )
    backoff_seconds: fields.DurationOrZero = Field(
        default=Decimal(1),
        description="Pause before the second try; doubles each time.",
        json_schema_extra=BEHAVIOUR,
    )
    backoff_maximum_seconds: fields.DurationOrZero = Field(
        default=Decimal(300), description="No pause is longer.", json_schema_extra=BEHAVIOUR
    )
    when_unknown: WhenUnknown = Field(
        default=WhenUnknown.WAIT,
        description="While nobody can tell whether an attempt runs: `wait`; `ask` for `placet resolve`; or go on and "
        "accept that it `may_duplicate`.",
        json_schema_extra=BEHAVIOUR,
    )
    duplicate_cost: fields.Money | None = Field(
        default=None,
        description="With `may_duplicate`: the most that the attempt given up may cost.",
        json_schema_extra=STRICT,
    )

    @model_validator(mode="after")
    def consistent(self) -> "Retry":
        refuse_all(checks.backoff(self.backoff_seconds, self.backoff_maximum_seconds))
        return self


# Shared, because a default that holds a mapping would be copied for every document.
RETRY = Retry()


class Volume(Part):
    """Persistent storage by name."""

    name: fields.Name = Field(description="Its name.", json_schema_extra=STRICT)
    path: fields.AbsolutePath = Field(description="Where the program finds it.", json_schema_extra=BEHAVIOUR)
    size_gb: fields.VolumeSize | None = Field(
        default=None, description="At least this large.", json_schema_extra=STRICT
    )


Environment = Annotated[dict[fields.VariableName, fields.Text], Field(max_length=limits.KEYS_PER_MAP_MAX)]


class ArrayItem(Part):
    """One element of an array: what differs from the rest of the spec."""

    inputs: tuple[Input, ...] = Field(default=(), max_length=limits.INPUTS_MAX, description="Its inputs.")
    environment: Environment = Field(default_factory=dict, description="Its variables.", json_schema_extra=BEHAVIOUR)

    @model_validator(mode="after")
    def consistent(self) -> "ArrayItem":
        refuse_all(checks.names("inputs", [held.name for held in self.inputs]), checks.variables(self.environment, {}))
        return self


class SpecDocument(Part):
    """What must run and within which bounds; Placet decides where."""

    version: Literal["v1"] = Field(default="v1", description="Version of this format.", json_schema_extra=INFORMATION)
    name: fields.Name | None = Field(default=None, description="For people and lists.", json_schema_extra=INFORMATION)
    runtime: Runtime = Field(description="Where the program comes from.")
    resources: Resources = Field(default=Resources(), description="What it needs.")
    constraints: Constraints = Field(default=Constraints(), description="The bounds of the choice.")
    model: ModelHint | None = Field(default=None, description="What is known of the model, for sizing.")
    inputs: tuple[Input, ...] = Field(default=(), max_length=limits.INPUTS_MAX, description="What the program reads.")
    outputs: tuple[Output, ...] = Field(default=(), max_length=limits.INPUTS_MAX, description="What it hands back.")
    environment: Environment = Field(
        default_factory=dict,
        description="Variables of the program; there are no others but PLACET_*.",
        json_schema_extra=BEHAVIOUR,
    )
    secrets: dict[fields.VariableName, fields.Name] = Field(
        default_factory=dict,
        max_length=100,
        description="Variables that hold secrets: variable and name of the secret.",
        json_schema_extra=BEHAVIOUR,
    )
    objective: Objective = Field(
        default=Objective.COST, description="What the choice among fitting offers is for.", json_schema_extra=PREFERENCE
    )
    retry: Retry = Field(default_factory=lambda: RETRY, description="How often and how soon to try again.")
    repeat: Repeat = Field(
        default=Repeat.SAFE,
        description="What running the program twice would do; it limits placement.",
        json_schema_extra=STRICT,
    )
    earlier_artifacts: EarlierArtifacts = Field(
        default=EarlierArtifacts.REPLACE,
        description="What a new attempt does to the outputs of an earlier one.",
        json_schema_extra=BEHAVIOUR,
    )
    checkpoints: fields.CheckpointPath | None = Field(
        default=None, description="A folder that is kept from attempt to attempt.", json_schema_extra=BEHAVIOUR
    )
    volumes: tuple[Volume, ...] = Field(default=(), max_length=100, description="Persistent storage.")
    array: tuple[ArrayItem, ...] = Field(
        default=(), max_length=limits.ARRAY_MAX, description="One spec, many inputs: one element each."
    )
    labels: dict[fields.LabelKey, fields.LabelText] = Field(
        default_factory=dict,
        max_length=limits.LABELS_MAX,
        description="To find workloads by.",
        json_schema_extra=INFORMATION,
    )
    metadata: dict[fields.LabelKey, fields.MetadataText] = Field(
        default_factory=dict,
        max_length=limits.LABELS_MAX,
        json_schema_extra=INFORMATION,
        description="Kept and shown. `client_request_id` makes a repeated request the same workload.",
    )
    log_limit: fields.Sized | None = Field(
        default=None, description="Bytes of log that are kept per stream.", json_schema_extra=BEHAVIOUR
    )
    stop_grace_seconds: fields.DurationOrZero = Field(
        default=Decimal(10),
        description="Between the polite and the final signal.",
        json_schema_extra=BEHAVIOUR,
    )

    provider_options: ProviderOptions = Field(
        default=ProviderOptions(), description="What is meant for one provider alone."
    )

    @model_validator(mode="after")
    def consistent(self) -> "SpecDocument":
        refuse_all(
            checks.names("inputs", [held.name for held in self.inputs]),
            checks.names("outputs", [held.name for held in self.outputs]),
            checks.names("volumes", [held.name for held in self.volumes]),
            checks.places("outputs", [held.path for held in self.outputs]),
            checks.places("volumes", [held.path for held in self.volumes]),
            checks.variables(self.environment, self.secrets),
            checks.once(self.repeat, self.retry.attempts, self.retry.by_class, self.constraints.capacity_types),
            checks.duplicates(self.retry.when_unknown, self.retry.duplicate_cost),
            checks.doubled(self.repeat, self.retry.when_unknown, self.constraints.maximum_runtime_seconds),
            checks.request_id(self.metadata),
            checks.grace(self.stop_grace_seconds),
            checks.options(self.provider_options.stated(), self.constraints.providers.allowed),
        )
        return self
