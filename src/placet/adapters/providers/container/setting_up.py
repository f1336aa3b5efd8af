"""Which engine is meant by the settings of a server, and the provider for it."""

import os
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal, Protocol

from placet.adapters.providers.container.api import Address
from placet.adapters.providers.container.options import ContainerOptions, DeclaredGpu
from placet.adapters.providers.container.provider import ContainerProvider
from placet.domain.units import GB
from placet.ports.ambient import Clock

ANSWERS_WITHIN_S = 1.0


class _Gpu(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def memory_gb(self) -> Decimal: ...


class Section(Protocol):
    """What the settings say of one engine."""

    @property
    def enabled(self) -> Literal["auto"] | bool: ...
    @property
    def host(self) -> str: ...
    @property
    def tls_ca(self) -> Path | None: ...
    @property
    def tls_certificate(self) -> Path | None: ...
    @property
    def tls_key(self) -> Path | None: ...
    @property
    def region(self) -> str: ...
    @property
    def slots(self) -> int | None: ...
    @property
    def cpu_cores(self) -> Decimal | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def gpus(self) -> Sequence[_Gpu]: ...
    @property
    def price_per_hour(self) -> Decimal: ...
    @property
    def network(self) -> str: ...
    @property
    def read_only_root(self) -> bool: ...
    @property
    def allow_root(self) -> bool: ...
    @property
    def tmp(self) -> int: ...
    @property
    def processes(self) -> int: ...
    @property
    def disk_quota(self) -> bool: ...
    @property
    def log_limit(self) -> int: ...
    @property
    def output_limit(self) -> int | None: ...
    @property
    def collect_seconds(self) -> float: ...
    @property
    def pull_silence_seconds(self) -> float: ...
    @property
    def checkpoint_days(self) -> float: ...
    @property
    def call_seconds(self) -> float: ...


def engine_at(section: Section, environment: Mapping[str, str]) -> Address | None:
    """The engine that is meant; ``None`` where none is, or none is wanted."""
    if section.enabled is False:
        return None
    if section.host:
        return Address(
            host=section.host,
            ca_file=_text(section.tls_ca),
            certificate_file=_text(section.tls_certificate),
            key_file=_text(section.tls_key),
        )
    stated = environment.get("DOCKER_HOST", "")
    if stated:
        return _of_environment(stated, environment)
    sockets = list(usual_sockets(environment))
    there = next((path for path in sockets if answers(path)), sockets[0] if section.enabled is True else None)
    return None if there is None else Address(host=f"unix://{there}")


def usual_sockets(environment: Mapping[str, str]) -> Iterator[str]:
    """Where Docker and Podman put theirs, a person's own before the machine's."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime:
        yield f"{runtime}/docker.sock"
    yield "/var/run/docker.sock"
    if runtime:
        yield f"{runtime}/podman/podman.sock"
    yield "/run/podman/podman.sock"


def answers(path: str) -> bool:
    """Does something listen there to which we may connect?"""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(ANSWERS_WITHIN_S)
            channel.connect(path)
    except OSError:
        return False
    return True


def engine_provider(
    section: Section, address: Address, name: str, allowed_hosts: tuple[str, ...], clock: Clock
) -> ContainerProvider:
    """The provider that the settings of a server describe; nothing is opened yet."""
    options = ContainerOptions(
        address=address,
        name=name,
        region=section.region or None,
        slots=section.slots,
        cpu_cores=section.cpu_cores,
        memory_bytes=section.memory,
        gpus=tuple(
            DeclaredGpu(id=each.id, model=each.model, memory_bytes=int(each.memory_gb * GB)) for each in section.gpus
        ),
        price_usd_per_hour=section.price_per_hour,
        network=section.network,
        read_only_root=section.read_only_root,
        allow_root=section.allow_root,
        tmp_bytes=section.tmp,
        processes=section.processes,
        disk_quota=section.disk_quota,
        log_bytes=section.log_limit,
        output_bytes=section.output_limit,
        allowed_hosts=allowed_hosts,
        checkpoint_days=section.checkpoint_days,
        pull_silence_s=section.pull_silence_seconds,
        collect_limit_s=section.collect_seconds,
        call_limit_s=section.call_seconds,
    )
    return ContainerProvider(options, clock)


def _of_environment(stated: str, environment: Mapping[str, str]) -> Address:
    """As Docker's own client reads it."""
    folder = environment.get("DOCKER_CERT_PATH") or os.path.join(environment.get("HOME", "/"), ".docker")
    if not environment.get("DOCKER_TLS_VERIFY"):
        return Address(host=stated)
    return Address(
        host=stated,
        ca_file=os.path.join(folder, "ca.pem"),
        certificate_file=os.path.join(folder, "cert.pem"),
        key_file=os.path.join(folder, "key.pem"),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser())
