"""Others on the same offers: gpuhunt's query, SkyPilot's optimizer, and the floor of plain NumPy masks."""

import importlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from bench.placement_cases import GB, Case
from bench.report import percentile
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.spec import CapacityType

# What gpuhunt and SkyPilot can be told is limited to clouds that they know; offers are spread over some of these.
GPUHUNT_CLOUDS = ("aws", "azure", "gcp", "lambdalabs", "nebius", "oci", "runpod")
SKYPILOT_TIMEOUT_S = 600
TOP = 20


def numpy_floor(table: OfferTable, cases: Mapping[str, Case], rounds: int) -> dict[str, Any]:
    """Masks over columns that were sorted by price beforehand, and the first twenty: no reasons, counts or scores."""
    order = np.argsort(table.price_micro, kind="stable")
    memory, count, model = table.gpu_memory_bytes[order], table.gpu_count[order], table.gpu_model[order]

    def ask(case: Case) -> int:
        mask = count >= case.gpu_count
        if case.gpu_memory_gb is not None:
            mask &= memory >= case.gpu_memory_gb * GB
        if case.models:
            codes = [table.words["gpu_model"].find(name) for name in case.models]
            mask &= np.logical_or.reduce([model == code for code in codes])
        order[np.flatnonzero(mask)[:TOP]]
        return int(np.count_nonzero(mask))

    return {name: _timed(lambda case=case: ask(case), rounds) for name, case in cases.items()}


def gpuhunt_items(table: OfferTable) -> Any:
    """Its catalogue, filled with these offers."""
    catalogs: Any = importlib.import_module("gpuhunt._internal.catalog")
    models: Any = importlib.import_module("gpuhunt._internal.models")
    catalog = catalogs.Catalog(balance_resources=False, auto_reload=False)
    held: dict[str, list[Any]] = {cloud: [] for cloud in GPUHUNT_CLOUDS}
    for row in range(len(table)):
        offer, cloud = table.offer(row), GPUHUNT_CLOUDS[row % len(GPUHUNT_CLOUDS)]
        held[cloud].append(_gpuhunt_item(models, offer, cloud))
    catalog.catalog = {
        cloud: catalogs.ProviderCatalog(version="bench", items=sorted(items, key=lambda item: item.price))
        for cloud, items in held.items()
    }
    catalog.loaded_at = monotonic()
    return catalog


def _gpuhunt_item(models: Any, offer: Offer, cloud: str) -> Any:
    return models.CatalogItem(
        provider=cloud,
        instance_name=offer.id,
        location=offer.region,
        price=float(offer.price_usd_per_hour),
        cpu=int(offer.cpu_cores),
        memory=offer.memory_bytes / GB,
        gpu_count=offer.gpu.count if offer.gpu else 0,
        gpu_name=offer.gpu.model if offer.gpu else None,
        gpu_memory=offer.gpu.memory_bytes / GB if offer.gpu else None,
        gpu_vendor=models.AcceleratorVendor.NVIDIA if offer.gpu else None,
        spot=offer.capacity_type is CapacityType.SPOT,
        disk_size=None,
    )


def gpuhunt_query(catalog: Any, case: Case, rounds: int) -> dict[str, Any]:
    def ask() -> int:
        found = catalog.query(
            provider=list(GPUHUNT_CLOUDS),
            min_gpu_count=case.gpu_count,
            min_gpu_memory=case.gpu_memory_gb,
            gpu_name=list(case.models) or None,
        )
        return len(found)

    return _timed(ask, rounds)


def skypilot(python: Path | None, table: OfferTable, cases: Mapping[str, Case], rounds: int) -> Any:
    """Its optimizer, in its own Python and with its own home; a text says why not."""
    if python is None:
        return "skipped: say --peers-python FILE, a Python that has SkyPilot installed"
    asked = {
        name: {"count": case.gpu_count, "memory_gb": case.gpu_memory_gb, "models": list(case.models)}
        for name, case in cases.items()
    }
    rows = [_skypilot_row(table.offer(row), row) for row in range(len(table))]
    script = Path(__file__).with_name("peer_skypilot.py")
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"], "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        document = json.dumps({"rows": rows, "cases": asked, "rounds": rounds})
        try:
            done = subprocess.run(
                [str(python), "-P", str(script)],  # `-P`: modules beside the script are not its library
                input=document.encode(),
                capture_output=True,
                env=environment,
                timeout=SKYPILOT_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"skipped: {error}"
    lines = done.stdout.decode().splitlines()
    if done.returncode != 0 or not lines:
        last = done.stderr.decode().strip().splitlines()[-1:] or ["it said nothing"]
        return f"skipped: {last[0]}"
    return json.loads(lines[-1])


def _skypilot_row(offer: Offer, row: int) -> list[object]:
    gpu, price = offer.gpu, float(offer.price_usd_per_hour)
    return [
        f"machine-{row}",
        gpu.model if gpu else "",
        gpu.count if gpu else "",
        gpu.memory_bytes / GB if gpu else "",
        float(offer.cpu_cores) or 1.0,
        offer.memory_bytes / GB or 1.0,
        price,
        offer.region,
    ]


def _timed(ask: Callable[[], int], rounds: int) -> dict[str, Any]:
    fit, times = ask(), []
    for _ in range(rounds):
        started = perf_counter()
        ask()
        times.append((perf_counter() - started) * 1000)
    return {"ms": round(percentile(times, 0.5), 4), "fit": fit}
