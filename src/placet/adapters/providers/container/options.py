"""What the container provider is told; plain values, no reading of files or environment."""

from dataclasses import dataclass, field
from decimal import Decimal

from placet.adapters.providers.container.api import Address
from placet.domain.units import GB, MB


@dataclass(frozen=True, kw_only=True)
class DeclaredGpu:
    """One GPU of the engine's machine; ``id`` is the word by which the engine is asked for it."""

    id: str
    model: str
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """``None`` means: find out. One value is one engine, and one provider."""

    address: Address
    name: str = "container"
    region: str | None = None
    slots: int | None = None
    cpu_cores: Decimal | None = None
    memory_bytes: int | None = None
    gpus: tuple[DeclaredGpu, ...] = ()
    price_usd_per_hour: Decimal = Decimal(0)
    network: str = ""
    read_only_root: bool = False
    allow_root: bool = False
    tmp_bytes: int = GB
    processes: int = 4096
    disk_quota: bool = False
    log_bytes: int = 64 * MB
    output_bytes: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    checkpoint_days: float = 30.0
    pull_silence_s: float = 120.0
    collect_limit_s: float = 3600.0
    call_limit_s: float = 30.0
    runtimes: tuple[str, ...] = field(default=("container",))
