"""What the Slurm provider is told; plain values, no reading of files or environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class GpuKind:
    """What a type of ``gres`` is; the cluster knows only its word."""

    type: str
    model: str
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One way into the cluster. An empty field of these is left to the cluster's own default."""

    name: str
    qos: str = ""
    account: str = ""
    reservation: str = ""
    price_usd_per_hour: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """``shared`` is a folder that the nodes see under the same path. ``partitions``: none means all that are visible.

    ``environment`` is that of the commands. ``kill_wait_s``: how long the cluster waits between TERM and KILL, ``None``
    is found out. ``margin_s`` is added to the run time that a spec allows, for what comes before and after the program.
    ``look_s`` is the pause between two looks of the runner, ``watch_s`` of ours, at what the other wrote. ``settle_s``:
    how much later than the cluster's word the runner's last one may be seen on the shared file system. ``visible``
    are folders that the nodes see under the same path; what an input names below one of them is not copied.
    """

    shared: Path
    name: str = "slurm"
    region: str = ""
    jurisdiction: str = ""
    partitions: tuple[Partition, ...] = ()
    gpus: tuple[GpuKind, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    visible: tuple[Path, ...] = ()
    prologue: tuple[str, ...] = ()
    python: str = ""
    uv: str = ""
    default_runtime_s: float | None = None
    margin_s: float = 300.0
    kill_wait_s: float | None = None
    permit_within_s: float = 900.0
    poll_s: float = 10.0
    fresh_s: float = 1.0
    heartbeat_s: float = 10.0
    look_s: float = 0.5
    watch_s: float = 0.5
    settle_s: float = 15.0
    visibility_s: float = 60.0
    call_limit_s: float = 30.0
    submit_limit_s: float = 60.0
    remembered_days: int = 7
    log_bytes: int = 10**9
    output_bytes: int | None = None
    collect_limit_s: float = 3600.0
    allowed_hosts: tuple[str, ...] = ()
    accounting: bool | None = None
