"""This machine as a provider of compute."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from placet.adapters.providers.local.options import Device, LocalOptions
from placet.adapters.providers.local.provider import LocalProvider
from placet.domain.units import GB
from placet.ports.ambient import Clock

__all__ = ["Device", "LocalOptions", "LocalProvider", "local_provider"]


class _Gpus(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def memory_gb(self) -> Decimal: ...
    @property
    def count(self) -> int: ...


class _Section(Protocol):
    @property
    def slots(self) -> int | None: ...
    @property
    def cpu_cores(self) -> Decimal | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def gpus(self) -> Sequence[_Gpus] | None: ...
    @property
    def price_per_hour(self) -> Decimal: ...
    @property
    def sandbox(self) -> str: ...
    @property
    def cgroup(self) -> str: ...
    @property
    def supervisor_idle_seconds(self) -> float: ...
    @property
    def checkpoint_days(self) -> float: ...
    @property
    def collect_seconds(self) -> float: ...
    @property
    def output_limit(self) -> int | None: ...
    @property
    def log_limit(self) -> int: ...


class _Inputs(Protocol):
    @property
    def allowed_private_hosts(self) -> tuple[str, ...]: ...


class _Settings(Protocol):
    @property
    def data_dir(self) -> Path: ...
    @property
    def local_folder(self) -> Path: ...
    @property
    def local(self) -> _Section: ...
    @property
    def inputs(self) -> _Inputs: ...


def local_provider(settings: _Settings, clock: Clock) -> LocalProvider:
    """The provider that the settings of a server describe; nothing is started yet."""
    section = settings.local
    options = LocalOptions(
        folder=settings.local_folder.absolute(),
        slots=section.slots,
        cpu_cores=section.cpu_cores,
        memory_bytes=section.memory,
        devices=None if section.gpus is None else _declared(section.gpus),
        price_usd_per_hour=section.price_per_hour,
        sandbox=section.sandbox,
        hidden=(settings.data_dir.absolute(),),
        use_groups=section.cgroup != "off",
        use_sandbox=section.sandbox != "none",
        supervisor_idle_s=section.supervisor_idle_seconds,
        checkpoint_days=section.checkpoint_days,
        collect_limit_s=section.collect_seconds,
        output_bytes=section.output_limit,
        log_bytes=section.log_limit,
        allowed_hosts=settings.inputs.allowed_private_hosts,
    )
    return LocalProvider(options, clock)


def _declared(gpus: Sequence[_Gpus]) -> tuple[Device, ...]:
    models = [(each.model, int(each.memory_gb * GB)) for each in gpus for _ in range(each.count)]
    return tuple(
        Device(index=index, id=str(index), model=model, memory_bytes=memory_bytes)
        for index, (model, memory_bytes) in enumerate(models)
    )
