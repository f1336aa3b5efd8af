"""``placet.submit``: the client that a program shares without making one."""

import atexit
import threading
from typing import Unpack

from placet.sdk.client import Client, Spec, Workload
from placet.sdk.specs import InlineFields

_lock = threading.Lock()
_client: Client | None = None


def submit(
    spec: Spec | None = None, *, key: str | None = None, quote: str | None = None, **inline: Unpack[InlineFields]
) -> Workload:
    """Submit a workload: a path to a spec file, a mapping, or keyword arguments.

    ``placet.submit(command=["python", "work.py"], gpu_memory="24GB", inputs=["./data"], outputs=["out.jsonl"])``.
    Keyword arguments: ``command``, ``python`` (a script) with ``arguments`` and ``requirements``, ``image``, ``name``,
    ``gpu_memory``, ``gpu_count``, ``gpu_models``, ``cpu``, ``memory``, ``disk``, ``timeout``, ``max_cost``, ``inputs``,
    ``outputs``, ``environment``, ``labels``, ``retries``. The same ``key`` with the same spec is the same workload;
    a ``quote`` of an estimate has to hold still.

    It goes to ``PLACET_URL``, else to the server of the data folder, which is started when there is none.

    Raises:
        SpecError, InvalidSpec: the workload was not accepted; every mistake is listed in ``problems``.
    """
    return _shared().submit(spec, key=key, quote=quote, **inline)


def _shared() -> Client:
    global _client  # noqa: PLW0603 - one for the program, made when it is first needed
    with _lock:
        if _client is None:
            _client = Client()
            atexit.register(_client.close)
        return _client
