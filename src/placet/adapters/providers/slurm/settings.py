"""The settings of the Slurm provider, as they stand in ``[providers.slurm]``."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from placet.domain.units import PB, parse_bytes

# A name of the cluster's becomes a word of a command.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@%+-]{0,127}$")]
Optional = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.:@%+-]{0,127})?$")]
Seconds = Annotated[float, Field(ge=0.01, le=86_400)]
Bytes = Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=str | int), Field(ge=0, le=PB)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PartitionSettings(_Section):
    """One partition to offer."""

    name: Name = Field(description="Its name.")
    qos: Optional = Field("", description="Quality of service to ask for there.")
    account: Optional = Field("", description="Account to charge there.")
    reservation: Optional = Field("", description="Reservation to use there.")
    price_per_hour: Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)] = Field(
        Decimal(0), description="US dollars per hour that an attempt there counts as."
    )


class GpuTypeSettings(_Section):
    """What a type of GPU is that the cluster names in its own way."""

    type: Name = Field(description="The type in `gres`, such as `a100` of `gpu:a100:4`.")
    model: str = Field(min_length=1, max_length=80, description="Name of the model, such as `A100-80GB`.")
    memory_gb: Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9)] = Field(
        description="Memory of one device in GB (10^9 bytes)."
    )


class SlurmSettings(_Section):
    """A Slurm cluster, reached by its commands and a folder that its nodes share."""

    enabled: bool = Field(False, description="Have it.")
    shared: Path | None = Field(
        None,
        description="Folder for attempts, their logs and outputs; the nodes see it under this very path. It belongs to "
        "the user under whom the commands run, and to this deployment alone.",
    )
    ssh: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.@:-]{0,254})?$")] = Field(
        "",
        description="Host on which the commands run, as `ssh` knows it (`user@host` or a name of its configuration), "
        "with a key that asks for no passphrase; default: this machine.",
    )
    region: str = Field("", max_length=63, description="Where it stands; default: the name that the cluster has.")
    jurisdiction: str = Field("", max_length=63, description="Whose law holds there, such as `EU`.")
    partitions: tuple[PartitionSettings, ...] = Field(
        (), max_length=64, description="Partitions to offer; default: all that are visible."
    )
    gpus: tuple[GpuTypeSettings, ...] = Field(
        (), max_length=64, description="Types of GPU that are not known by their name, or have another memory."
    )
    path: str = Field(
        "",
        max_length=4096,
        description="Where the commands are looked for; default: as for the server, or on the host of `ssh`.",
    )
    conf: Path | None = Field(
        None, description="`SLURM_CONF` of the commands; default: that of the server, if any and without `ssh`."
    )
    visible: tuple[Path, ...] = Field(
        (),
        max_length=64,
        description="Folders that the nodes see under the same path. An input that lies elsewhere is copied.",
    )
    prologue: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Lines of shell that run on the node first, such as `module load python`, or "
        "`export UV_DEFAULT_INDEX=...` where packages come from an index of your own.",
    )
    python: str = Field("", max_length=4096, description="Python 3.8 or newer of the nodes; default: it is looked for.")
    uv: str = Field("", max_length=4096, description="`uv` of the nodes, for the runtime `python` with requirements.")
    default_runtime_seconds: float | None = Field(
        None, gt=0, le=10**8, description="Time limit of a workload that states none; default: that of the partition."
    )
    margin_seconds: Seconds = Field(
        300.0, description="Added to a workload's time limit, for what comes before and after its program."
    )
    permit_seconds: Seconds = Field(900.0, description="How long a node waits for the permit before it gives up.")
    poll_seconds: Seconds = Field(10.0, description="Pause between two looks at the queue.")
    settle_seconds: Seconds = Field(
        15.0, description="How much later than the end of a job its last file may be seen here; longer for slow NFS."
    )
    heartbeat_seconds: Seconds = Field(10.0, description="Pause between two signs of life of a running attempt.")
    output_limit: Bytes | None = Field(
        None, ge=1, description="Most bytes that the outputs of one attempt may measure together, such as `50GB`."
    )
    log_limit: Bytes = Field(10**9, description="Bytes kept of each log stream of an attempt, such as `1GB`.")

    @model_validator(mode="after")
    def _has_a_folder(self) -> "SlurmSettings":
        if self.enabled and (self.shared is None or not self.shared.is_absolute()):
            raise ValueError("shared must be set to the absolute path of a folder that the nodes of the cluster see")
        return self
