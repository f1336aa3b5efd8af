"""What the local provider is told; plain values, no reading of files or environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU of this machine; ``id`` is what makes it visible to a program."""

    index: int
    model: str
    memory_bytes: int
    id: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    compute_capability: str | None = None


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """``None`` means: find out. ``folder`` holds the supervisor and its attempts and is shared by servers that share
    a store. ``hidden`` folders are not seen from inside the sandbox. ``build_env`` is added to the environment in which
    environments are built.
    """

    folder: Path
    name: str = "local"
    region: str | None = None
    slots: int | None = None
    cpu_cores: Decimal | None = None
    memory_bytes: int | None = None
    devices: tuple[Device, ...] | None = None
    price_usd_per_hour: Decimal = Decimal(0)
    sandbox: str = "auto"
    hidden: tuple[Path, ...] = ()
    use_groups: bool = True
    use_sandbox: bool = True
    supervisor_idle_s: float = 600.0
    checkpoint_days: float = 30.0
    collect_limit_s: float = 3600.0
    output_bytes: int | None = None
    log_bytes: int = 64 * 1024 * 1024
    allowed_hosts: tuple[str, ...] = ()
    path: str | None = None
    python: str | None = None
    uv: str | None = None
    build_env: Mapping[str, str] = field(default_factory=dict)
    call_limit_s: float = 10.0
