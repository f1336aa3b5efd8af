"""Placet, an AI workload execution layer: it decides where a workload runs; it is no cloud and no workflow engine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.sdk import AsyncClient as AsyncClient
    from placet.sdk import Client as Client
    from placet.sdk import submit as submit

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "__version__", "submit"]


def __getattr__(name: str) -> object:
    """The client is loaded when it is used: importing ``placet`` costs nothing."""
    if name in ("AsyncClient", "Client", "submit"):
        import placet.sdk

        return getattr(placet.sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
