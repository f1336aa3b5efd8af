"""Makes the Slurm provider that the settings of a server describe; nothing is asked of the cluster yet."""

import os
from pathlib import Path

from placet.adapters.providers.slurm.commands import command_environment, spoken_environment
from placet.adapters.providers.slurm.options import GpuKind, Partition, SlurmOptions
from placet.adapters.providers.slurm.provider import SlurmProvider
from placet.adapters.providers.slurm.settings import SlurmSettings
from placet.adapters.providers.slurm.site import HereSite, Site
from placet.adapters.providers.slurm.ssh import SshSite
from placet.domain.units import GB
from placet.ports.ambient import Clock

# A look at another machine costs a command there.
WATCH_S, WATCH_BY_SSH_S = 0.5, 3.0


def slurm_provider(section: SlurmSettings, allowed_hosts: tuple[str, ...], clock: Clock) -> SlurmProvider:
    """``allowed_hosts``: private hosts from which inputs may be fetched."""
    more = {"PATH": section.path} if section.path else {}
    if section.conf is not None:
        more["SLURM_CONF"] = str(section.conf)
    options = options_of(section, allowed_hosts)
    site: Site
    if section.ssh:
        # Nothing of this machine's environment means anything there.
        site = SshSite(section.ssh, spoken_environment(more), dict(os.environ))
    else:
        site = HereSite(command_environment(os.environ, more))
    return SlurmProvider(options, clock, site)


def options_of(section: SlurmSettings, allowed_hosts: tuple[str, ...]) -> SlurmOptions:
    """The settings as the provider takes them."""
    return SlurmOptions(
        shared=section.shared or Path("/nowhere"),
        region=section.region,
        jurisdiction=section.jurisdiction,
        partitions=tuple(
            Partition(
                name=one.name,
                qos=one.qos,
                account=one.account,
                reservation=one.reservation,
                price_usd_per_hour=one.price_per_hour,
            )
            for one in section.partitions
        ),
        gpus=tuple(
            GpuKind(type=one.type, model=one.model, memory_bytes=int(one.memory_gb * GB)) for one in section.gpus
        ),
        visible=section.visible,
        prologue=section.prologue,
        python=section.python,
        uv=section.uv,
        default_runtime_s=section.default_runtime_seconds,
        margin_s=section.margin_seconds,
        permit_within_s=section.permit_seconds,
        poll_s=section.poll_seconds,
        settle_s=section.settle_seconds,
        watch_s=WATCH_BY_SSH_S if section.ssh else WATCH_S,
        heartbeat_s=section.heartbeat_seconds,
        log_bytes=section.log_limit,
        output_bytes=section.output_limit,
        allowed_hosts=allowed_hosts,
    )
