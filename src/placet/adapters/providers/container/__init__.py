"""Container engines as providers of compute: Docker and Podman, over the Engine API."""

from placet.adapters.providers.container.api import Address
from placet.adapters.providers.container.options import ContainerOptions, DeclaredGpu
from placet.adapters.providers.container.provider import ContainerProvider

__all__ = ["Address", "ContainerOptions", "ContainerProvider", "DeclaredGpu"]
