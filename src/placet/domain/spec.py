"""What a workload is: the accepted request with every default filled in. It holds no wishes of ours and no state."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from placet.domain.models import ModelHint

SPEC_VERSION = "v1"


class RuntimeKind(StrEnum):
    """Where the user's program comes from."""

    CONTAINER = "container"
    PROCESS = "process"
    PYTHON = "python"


class Accelerator(StrEnum):
    """The kind of device a workload computes on."""

    NONE = "none"
    GPU = "gpu"


class CapacityType(StrEnum):
    """How an offer is sold, which tells how likely it is to be taken back."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SERVERLESS = "serverless"


class Objective(StrEnum):
    """What the choice among fitting offers is for."""

    COST = "cost"
    SPEED = "speed"
    BALANCED = "balanced"
    RELIABILITY = "reliability"


class Repeat(StrEnum):
    """What the user says about running the program again; it limits placement."""

    SAFE = "safe"
    RESUMABLE = "resumable"
    AT_MOST_ONCE = "at_most_once"


class EarlierArtifacts(StrEnum):
    """What a new attempt does to the artifacts of an earlier one."""

    KEEP = "keep"
    REPLACE = "replace"


class InputKind(StrEnum):
    """How an input is found."""

    PATH = "path"
    HTTP = "http"
    TEXT = "text"
    STORAGE = "storage"


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """One of the three runtimes; only the fields of its kind are set."""

    kind: RuntimeKind
    image: str | None = None
    image_bytes: int | None = None
    entrypoint: tuple[str, ...] | None = None
    registry_secret: str | None = None
    command: tuple[str, ...] = ()
    working_directory: str | None = None
    script: str | None = None
    script_text: str | None = None
    arguments: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    python_version: str | None = None


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Strict needs; ``None`` means not stated, which is not zero. With a GPU and a model hint, a ``gpu_count`` of zero
    leaves the number to sizing."""

    accelerator: Accelerator = Accelerator.NONE
    gpu_memory_bytes: int | None = None
    gpu_count: int = 0
    gpu_families: tuple[str, ...] = ()
    gpu_models: tuple[str, ...] = ()
    compute_capability: str | None = None
    gpu_features: tuple[str, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    cpu_cores: Decimal | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None
    nodes: int = 1


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Names that may, must not, or should be used; empty ``allowed`` means any."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """The bounds of the choice: strict ones are never relaxed, preferences are relaxed in a stated order."""

    runtime_s: Decimal | None = None
    cost_usd: Decimal | None = None
    startup_latency_s: Decimal | None = None
    start_within_s: Decimal | None = None
    deadline_ms: int | None = None
    providers: Selection = field(default_factory=Selection)
    regions: Selection = field(default_factory=Selection)
    jurisdictions: tuple[str, ...] = ()
    compliance: tuple[str, ...] = ()
    capacity_types: tuple[CapacityType, ...] = ()
    reserved_first: bool = False


@dataclass(frozen=True, kw_only=True)
class Input:
    """Something the program reads, seen by it at ``/inputs/<name>``. ``size_bytes`` is what was measured
    when the workload was submitted, where the server's machine has it, else what was stated."""

    name: str
    kind: InputKind
    source: str
    sha256: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """Something the program writes: a path, folder or pattern, relative to the work folder or under ``/outputs``."""

    name: str
    path: str
    required: bool = True
    media_type: str | None = None


class WhenUnknown(StrEnum):
    """What is done about an attempt of which nobody can tell whether it runs."""

    WAIT = "wait"
    ASK = "ask"
    MAY_DUPLICATE = "may_duplicate"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how soon to try again; ``by_class`` overrides ``attempts`` for one failure class.

    ``duplicate_usd`` is how much may be spent twice where a second copy is allowed.
    """

    attempts: int = 1
    infrastructure_attempts: int = 3
    by_class: tuple[tuple[str, int], ...] = ()
    backoff_s: Decimal = Decimal(1)
    backoff_max_s: Decimal = Decimal(300)
    when_unknown: WhenUnknown = WhenUnknown.WAIT
    duplicate_usd: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Volume:
    """Persistent storage by name."""

    name: str
    path: str
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ArrayItem:
    """One element of an array: its inputs and its environment."""

    inputs: tuple[Input, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The whole request. Mappings are sorted tuples of pairs: the value is hashable and has one canonical form.

    ``provider_options`` are names of providers and what is meant for each alone, as the one JSON text of it.
    """

    version: str = SPEC_VERSION
    name: str | None = None
    runtime: Runtime
    resources: Resources = field(default_factory=Resources)
    constraints: Constraints = field(default_factory=Constraints)
    model: ModelHint | None = None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    objective: Objective = Objective.COST
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    repeat: Repeat = Repeat.SAFE
    earlier_artifacts: EarlierArtifacts = EarlierArtifacts.REPLACE
    checkpoints: str | None = None
    volumes: tuple[Volume, ...] = ()
    array: tuple[ArrayItem, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    log_bytes: int | None = None
    stop_grace_s: Decimal = Decimal(10)
    provider_options: tuple[tuple[str, str], ...] = ()
