"""Price lists in files: the shipped demonstration catalogue, and an operator's own CSV or JSON. It judges nothing."""

import asyncio
import csv
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib import resources
from pathlib import Path

from placet.adapters.catalog.rows import COLUMNS, listing_of, number, whole
from placet.domain.errors import CatalogUnreadable
from placet.domain.listings import Listing
from placet.ports.catalog import Bounds, Found

# When the shipped tables were last edited by those who keep them.
SERVERS_EDITED_MS = 1_741_000_000_000
SERVERLESS_EDITED_MS = 1_716_000_000_000
SERVERS, SERVERLESS = "fsdl_cloud_gpus.csv", "fsdl_serverless_gpus.csv"
DEMONSTRATION = "demonstration"


class DemonstrationCatalog:
    """The GPU price tables of Full Stack Deep Learning (MIT), as shipped; prices are of 2024 and 2025."""

    name = DEMONSTRATION

    async def read(self, known: str = "") -> Found | None:
        if known == DEMONSTRATION:
            return None
        return Found(listings=tuple(await asyncio.to_thread(demonstration)), version=DEMONSTRATION)


class ListedCapacity:
    """Listings that were given with the settings: the operator's private capacity."""

    def __init__(self, name: str, listings: tuple[Listing, ...]) -> None:
        self.name = name
        self._found = Found(listings=listings, version="settings")

    async def read(self, known: str = "") -> Found | None:
        return None if known == self._found.version else self._found


class FileCatalog:
    """One file, read again when its size or date has changed."""

    def __init__(self, path: Path, *, name: str, bounds: Bounds) -> None:
        self.name = name
        self._path, self._bounds = path, bounds
        self._under_way: asyncio.Future[Found | None] | None = None

    async def read(self, known: str = "") -> Found | None:
        # A thread that hangs in a dead file system cannot be ended; there is never a second one beside it.
        while self._under_way is not None:
            await asyncio.wait([self._under_way])
        self._under_way = asyncio.ensure_future(asyncio.to_thread(self._anew, known))
        self._under_way.add_done_callback(self._done)
        return await asyncio.shield(self._under_way)

    def _done(self, ended: "asyncio.Future[Found | None]") -> None:
        self._under_way = None
        if not ended.cancelled():
            ended.exception()  # if nobody waits for it any more, it is not for the event loop's log either

    def _anew(self, known: str) -> Found | None:
        try:
            with _opened(self._path) as file:
                status = os.fstat(file.fileno())
                version = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
                if version == known:
                    return None
                data = file.read(self._bounds.bytes_max + 1)
        except OSError as error:
            why = error.strerror or "it cannot be read"
            raise CatalogUnreadable(f"{self._path}: {why}", fix="check the path and its permissions") from error
        if len(data) > self._bounds.bytes_max:
            raise CatalogUnreadable(
                f"{self._path} has more than {self._bounds.bytes_max} bytes",
                fix="split it, or leave out what is not used",
            )
        return Found(listings=self._listings(data, status.st_mtime_ns // 1_000_000), version=version)

    def _listings(self, data: bytes, observed_ms: int) -> tuple[Listing, ...]:
        rows_max = self._bounds.rows_max
        listings: list[Listing] = []
        try:
            for line, row in _rows(self._path, data.decode("utf-8-sig")):
                if len(listings) == rows_max:
                    raise CatalogUnreadable(f"{self._path} has more than {rows_max} rows", fix="raise its rows_max")
                listings.append(self._listing(row, line, observed_ms))
        except (UnicodeDecodeError, json.JSONDecodeError, csv.Error, RecursionError) as error:
            kind = "JSON" if _is_json(self._path) else "CSV"
            raise CatalogUnreadable(
                f"{self._path}: {error}", fix=f"write it as {kind} in UTF-8, with the columns of the documentation"
            ) from error
        return tuple(listings)

    def _listing(self, row: Mapping[str, str] | None, line: int, observed_ms: int) -> Listing:
        part = self._path.name
        if row is not None:
            return listing_of(row, source=self.name, part=part, line=line, observed_ms=observed_ms)
        why = "the entry is no object, such as {...}"
        return Listing(
            source=self.name, provider="", machine="", part=part, line=line, observed_ms=observed_ms, unreadable=why
        )


def _opened(path: Path) -> io.BufferedReader:
    """The file, if it is one: to open a pipe would wait for its writer."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(0, "not a regular file")
    return os.fdopen(opened, "rb")


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str] | None]]:
    """Each row with its place; ``None`` for an entry that is none."""
    if not _is_json(path):
        yield from _csv_rows(path, text)
        return
    rows = json.loads(text, parse_float=str, parse_int=str)
    if not isinstance(rows, list):
        raise CatalogUnreadable(f"{path}: a list of objects is expected", fix="write [{...}, {...}]")
    for place, row in enumerate(rows, 1):
        yield place, {str(key): _text(value) for key, value in row.items()} if isinstance(row, dict) else None


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, restkey="", restval="")
    header = list(reader.fieldnames or ())
    unknown = [name for name in header if name not in COLUMNS]
    if unknown or "provider" not in header or len(set(header)) < len(header):
        told = f"unknown column {', '.join(map(repr, unknown))}" if unknown else "`provider` and each column once"
        raise CatalogUnreadable(f"{path}: its header: {told}", fix=f"known columns are {', '.join(COLUMNS)}")
    for row in reader:
        yield (
            reader.line_num,
            {name: value if isinstance(value, str) else ",".join(value) for name, value in row.items()},
        )


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)


def demonstration() -> list[Listing]:
    """The listings of the shipped tables."""
    folder = resources.files("placet.adapters.catalog") / "data"
    servers, serverless = (
        csv.DictReader((folder / part).read_text("utf-8").splitlines()) for part in (SERVERS, SERVERLESS)
    )
    return [
        *(_fsdl(row, line, serverless=False) for line, row in enumerate(servers, 2)),
        *(_fsdl(row, line, serverless=True) for line, row in enumerate(serverless, 2)),
    ]


def _fsdl(row: Mapping[str, str], line: int, *, serverless: bool) -> Listing:
    return Listing(
        source=DEMONSTRATION,
        provider=row["Vendor" if serverless else "Cloud"].strip().lower().replace(" ", "-"),
        machine=(row.get("Name") or "").strip(),
        gpu_name=row["GPU Type"].strip() or None,
        gpu_count=whole(row["GPUs"]),
        gpu_memory=_least(row["GPU RAM"]),
        vcpus=_least(row["vCPUs"]),
        memory_gb=_least(row["RAM"]),
        price_usd_per_hour=number(row["Per-Hour" if serverless else "On-demand"]),
        spot_usd_per_hour=number(row.get("Spot") or ""),
        serverless=serverless,
        observed_ms=SERVERLESS_EDITED_MS if serverless else SERVERS_EDITED_MS,
        line=line,
        part=SERVERLESS if serverless else SERVERS,
    )


def _least(text: str) -> Decimal | None:
    """What these tables give as ``16``, ``16GB`` or ``4-6``, of which the lower end is taken."""
    return number(text.split("-")[0].upper().removesuffix("GB"))
