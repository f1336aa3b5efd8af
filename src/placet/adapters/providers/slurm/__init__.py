"""A Slurm cluster as a provider of compute."""

from placet.adapters.providers.slurm.options import GpuKind, Partition, SlurmOptions
from placet.adapters.providers.slurm.provider import SlurmProvider
from placet.adapters.providers.slurm.site import HereSite

__all__ = ["GpuKind", "HereSite", "Partition", "SlurmOptions", "SlurmProvider"]
