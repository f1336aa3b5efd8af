"""Price lists in files: the shipped demonstration catalogue, and an operator's own CSV or JSON. It judges nothing."""

import csv
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path

from placet.domain.listings import Listing, MemoryUnit

# When the shipped tables were last edited by those who keep them.
SERVERS_EDITED_MS = 1_741_000_000_000
SERVERLESS_EDITED_MS = 1_716_000_000_000
FIELDS = (
    "provider", "instance", "region", "jurisdiction", "gpu_name", "gpu_count", "gpu_memory", "gpu_memory_unit",
    "vcpus", "memory_gb", "price_usd_per_hour", "spot_usd_per_hour", "serverless", "private", "runtimes", "compliance",
)  # fmt: skip


class CatalogueError(Exception):
    """A price list cannot be read; the message says where and why."""


def demonstration() -> list[Listing]:
    """The GPU price tables of Full Stack Deep Learning (MIT), as shipped; prices are of 2024 and 2025."""
    folder = resources.files("placet.adapters.catalog") / "data"
    servers = csv.DictReader((folder / "fsdl_cloud_gpus.csv").read_text("utf-8").splitlines())
    serverless = csv.DictReader((folder / "fsdl_serverless_gpus.csv").read_text("utf-8").splitlines())
    return [
        *(_fsdl(row, line, serverless=False) for line, row in enumerate(servers, 2)),
        *(_fsdl(row, line, serverless=True) for line, row in enumerate(serverless, 2)),
    ]


def _fsdl(row: Mapping[str, str], line: int, *, serverless: bool) -> Listing:
    return Listing(
        source="demonstration",
        provider=row["Vendor" if serverless else "Cloud"].strip().lower().replace(" ", "-"),
        machine=(row.get("Name") or "").strip(),
        gpu_name=row["GPU Type"].strip() or None,
        gpu_count=_whole(row["GPUs"]),
        gpu_memory=_least(row["GPU RAM"]),
        vcpus=_least(row["vCPUs"]),
        memory_gb=_least(row["RAM"]),
        price_usd_per_hour=_number(row["Per-Hour" if serverless else "On-demand"]),
        spot_usd_per_hour=_number(row.get("Spot") or ""),
        serverless=serverless,
        observed_ms=SERVERLESS_EDITED_MS if serverless else SERVERS_EDITED_MS,
        line=line,
    )


def read_catalogue(path: Path) -> list[Listing]:
    """An operator's own list: CSV with a header, or a JSON list of objects, with the fields of a listing.

    Raises:
        CatalogueError: the file cannot be read, or a line has a field that is not known or not of its kind.
    """
    try:
        observed_ms = int(path.stat().st_mtime * 1000)
        text = path.read_text("utf-8-sig")
        rows = list(_rows(path, text))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise CatalogueError(f"{path}: {error}") from error
    return [_listing(path, line, row, observed_ms) for line, row in rows]


def _rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    if path.suffix.lower() != ".json":
        yield from enumerate(csv.DictReader(text.splitlines(), strict=True), 2)
        return
    rows = json.loads(text, parse_float=str, parse_int=str)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CatalogueError(f"{path}: a list of objects is expected")
    for number, row in enumerate(rows, 1):
        yield number, {str(key): _text(value) for key, value in row.items()}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)


def _listing(path: Path, line: int, row: Mapping[str, str], observed_ms: int) -> Listing:
    unknown = sorted(str(name) for name in row if name not in FIELDS)
    if unknown:
        raise CatalogueError(f"{path}, line {line}: unknown field {', '.join(unknown)}; known are {', '.join(FIELDS)}")
    if not row.get("provider"):
        raise CatalogueError(f"{path}, line {line}: provider is missing")
    values = {name: (row.get(name) or "").strip() for name in FIELDS}
    try:
        return Listing(
            source=path.name,
            provider=values["provider"],
            machine=values["instance"],
            region=values["region"],
            jurisdiction=values["jurisdiction"],
            gpu_name=values["gpu_name"] or None,
            gpu_count=_whole(values["gpu_count"]),
            gpu_memory=_number(values["gpu_memory"]),
            gpu_memory_unit=MemoryUnit(values["gpu_memory_unit"] or "gb"),
            vcpus=_number(values["vcpus"]),
            memory_gb=_number(values["memory_gb"]),
            price_usd_per_hour=_number(values["price_usd_per_hour"]),
            spot_usd_per_hour=_number(values["spot_usd_per_hour"]),
            serverless=_truth(values["serverless"]),
            private=_truth(values["private"]),
            runtimes=_list(values["runtimes"]) or ("container",),
            compliance=_list(values["compliance"]),
            observed_ms=observed_ms,
            line=line,
        )
    except ValueError as error:
        raise CatalogueError(f"{path}, line {line}: {error}") from error


def _number(text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        number = Decimal(text.strip().lstrip("$"))
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not number.is_finite():
        raise ValueError(f"{text!r} is not a number")
    return number


def _least(text: str) -> Decimal | None:
    """What these tables give as ``16``, ``16GB`` or ``4-6``, of which the lower end is taken."""
    return _number(text.split("-")[0].upper().removesuffix("GB"))


def _whole(text: str) -> int | None:
    number = _number(text)
    if number is not None and number != int(number):
        raise ValueError(f"{text!r} is not a whole number")
    return None if number is None else int(number)


def _truth(text: str) -> bool:
    if text.lower() not in ("", "true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "yes", "1")


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
