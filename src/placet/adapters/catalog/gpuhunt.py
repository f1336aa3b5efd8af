"""Prices of many clouds, as the gpuhunt library lists them, asked in a process of its own. It judges nothing."""

import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from placet.adapters.catalog.gpuhunt_reader import FOLDER, ITEM
from placet.domain.errors import CatalogUnreadable
from placet.domain.listings import Listing
from placet.domain.offers import Trust
from placet.ports.catalog import Bounds, Found

READER = "placet.adapters.catalog.gpuhunt_reader"
INSTALL = "pip install '.[gpuhunt]'"
# What the library has lists of without an account of ours.
PROVIDERS = ("aws", "azure", "cloudrift", "gcp", "lambdalabs", "nebius", "oci", "runpod", "vastai", "verda")
COMPANIES = frozenset(
    {"aws", "azure", "crusoe", "digitalocean", "gcp", "lambdalabs", "nebius", "oci", "verda", "vultr"}
)
COMMUNITIES = frozenset({"lium", "vastai"})
PIECE_BYTES = 256 * 1024
# Regions that are surely in the union; of others nothing is claimed. London and Zurich begin like these and are not.
UNION = frozenset({
    "eu-west-1", "eu-west-3", "eu-central-1", "eu-north-1", "eu-south-1", "eu-south-2",
    "europe-west1", "europe-west3", "europe-west4", "europe-west8", "europe-west9", "europe-west10", "europe-west12",
    "europe-north1", "europe-north2", "europe-central2", "europe-southwest1",
    "westeurope", "northeurope", "francecentral", "germanywestcentral", "swedencentral", "polandcentral",
    "italynorth", "spaincentral",
})  # fmt: skip
STATES = ("us-east-", "us-west-", "us-central", "us-south", "us-gov-", "us-midwest-", "us-ashburn", "us-phoenix")


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What one provider listed."""

    listings: tuple[Listing, ...]
    observed_ms: int


class GpuhuntCatalog:
    """gpuhunt's lists of these providers: by default of those that need no account, or that ``folder`` has a file of.

    What one provider's list said before is kept, with its age, while that list cannot be had.
    """

    name = "gpuhunt"

    def __init__(
        self, *, providers: Sequence[str] = (), folder: Path | None = None, within_s: float, bounds: Bounds
    ) -> None:
        self._providers = tuple(providers)
        self._folder, self._within_s, self._bounds = folder, within_s, bounds
        self._parts: dict[str, _Part] = {}

    async def read(self, known: str = "") -> Found | None:
        del known  # it has no version of all its lists
        if importlib.util.find_spec("gpuhunt") is None:
            raise CatalogUnreadable("gpuhunt is not installed", fix=INSTALL)
        providers = self._providers or await asyncio.to_thread(self._usual)
        lines = await self._ask(providers)
        told = _Told(self.name, lines)
        if not told.parts:
            raise CatalogUnreadable(told.why(), fix="check that its lists can be reached, or name a folder with them")
        self._parts = {**self._parts, **told.parts}
        listings = tuple(listing for part in self._parts.values() for listing in part.listings)
        if len(listings) > self._bounds.rows_max:
            raise CatalogUnreadable(
                f"gpuhunt lists more than {self._bounds.rows_max} rows", fix="name fewer providers, or raise rows_max"
            )
        kept = [
            f"{name}: {why}; {'what it said before is kept' if name in self._parts else 'nothing of it is known'}"
            for name, why in told.failed(providers).items()
        ]
        return Found(listings=listings, warnings=(*kept, *told.notes))

    def _usual(self) -> tuple[str, ...]:
        if self._folder is None:
            return PROVIDERS
        found = tuple(sorted(path.stem for path in self._folder.glob("*.csv")))
        if not found:
            raise CatalogUnreadable(f"{self._folder} has no list", fix="put files such as aws.csv there")
        return found

    async def _ask(self, providers: Sequence[str]) -> list[bytes]:
        """The lines of the reader; whatever happens, its process is gone when this ends."""
        # Accounts of clouds are the library's business, what is set for Placet is not.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
        if self._folder is not None:
            environment[FOLDER] = str(self._folder)
        reader = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            READER,
            str(int(self._within_s)),
            *providers,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        assert reader.stdout is not None
        data = bytearray()
        try:
            while piece := await reader.stdout.read(PIECE_BYTES):
                data += piece
                if len(data) > self._bounds.bytes_max:
                    raise CatalogUnreadable(
                        f"gpuhunt lists more than {self._bounds.bytes_max} bytes", fix="name fewer providers"
                    )
            await reader.wait()
        finally:
            if reader.returncode is None:
                os.killpg(reader.pid, signal.SIGKILL)
                await reader.wait()
        return bytes(data).splitlines()


class _Told:
    """The reader's lines, sorted by provider. Lines that belong to no finished provider count for nothing."""

    def __init__(self, source: str, lines: Sequence[bytes]) -> None:
        self.parts: dict[str, _Part] = {}
        self.notes: list[str] = []
        self._failed: dict[str, str] = {}
        items: list[Mapping[str, Any]] = []
        for line in lines:
            try:
                value = json.loads(line, parse_float=Decimal)
            except ValueError:
                break  # it was stopped in the middle of a line
            if isinstance(value, list):
                items.append(dict(zip(ITEM, value, strict=True)))
            elif "read" in value:
                provider, at_ms = value["read"], value["observed_ms"]
                listings = _listings(source, provider, items, at_ms)
                self.parts[provider] = _Part(listings=listings, observed_ms=at_ms)
                items = []
            elif "failed" in value:
                self._failed[value["failed"]] = value["why"]
                items = []
            else:
                self.notes.append(value["note"])

    def failed(self, providers: Sequence[str]) -> dict[str, str]:
        """Why the others were not read."""
        return {
            name: self._failed.get(name, "the reader broke off before it")
            for name in providers
            if name not in self.parts
        }

    def why(self) -> str:
        """Why nothing was read."""
        first = next(iter(self._failed.items()), None)
        return f"gpuhunt gave nothing: {first[0]}: {first[1]}" if first else "gpuhunt gave nothing and broke off"


def _listings(source: str, provider: str, items: Sequence[Mapping[str, Any]], observed_ms: int) -> tuple[Listing, ...]:
    """One listing for a machine in a place; its spot price, listed apart, is put beside the other."""
    made: dict[tuple[object, ...], Listing] = {}
    again: list[Listing] = []
    for line, item in enumerate(items, 1):
        price = _decimal(item["price"])
        listing = Listing(
            source=source,
            part=provider,
            line=line,
            provider=provider,
            machine=str(item["instance_name"]),
            region=str(item["location"]),
            jurisdiction=_jurisdiction(str(item["location"])),
            gpu_name=item["gpu_name"] if item["gpu_count"] else None,
            gpu_count=item["gpu_count"] or None,
            gpu_memory=_decimal(item["gpu_memory"]) if item["gpu_count"] else None,
            vcpus=_decimal(item["cpu"]),
            memory_gb=_decimal(item["memory"]),
            disk_gb=_decimal(item["disk_size"]),
            price_usd_per_hour=None if item["spot"] else price,
            spot_usd_per_hour=price if item["spot"] else None,
            spot_only=bool(item["spot"]),
            trust=_trust(provider),
            observed_ms=observed_ms,
        )
        key = (listing.machine, listing.region, listing.gpu_name, listing.gpu_count, listing.vcpus, listing.disk_gb)
        other = made.get(key)
        if other is None:
            made[key] = listing
        elif other.spot_only != listing.spot_only and None in (other.spot_usd_per_hour, other.price_usd_per_hour):
            made[key] = _paired(other, listing)
        else:
            again.append(listing)  # listed twice: the normaliser says which one is believed
    return (*made.values(), *again)


def _paired(one: Listing, other: Listing) -> Listing:
    plain, spot = (other, one) if one.spot_only else (one, other)
    return replace(plain, spot_usd_per_hour=spot.spot_usd_per_hour)


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def _jurisdiction(location: str) -> str:
    region = location[:-2] if location[-2:-1] == "-" and location[-1].isalpha() else location
    if region in UNION:
        return "EU"
    return "US" if region.startswith(STATES) else ""


def _trust(provider: str) -> Trust:
    if provider in COMMUNITIES:
        return Trust.COMMUNITY
    return Trust.COMPANY if provider in COMPANIES else Trust.UNKNOWN
