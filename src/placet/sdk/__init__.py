"""The client: a core without I/O, a blocking and an asyncio driver over it. Names are loaded when they are used."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.sdk.aio import AsyncClient as AsyncClient
    from placet.sdk.aio import AsyncWorkload as AsyncWorkload
    from placet.sdk.client import Client as Client
    from placet.sdk.client import Workload as Workload
    from placet.sdk.shared import submit as submit

_HOMES = {
    "AsyncClient": "placet.sdk.aio",
    "AsyncWorkload": "placet.sdk.aio",
    "Client": "placet.sdk.client",
    "Workload": "placet.sdk.client",
    "submit": "placet.sdk.shared",
}

__all__ = ["AsyncClient", "AsyncWorkload", "Client", "Workload", "submit"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
